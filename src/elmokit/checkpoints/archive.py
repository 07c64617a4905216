"""Unpacks zip and tar files from strangers: no path escapes, no links, no decompression bombs."""

import bz2
import gzip
import io
import lzma
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from elmokit.checkpoints.files import reason
from elmokit.errors import CheckpointError, disk_mend

MAX_BYTES = 8 * 2**30
"""Most bytes an archive may unpack to: several times the largest published model."""
MAX_RATIO = 100
"""Most bytes for each byte of the archive; weights hardly compress."""
FREE_BYTES = 64 * 2**20
"""Bytes that any archive may unpack to, whatever the ratio."""
MAX_MEMBERS = 10_000
"""Most files and directories in an archive."""

_CHUNK = 2**20
_COMPRESSIONS: dict[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
_DAMAGE = (
    OSError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
)


def unpack(path: Path, target: Path) -> None:
    """Unpacks a zip or tar file (.gz, .bz2, .xz) into an empty directory.

    Raises:
        CheckpointError: The file is no archive or a damaged one, holds a path that leads outside, a
            link, a device or the same file twice, or unpacks to more than the limits.
    """
    with path.open("rb") as file:
        start = file.read(8)
    limit = min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * path.stat().st_size))
    unpacker = _Unpacker(path, target, limit)
    try:
        if start.startswith(b"PK"):
            unpacker.unpack_zip()
        elif any(map(start.startswith, _COMPRESSIONS)) or tarfile.is_tarfile(path):
            unpacker.unpack_tar(start)
        else:
            raise CheckpointError(
                f"{path}: neither a directory nor a zip or tar file; give the model's directory "
                "(loose files: from Python, with options= and weights=)"
            )
    except _DAMAGE as error:
        rest = ""
        if number := getattr(error, "errno", None):
            rest = f"; {disk_mend(number)} ({target.parent}), or unpack it and give the directory"
        raise CheckpointError(f"{path}: cannot be unpacked: {reason(error)}{rest}") from None


class _Unpacker:
    """Writes the members of one archive, within its limits."""

    def __init__(self, path: Path, target: Path, limit: int) -> None:
        self.path = path
        self.target = target
        self.limit = limit
        self.members = 0
        self.written = 0

    def unpack_zip(self) -> None:
        """Unpacks a zip file, after a look at the sizes that it declares."""
        with zipfile.ZipFile(self.path) as archive:
            members = archive.infolist()
            self.check(sum(member.file_size for member in members))
            for member in members:
                kind = stat.S_IFMT(member.external_attr >> 16)
                target = self.place(member.filename, kind in (0, stat.S_IFREG, stat.S_IFDIR))
                if not member.is_dir():
                    with archive.open(member) as source:
                        self.write(source, target)

    def unpack_tar(self, start: bytes) -> None:
        """Unpacks a tar file in one pass, headers counted too: they can be long as well."""
        opener = next((o for magic, o in _COMPRESSIONS.items() if start.startswith(magic)), None)
        with (
            opener(self.path) if opener else self.path.open("rb") as raw,
            tarfile.open(fileobj=_Checked(raw, self.check), mode="r|") as archive,
        ):
            for member in archive:
                target = self.place(member.name, member.isfile() or member.isdir())
                source = archive.extractfile(member)
                if source is not None:
                    self.write(source, target)

    def place(self, name: str, plain: bool) -> Path:
        """Returns where a member goes, once its kind and its name are found harmless."""
        self.members += 1
        if self.members > MAX_MEMBERS:
            raise CheckpointError(f"{self.path}: holds more than {MAX_MEMBERS:,} files")
        if not plain:
            raise CheckpointError(
                f"{self.path}: {name} is a link or a device, which is not unpacked"
            )
        parts = re.split(r"[/\\]", name)
        if ".." in parts or not parts[0] or ":" in parts[0] or "\0" in name:
            raise CheckpointError(f"{self.path}: {name} would be written outside; not unpacked")
        return self.target.joinpath(*parts)

    def write(self, source: IO[bytes], target: Path) -> None:
        """Writes one file; what it really holds counts, not what it declares."""
        if target.exists():
            raise CheckpointError(f"{self.path}: holds {target.name} twice")
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            while chunk := source.read(_CHUNK):
                self.written += len(chunk)
                self.check(self.written)
                file.write(chunk)

    def check(self, size: int) -> None:
        """Refuses the archive if it unpacks to too much."""
        if size > self.limit:
            raise CheckpointError(
                f"{self.path}: unpacks to more than {self.limit / 2**20:,.0f} MiB; if you trust "
                "it, unpack it and give the directory"
            )


class _Checked(io.RawIOBase):
    """A stream whose bytes are counted and checked as they are read."""

    def __init__(self, raw: IO[bytes], check: Callable[[int], None]) -> None:
        self.raw = raw
        self.check = check
        self.total = 0

    def read(self, size: int = -1, /) -> bytes:
        """Reads up to `size` bytes."""
        data = self.raw.read(size)
        self.total += len(data)
        self.check(self.total)
        return data
