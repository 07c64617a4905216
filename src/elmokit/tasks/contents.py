"""What a run learns from that its settings only name: the content of its files, and the biLM."""

from collections.abc import Mapping
from pathlib import Path

from elmokit.embedding.manifest import Digest
from elmokit.errors import InputError
from elmokit.tasks.config import TaskConfig
from elmokit.text.lines import STDIN

Contents = Mapping[str, str | None]
"""What was learnt from -> its digest; None where there is none."""


def contents_of(config: TaskConfig, bilm: str | None) -> dict[str, str | None]:
    """Returns what a run learns from, by the setting that names it.

    Args:
        config: The run.
        bilm: The fingerprint of its biLM; None without ELMo.

    Raises:
        InputError: A file cannot be read.
    """
    return {
        "data.train": _digest(config.data.train),
        "data.dev": _digest(config.data.dev),
        "elmo.model": bilm,
    }


def other_contents(before: Contents, now: Contents) -> list[str]:
    """Returns `key: has another content` for each that differs; what was not noted may be any."""
    return [f"{key}: has another content" for key in before if before[key] != now.get(key)]


def _digest(source: str) -> str | None:
    """Returns the digest of a file's content; None for a pipe, which can be read but once."""
    path = Path(source)
    if source == STDIN or (path.exists() and not path.is_file()):
        return None
    try:
        return Digest.of(path).sha256
    except OSError as error:
        raise InputError(f"{source}: cannot be read: {error.strerror}") from None
