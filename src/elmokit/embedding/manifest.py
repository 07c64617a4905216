"""What an unfinished run has done so far: the manifest in its folder of parts."""

import dataclasses
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from elmokit.config import parse
from elmokit.errors import ConfigError, OutputError

VERSION = 2
"""Version of the layout of the manifest and of the parts."""

Stage = Literal["writing", "written", "joined"]
"""Rows are still to come; all rows are in parts; the output is in its place, parts may be gone."""


START_AFRESH = "use --overwrite to start afresh"
"""The mend for everything that is damaged in a folder of parts."""

_DAMAGE = (ValueError, RecursionError, KeyError, TypeError, AttributeError)
"""What comes of reading something else than a manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """What a file must still be when a run goes on."""

    num_bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Self:
        """Measures a file.

        Raises:
            OSError: The file cannot be read.
        """
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            return cls(num_bytes=file.tell(), sha256=sha256)

    @classmethod
    def of_bytes(cls, data: bytes) -> Self:
        """Measures what is to be written to a file."""
        return cls(num_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())

    def check(self, path: Path) -> None:
        """Makes sure that a file is what it was.

        Raises:
            OutputError: It is not, or cannot be read.
        """
        try:
            found = Digest.of(path) if path.is_file() else None
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}; {START_AFRESH}") from error
        if found is None:
            raise OutputError(f"{path}: is missing; {START_AFRESH}")
        if found != self:
            sizes = f"{found.num_bytes:,} bytes, {self.num_bytes:,} were written"
            what = sizes if found.num_bytes != self.num_bytes else "other bytes than were written"
            raise OutputError(f"{path}: is damaged ({what}); {START_AFRESH}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A finished part file."""

    name: str
    first_row: int
    num_rows: int
    num_tokens: int
    summary: Mapping[str, int]
    """Counters of the caller."""
    file: Digest
    """What the part file holds."""
    state: Digest | None = None
    """What the file of the state after this part holds; None if there is no state."""


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
        content = path.read_bytes()
        try:
            data = json.loads(content)
            version, digest = data["version"], data.pop("sha256", None)
            manifest = cls._parse(data, digest) if version == VERSION else None
        except _DAMAGE as error:
            raise OutputError(f"{path}: damaged ({error!r}); {START_AFRESH}") from error
        if manifest is None:
            raise OutputError(
                f"{path}: has version {version!r}, this elmokit reads {VERSION}; {START_AFRESH}"
            )
        return manifest

    @classmethod
    def _parse(cls, data: Mapping[str, Any], digest: object) -> Self:
        if digest != _sha256(data):
            raise ConfigError("it is not as it was written")
        parts = parse(tuple[Part, ...], data["parts"], "parts")
        first_row = 0
        for number, part in enumerate(parts):
            if (part.name, part.first_row) != (part_name(number), first_row) or part.num_rows < 0:
                raise ConfigError(f"parts[{number}] does not follow on the parts before it")
            first_row += part.num_rows
        return cls(
            settings=dict(data["settings"]),
            parts=parts,
            stage=parse(Stage, data["stage"], "stage"),  # type: ignore[arg-type]  # a Literal
        )

    def save(self, path: Path) -> None:
        """Puts the manifest in the place of the last one; a crash leaves one or the other.

        Raises:
            OSError: The disk is full or refuses.
        """
        data = {"version": VERSION, **dataclasses.asdict(self), "settings": dict(self.settings)}
        data["sha256"] = _sha256(data)
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
                f"({'; '.join(changes)}); change them back, or {START_AFRESH}"
            )


def part_name(number: int) -> str:
    """Returns the name of a part file by its number, from 0."""
    return f"{number:06d}.npz"


def _sha256(data: Mapping[str, Any]) -> str:
    """Returns the digest of JSON values, however their text is laid out."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


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
