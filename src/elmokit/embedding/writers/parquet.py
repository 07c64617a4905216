"""Parquet: one row per input row, with index, tokens, shape and vector (the values in C order).

`tokens` and `id` are JSON text, since Parquet strings refuse lone surrogates; `id`, `line` and
`character_offsets` are null where rows have none. The file's metadata `elmokit` is JSON text with
the settings of the run. Nothing is compressed: vectors hardly become smaller.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.embedding.writers.estimate import Volume
from elmokit.embedding.writers.record import EmbeddedRow, RowText, Vectors, to_json, to_offsets
from elmokit.errors import InputError
from elmokit.extras import needed

_GROUP_VALUES = 2**22
"""Values in a row group: what is in memory at once, in the writer and in a reader."""

_TEXT_COLUMNS = ("tokens", "id", "line", "character_offsets")


class ParquetWriter:
    """Writes row groups of bounded size.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """

    def __init__(self) -> None:
        self._arrow, self._parquet = _pyarrow()

    def write(self, path: Path, rows: Iterable[EmbeddedRow], settings: Mapping[str, Any]) -> None:
        """Writes a complete file; see `Writer.write`."""
        groups = _groups(rows)
        group = next(groups, [])
        dtype = group[0].vectors.dtype if group else np.dtype(np.float32)
        schema = self._schema(dtype, settings)
        options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
        with (
            path.open("wb") as file,
            self._parquet.ParquetWriter(file, schema, **options) as writer,
        ):
            first = 0
            while group:
                size = len(group)
                writer.write_table(self._table(first, group, schema), row_group_size=size)
                first += size
                group.clear()  # before the next one fills the memory
                group = next(groups, [])

    def estimate_bytes(self, volume: Volume) -> int:
        """Estimates the size of the file; see `Writer.estimate_bytes`."""
        return volume.vector_bytes + volume.text_bytes + 24 * volume.num_rows + 4096

    def _schema(self, dtype: np.dtype[Any], settings: Mapping[str, Any]) -> Any:
        arrow = self._arrow
        return arrow.schema(
            {
                "index": arrow.int64(),
                "tokens": arrow.string(),
                "shape": arrow.list_(arrow.int64()),
                "vector": arrow.list_(arrow.from_numpy_dtype(dtype)),
                "id": arrow.string(),
                "line": arrow.int64(),
                "character_offsets": arrow.list_(arrow.list_(arrow.int64())),
            },
            metadata={"elmokit": to_json(dict(settings))},
        )

    def _table(self, first: int, group: list[EmbeddedRow], schema: Any) -> Any:
        arrow = self._arrow
        ends = np.cumsum([0, *(row.vectors.size for row in group)], dtype=np.int32)
        values = np.concatenate([row.vectors.ravel() for row in group])
        columns = {
            "index": range(first, first + len(group)),
            "tokens": [to_json(row.tokens) for row in group],
            "shape": [row.vectors.shape for row in group],
            "vector": arrow.ListArray.from_arrays(arrow.array(ends), arrow.array(values)),
            "id": [None if row.id is None else to_json(row.id) for row in group],
            "line": [row.line for row in group],
            "character_offsets": [row.offsets for row in group],
        }
        return arrow.table(columns, schema=schema)


def _groups(rows: Iterable[EmbeddedRow]) -> Iterator[list[EmbeddedRow]]:
    group: list[EmbeddedRow] = []
    size = 0
    for row in rows:
        group.append(row)
        size += max(row.vectors.size, 64)  # rows without vectors count as well
        if size >= _GROUP_VALUES:
            yield group
            group, size = [], 0
    if group:
        yield group


class ParquetReader:
    """Reads what `ParquetWriter` writes, one row group at a time."""

    def __init__(self, path: Path) -> None:
        self._file = _pyarrow()[1].ParquetFile(path)
        names = self._file.schema_arrow.names
        lacking = [name for name in ("tokens", "shape", "vector") if name not in names]
        if lacking:
            raise InputError(f"{path}: no embeddings; columns {', '.join(lacking)} are missing")
        metadata = self._file.schema_arrow.metadata or {}
        self.settings: dict[str, Any] = json.loads(metadata.get(b"elmokit", b"{}"))
        self._text_columns = [name for name in _TEXT_COLUMNS if name in names]
        sizes = [
            self._file.metadata.row_group(group).num_rows
            for group in range(self._file.num_row_groups)
        ]
        self._starts: NDArray[np.int64] = np.cumsum([0, *sizes], dtype=np.int64)
        self._cache: dict[str, tuple[int, Any]] = {}

    def __len__(self) -> int:
        return int(self._starts[-1])

    def vectors(self, row: int) -> Vectors:
        """Returns the vectors of a row."""
        table, place = self._find(row, "vectors", ["shape", "vector"])
        values: Vectors = table["vector"][place].values.to_numpy(zero_copy_only=False)
        return values.reshape(table["shape"][place].as_py()).copy()

    def text(self, row: int) -> RowText:
        """Returns what a row was made from."""
        table, place = self._find(row, "text", self._text_columns)
        values = {name: table[name][place].as_py() for name in self._text_columns}
        name = values.get("id")
        return RowText(
            tokens=tuple(json.loads(values["tokens"])),
            id=None if name is None else json.loads(name),
            line=values.get("line"),
            offsets=to_offsets(values.get("character_offsets")),
        )

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _find(self, row: int, kind: str, columns: list[str]) -> tuple[Any, int]:
        """Returns the columns of the row's group, and the row's place in it."""
        group = int(np.searchsorted(self._starts, row, side="right")) - 1
        if kind not in self._cache or self._cache[kind][0] != group:
            self._cache.pop(kind, None)
            table = self._file.read_row_group(group, columns=columns)
            self._cache[kind] = group, table
        return self._cache[kind][1], row - int(self._starts[group])


def _pyarrow() -> tuple[Any, Any]:
    with needed("pyarrow", '.parquet files need pyarrow; pip install "elmokit[arrow]"'):
        import pyarrow
        import pyarrow.parquet
    return pyarrow, pyarrow.parquet
