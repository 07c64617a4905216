"""The text that a model is trained on: patterns -> files."""

import glob
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from elmokit.errors import ConfigError, InputError

_logger = logging.getLogger(__name__)

_WILDCARDS = frozenset("*?[")
_QUOTES = "'\"\u2018\u2019\u201c\u201d"
_MOST_NAMES = 8
"""Entries of a folder that a message lists."""


def find_files(patterns: Sequence[str]) -> list[Path]:
    """Returns the files that names and patterns stand for, each once.

    Args:
        patterns: Names of files, or patterns with `*`, `?`, `[...]` and `**`; a name that exists is
            taken as it is, and `~` is the home directory. The files of a pattern come in the order
            of their names.

    Raises:
        ConfigError: There is no pattern.
        InputError: A pattern matches no file; the message tells what lies in its folder.
    """
    files: dict[Path, Path] = {}
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        for path in _matches(pattern):
            if files.setdefault(path.resolve(), path) is not path:
                _logger.warning("%s: is named more than once; it is read once", path)
    if not files:
        raise ConfigError("corpus: no file is named; give files, or patterns such as 'text/*.txt'")
    return list(files.values())


def _matches(pattern: str) -> list[Path]:
    pattern = os.path.expanduser(pattern)  # noqa: PTH111  # Path.expanduser raises without a home
    found = _glob(glob.escape(pattern)) or _glob(pattern)
    files = [path for path in found if not path.is_dir()]
    if files:
        return files
    if found:
        raise InputError(f"{pattern}: is a folder; name its files, as in {found[0] / '*.txt'}")
    mend = ""
    if set(_QUOTES) & set(pattern):
        mend = "; there are quotes inside the pattern, leave them out"
    raise InputError(f"{pattern}: matches no file; {_listing(pattern)}{mend}")


def _glob(pattern: str) -> list[Path]:
    return [Path(name) for name in sorted(glob.glob(pattern, recursive=True))]  # noqa: PTH207  # Path.glob takes no absolute pattern


def _listing(pattern: str) -> str:
    """Tells what lies in the folder that a pattern looks into, or in the nearest there is."""
    bare = pattern.strip().strip(_QUOTES)
    parents = [path for path in Path(bare).parents if not _WILDCARDS & set(str(path))]
    folder = next((path for path in parents if os.path.isdir(path)), Path())  # noqa: PTH112  # Path.is_dir raises if a name is too long
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        return f"the folder {folder} cannot be listed: {error.strerror}"
    if not names:
        return f"the folder {folder} is empty"
    shown = ", ".join(names[:_MOST_NAMES])
    num_more = len(names) - _MOST_NAMES
    return f"the folder {folder} holds {shown}{f' and {num_more} more' if num_more > 0 else ''}"
