"""npz: one array per row, named `str(row)`; `numpy.load` reads it.

Beside the rows: `sentences` (uint8: JSON Lines text, a list of tokens per row) and, where rows
have them, `ids` and `character_offsets` (the same kind of text, null for none) and `lines`
(int64, -1 for none); `elmokit` (uint8: JSON text) holds the settings of the run.
"""

import io
import json
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from elmokit.embedding.writers.estimate import Volume
from elmokit.embedding.writers.record import EmbeddedRow, RowText, Vectors, to_json, to_offsets
from elmokit.errors import InputError

_TEXTS = ("sentences", "ids", "character_offsets")

_HEADER_START = 10  # bytes before a header of version 1.0; the last two are its length
_CHUNK_BYTES = 2**20


class NpzWriter:
    """Writes a zip of arrays, entry by entry; the same rows give the same bytes."""

    def write(self, path: Path, rows: Iterable[EmbeddedRow], settings: Mapping[str, Any]) -> None:
        """Writes a complete file; see `Writer.write`."""
        with ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(path, "w"))
            columns = {
                name: _Column(stack.enter_context(tempfile.TemporaryFile(dir=path.parent)))
                for name in (*_TEXTS, "lines")
            }
            for number, row in enumerate(rows):
                _add_array(archive, str(number), row.vectors)
                columns["sentences"].append_json(row.tokens)
                columns["ids"].append_json(row.id)
                columns["character_offsets"].append_json(row.offsets)
                columns["lines"].append_number(row.line)
            columns["sentences"].used = True
            for name, column in columns.items():
                if column.used:
                    column.copy_to(archive, name, np.int64 if name == "lines" else np.uint8)
            text = to_json(dict(settings)).encode()
            _add_array(archive, "elmokit", np.frombuffer(text, np.uint8))

    def estimate_bytes(self, volume: Volume) -> int:
        """Estimates the size of the file; see `Writer.estimate_bytes`."""
        entry = 128 + 30 + 20 + 46 + 2 * 8  # array header, zip headers, the name twice
        return volume.vector_bytes + entry * volume.num_rows + volume.text_bytes


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(f"{name}.npy")  # with the zip epoch as its date


def _add_array(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    # Without zip64 from the start, zipfile fails at 2 GiB; numpy.savez does the same.
    with archive.open(_member(name), "w", force_zip64=True) as file:
        np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)


class _Column:
    """One value per row, gathered in an unnamed file until the number of rows is known."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.used = False

    def append_json(self, value: Any) -> None:
        self.used |= value is not None
        self.file.write(to_json(value).encode() + b"\n")

    def append_number(self, value: int | None) -> None:
        self.used |= value is not None
        self.file.write(struct.pack("<q", -1 if value is None else value))

    def copy_to(self, archive: zipfile.ZipFile, name: str, dtype: type[np.generic]) -> None:
        descriptor = np.dtype(dtype).newbyteorder("<")
        shape = (self.file.tell() // descriptor.itemsize,)
        header = {"descr": descriptor.str, "fortran_order": False, "shape": shape}
        self.file.seek(0)
        with archive.open(_member(name), "w", force_zip64=True) as file:
            np.lib.format.write_array_header_1_0(file, header)
            shutil.copyfileobj(self.file, file, 2**20)


@lru_cache(maxsize=1024)
def _parse_header(header: bytes) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """Returns the shape and the dtype of an array as we write it; None for another kind."""
    file = io.BytesIO(header)
    if np.lib.format.read_magic(file) != (1, 0):
        return None
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
    return None if is_fortran or dtype.hasobject else (shape, dtype)


class NpzReader:
    """Reads what `NpzWriter` writes."""

    def __init__(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(path)
        try:
            self._names = {name.removesuffix(".npy") for name in self._archive.namelist()}
            self._num_rows = sum(name.isascii() and name.isdecimal() for name in self._names)
            if self._num_rows == 0 and "elmokit" not in self._names:
                found = ", ".join(self._archive.namelist()[:4]) or "nothing"
                raise InputError(
                    f"{path}: a zip without embeddings; 0.npy, 1.npy, ... expected, found {found}"
                )
            settings = self._bytes("elmokit") or b"{}"
            self.settings: dict[str, Any] = json.loads(settings)
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return self._num_rows

    def vectors(self, row: int) -> Vectors:
        """Returns the vectors of a row."""
        return self._array(str(row))

    def text(self, row: int) -> RowText:
        """Returns what a row was made from."""
        values = {name: lines[row] for name, lines in self._texts.items()}
        number = -1 if self._lines is None else int(self._lines[row])
        tokens, offsets = values.get("sentences"), values.get("character_offsets", b"null")
        return RowText(
            tokens=None if tokens is None else tuple(json.loads(tokens)),
            id=json.loads(values.get("ids", b"null")),
            line=None if number < 0 else number,
            offsets=to_offsets(json.loads(offsets)),
        )

    def close(self) -> None:
        """Closes the file."""
        self._archive.close()

    @cached_property
    def _texts(self) -> dict[str, list[bytes]]:
        return {name: self._bytes(name).splitlines() for name in _TEXTS if name in self._names}

    @cached_property
    def _lines(self) -> NDArray[np.int64] | None:
        return self._array("lines") if "lines" in self._names else None

    def _array(self, name: str) -> NDArray[Any]:
        # numpy's own reader parses every header as Python text, longer than a short row takes.
        with self._archive.open(f"{name}.npy") as file:
            start = file.read(_HEADER_START)
            header = start + file.read(int.from_bytes(start[-2:], "little"))
            kind = _parse_header(header)
            if kind is None:
                file.seek(0)
                return np.lib.format.read_array(file, allow_pickle=False)
            shape, dtype = kind
            array = np.empty(shape, dtype)
            octets = array.reshape(-1).view(np.uint8)
            place = 0
            while chunk := file.read(_CHUNK_BYTES):
                octets[place : place + len(chunk)] = np.frombuffer(chunk, np.uint8)
                place += len(chunk)
        if place < len(octets):
            raise EOFError(f"{name}.npy ends too early")
        return array

    def _bytes(self, name: str) -> bytes:
        return self._array(name).tobytes() if name in self._names else b""
