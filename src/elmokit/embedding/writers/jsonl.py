"""JSON Lines: one record per row with index, tokens, shape and vector (the values in C order).

Where rows have them, a record also has `id`, `line` and `character_offsets`; `dtype` stands there
if it is not float32. The numbers have as many digits as it takes to give back the same bits.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.embedding.writers.estimate import Volume
from elmokit.embedding.writers.record import EmbeddedRow, RowText, Vectors, to_json, to_offsets
from elmokit.errors import InputError

_VECTOR = b',"vector":['
"""Comes after all other fields, so that these can be read alone: in JSON strings `"` is escaped."""

_SCAN_BYTES = 2**20

_FORMATS = {np.dtype(np.float32): "%.9g", np.dtype(np.float16): "%.5g"}


class JSONLWriter:
    """Writes one line per row; the settings of the run have no place in this format."""

    def write(self, path: Path, rows: Iterable[EmbeddedRow], settings: Mapping[str, Any]) -> None:
        """Writes a complete file; see `Writer.write`."""
        del settings
        with path.open("wb") as file:
            for number, row in enumerate(rows):
                fields = {
                    "index": number,
                    "id": row.id,
                    "line": row.line,
                    "tokens": row.tokens,
                    "character_offsets": row.offsets,
                    "dtype": None if row.vectors.dtype == np.float32 else row.vectors.dtype.name,
                    "shape": row.vectors.shape,
                }
                known = {name: value for name, value in fields.items() if value is not None}
                file.write(to_json(known).encode()[:-1] + _VECTOR)
                file.write(_numbers(row.vectors).encode() + b"]}\n")

    def estimate_bytes(self, volume: Volume) -> int:
        """Estimates the size of the file; see `Writer.estimate_bytes`."""
        digits = {np.dtype(np.float32): 12.2, np.dtype(np.float16): 8.3}[np.dtype(volume.dtype)]
        return int(digits * volume.num_values) + volume.text_bytes + 52 * volume.num_rows


def _numbers(vectors: Vectors) -> str:
    """Returns the values as JSON numbers without the brackets around them."""
    values = vectors.ravel()
    if np.any((values == 0) & np.signbit(values)) or not np.isfinite(values).all():
        return to_json(values.tolist())[1:-1]  # which knows -0.0, NaN and Infinity
    numbers = tuple(values.tolist())
    return ",".join([_FORMATS[vectors.dtype]] * len(numbers)) % numbers


class JSONLReader:
    """Reads what `JSONLWriter` writes; where each line begins is found when the file is opened."""

    def __init__(self, path: Path) -> None:
        self.settings: dict[str, Any] = {}
        self._path = path
        self._file = path.open("rb")
        try:
            self._starts = self._find_lines()
            if len(self):
                self.text(0)  # tells at once if the file holds other records
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._starts) - 1

    def vectors(self, row: int) -> Vectors:
        """Returns the vectors of a row."""
        record = self._parse(row, self._line(row))
        try:
            values: Vectors = np.array(record["vector"], record.get("dtype", "float32"))
            return values.reshape(record["shape"])
        except (KeyError, TypeError, ValueError) as error:
            raise self._wrong(row, error) from error

    def text(self, row: int) -> RowText:
        """Returns what a row was made from."""
        line = self._line(row)
        end = line.find(_VECTOR)
        record = self._parse(row, line if end < 0 else line[:end] + b"}")
        try:
            return RowText(
                tokens=tuple(record["tokens"]),
                id=record.get("id"),
                line=record.get("line"),
                offsets=to_offsets(record.get("character_offsets")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise self._wrong(row, error) from error

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _find_lines(self) -> NDArray[np.int64]:
        """Returns where each line begins, and where the last one ends."""
        starts, size = [np.zeros(1, np.int64)], 0
        while chunk := self._file.read(_SCAN_BYTES):
            starts.append(np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n")) + size + 1)
            size += len(chunk)
        found = np.concatenate(starts)
        if found[-1] != size:
            raise InputError(f"{self._path}: line {len(found)} has no end; the file is truncated")
        return found

    def _line(self, row: int) -> bytes:
        start, end = int(self._starts[row]), int(self._starts[row + 1])
        self._file.seek(start)
        return self._file.read(end - start)

    def _parse(self, row: int, line: bytes) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except ValueError as error:
            raise self._wrong(row, error) from error
        if not isinstance(record, dict):
            raise self._wrong(row, "a record was expected")
        return record

    def _wrong(self, row: int, problem: object) -> InputError:
        return InputError(
            f"{self._path}: line {row + 1} is no record with tokens, shape and vector ({problem!r})"
        )
