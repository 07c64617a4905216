"""What an unfinished run has done so far: the manifest in its folder of parts."""

import dataclasses
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from elmokit.config import parse
from elmokit.errors import ConfigError, OutputError

VERSION = 1
"""Version of the layout of the manifest and of the parts."""

Stage = Literal["writing", "written", "joined"]
"""Rows are still to come; all rows are in parts; the output is in its place, parts may be gone."""


_DAMAGE = (ConfigError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError)
"""What comes of reading something else than a manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A finished part file."""

    name: str
    first_row: int
    num_rows: int
    num_tokens: int
    num_bytes: int
    """Size of the file."""
    summary: Mapping[str, int]
    """Counters of the caller."""
    has_state: bool
    """Whether the state after this part was stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The settings of a run and its finished parts, in order."""

    settings: Mapping[str, Any]
    """Everything that decides what the output holds, as JSON values."""
    parts: tuple[Part, ...] = ()
    stage: Stage = "writing"

    @property
    def num_rows(self) -> int:
        """Rows in all parts."""
        return self.parts[-1].first_row + self.parts[-1].num_rows if self.parts else 0

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads what `save` wrote.

        Raises:
            OutputError: The file is damaged or was written by another version.
            OSError: The file cannot be read.
        """
        start_afresh = "use --overwrite to start afresh"
        try:
            data = json.loads(path.read_bytes())
            version = data["version"]
            if version != VERSION:
                raise OutputError(
                    f"{path}: has version {version}, this elmokit reads {VERSION}; {start_afresh}"
                )
            return cls(
                settings=dict(data["settings"]),
                parts=parse(tuple[Part, ...], data["parts"], "parts"),
                stage=parse(Stage, data["stage"], "stage"),  # type: ignore[arg-type]  # a Literal
            )
        except _DAMAGE as error:
            raise OutputError(f"{path}: damaged ({error!r}); {start_afresh}") from error

    def save(self, path: Path) -> None:
        """Puts the manifest in the place of the last one; a crash leaves one or the other.

        Raises:
            OSError: The disk is full or refuses.
        """
        data = {"version": VERSION, **dataclasses.asdict(self), "settings": dict(self.settings)}
        write_atomically(path, json.dumps(data, indent=1).encode())

    def with_part(self, part: Part) -> Self:
        """Returns the manifest with one more part."""
        return dataclasses.replace(self, parts=(*self.parts, part))

    def with_stage(self, stage: Stage) -> Self:
        """Returns the manifest at another stage."""
        return dataclasses.replace(self, stage=stage)

    def check_settings(self, settings: Mapping[str, Any], out: Path) -> None:
        """Makes sure that a run goes on as it began.

        Raises:
            OutputError: A setting differs; the message names each one, then and now.
        """
        missing = object()
        changes = []
        for name in sorted({*self.settings, *settings}):
            old, new = self.settings.get(name, missing), settings.get(name, missing)
            if old != new or type(old) is not type(new):
                texts = ["nothing" if v is missing else json.dumps(v) for v in (old, new)]
                changes.append(f"{name}: {texts[0]} -> {texts[1]}")
        if changes:
            raise OutputError(
                f"{out}: cannot resume with other settings than the run began with "
                f"({'; '.join(changes)}); change them back, or use --overwrite to start afresh"
            )


def write_atomically(path: Path, data: bytes | memoryview) -> None:
    """Writes a file beside its place, syncs it and moves it there."""
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_bytes(data)
    move_into_place(temporary, path)


def move_into_place(temporary: Path, path: Path) -> None:
    """Syncs a finished file and renames it, so that a crash leaves the old file or the new one."""
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Makes renames in a folder survive a power failure; Windows has no such call."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
