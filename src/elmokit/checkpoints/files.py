"""Plain files of a model's directory: JSON, word lists, and which of several files is meant."""

import contextlib
import dataclasses
import fnmatch
import gzip
import io
import itertools
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from elmokit.config import parse
from elmokit.errors import CheckpointError, ConfigError

_T = TypeVar("_T")

_PLACEHOLDER = "!!!MAXTERMID"
"""A line of some word lists that is no word and has no id."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a format makes of a directory."""

    files: Mapping[str, Path]
    """Role -> file to read; not all are there if something is missing."""
    lacks: tuple[str, ...] = ()
    """What is missing, in words; empty if the directory is of this format."""


def expanded(path: str | os.PathLike[str]) -> Path:
    """Returns a path with the home directory that `~` stands for.

    Raises:
        CheckpointError: There is no such user.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise CheckpointError(
            f"{os.fspath(path)}: whose home ~ stands for is not known; give the path without ~"
        ) from None


def visible(directory: Path) -> list[Path]:
    """Returns a directory's entries in order, without hidden ones and the litter of archivers."""
    return sorted(
        entry
        for entry in directory.iterdir()
        if not entry.name.startswith(".") and entry.name != "__MACOSX"
    )


def candidates(directory: Path, *tiers: Sequence[str]) -> list[Path]:
    """Returns the files that fit the first tier of name patterns that any file fits."""
    files = [entry for entry in visible(directory) if entry.is_file()]
    for patterns in tiers:
        fitting = [f for f in files if any(fnmatch.fnmatchcase(f.name, p) for p in patterns)]
        if fitting:
            return fitting
    return []


def names(files: Iterable[Path]) -> str:
    """Returns the names of files for a message."""
    return ", ".join(file.name for file in files)


def read_bytes(path: Path) -> bytes:
    """Reads a file, unpacked if its name ends in `.gz`.

    Raises:
        CheckpointError: The file cannot be read.
    """
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError, zlib.error) as error:
        raise CheckpointError(f"{path}: cannot be read: {reason(error)}") from None


def read_text(path: Path) -> str:
    """Reads UTF-8 text, all line ends as they are.

    Raises:
        CheckpointError: The file cannot be read or is not UTF-8; the message has the line and byte.
    """
    data = read_bytes(path)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CheckpointError(
            f"{path}, line {line}: byte {error.start} (0x{data[error.start]:02x}) is not UTF-8; "
            "store the file as UTF-8"
        ) from None


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        CheckpointError: The file cannot be read or is not a JSON object.
    """
    try:
        data = json.loads(read_text(path).removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise CheckpointError(
            f"{path}: not complete JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except (RecursionError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{path}: cannot be read as JSON: {reason(error)}") from None
    if not isinstance(data, dict):
        raise CheckpointError(f"{path}: expected a JSON object, found {type(data).__name__}")
    return data


def parse_block(kind: type[_T], data: object, where: str) -> _T:
    """Parses a JSON object of a foreign program, whose other keys are none of our business.

    Raises:
        ConfigError: A field is missing or of a wrong type.
    """
    if isinstance(data, Mapping):
        known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]  # a dataclass
        data = {name: value for name, value in data.items() if name in known}
    return parse(kind, data, where)


@contextlib.contextmanager
def foreign_names(where: str, names: Mapping[str, str]) -> Iterator[None]:
    """Lets an error of our configuration speak of a file's own fields.

    Args:
        where: The file and the block, for the message.
        names: Our field -> the file's.

    Raises:
        CheckpointError: In the place of ConfigError.
    """
    try:
        yield
    except ConfigError as error:
        text = re.sub(r"\w+", lambda word: names.get(word[0], word[0]), str(error))
        raise CheckpointError(f"{where}: {text}") from None


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Writes a JSON object as ASCII, which holds every string, in the order of its keys."""
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="ascii")


def split_lines(text: str) -> tuple[str, ...]:
    """Returns the words of a list of one word a line, exactly as they stand there."""
    *lines, last = text.split("\n")
    return (*lines, last) if last else tuple(lines)


def split_words(text: str) -> tuple[str, ...]:
    """Returns the words of a list as bilm-tf reads it.

    A word is a line without the white space around it; `!!!MAXTERMID` is no word. A byte-order mark
    before the first word is left out.
    """
    lines = io.StringIO(text.removeprefix("\ufeff"), newline=None)
    return tuple(word for line in lines if (word := line.strip()) != _PLACEHOLDER)


def write_words(
    path: Path, words: Sequence[str], split: Callable[[str], tuple[str, ...]] = split_lines
) -> None:
    """Writes a word list, one word a line, that `split` takes apart again as it was.

    Raises:
        CheckpointError: A word cannot stand on a line of its own.
    """
    text = "".join(f"{word}\n" for word in words)
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise CheckpointError(
            f"{path.name}: {text[error.start]!r} in a word cannot be written as UTF-8"
        ) from None
    again = split(text)
    if again != tuple(words):
        pairs = itertools.zip_longest(words, again)
        word = next(word for word, found in pairs if word != found)
        raise CheckpointError(f"{path.name}: the word {word!r} cannot stand on a line of its own")
    path.write_bytes(data)


def reason(error: BaseException) -> str:
    """Returns the first line of what an exception says, or its kind if it says nothing."""
    text = getattr(error, "strerror", None) or str(error)
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
