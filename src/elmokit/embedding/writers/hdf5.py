"""HDF5: one dataset per row, as the AllenNLP and bilm-tf commands write it, or one for all rows.

Both layouts hold `sentences` (row -> JSON list of its tokens) and, where rows have them, `ids`
(JSON strings), `lines` (int64, -1 for none) and `character_offsets` (JSON lists of pairs); the
attribute `elmokit` is JSON text with the settings of the run.

per-sentence: dataset `str(row)`, and `sentence_to_index` (shape (1,), JSON text: tokens joined by a
space -> "row" of the first occurrence), left out beyond a million rows.
ragged: `vectors` (sum of T, L, 2D) or (sum of T, 2D), or pooled (N, L, dim) or (N, dim), with the
attribute `axes`; row i is `vectors[offsets[i]:offsets[i + 1]]`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any, Literal, cast

import h5py
import numpy as np
from numpy.typing import NDArray

from elmokit.embedding.writers.estimate import Volume
from elmokit.embedding.writers.record import (
    EmbeddedRow,
    RowText,
    Vectors,
    is_pooled,
    to_json,
    to_offsets,
)
from elmokit.errors import InputError

Layout = Literal["per-sentence", "ragged"]

MAX_INDEXED_ROWS = 1_000_000
"""`sentence_to_index` is one text in memory; files with more rows go without it."""

_COLUMNS = ("sentences", "ids", "lines", "character_offsets")
_COLUMN_BLOCK = 1024  # rows of a text column that are written at once
_CHUNK_BYTES = 2**18  # of a ragged file: what a reader fetches to see one vector
_BLOCK_BYTES = 2**22  # of a ragged file: what is gathered before it is written


class HDF5Writer:
    """Writes either layout."""

    def __init__(self, layout: Layout = "per-sentence") -> None:
        self.layout = layout

    def write(self, path: Path, rows: Iterable[EmbeddedRow], settings: Mapping[str, Any]) -> None:
        """Writes a complete file; see `Writer.write`."""
        with _new_file(path) as (file, check):
            pooled = is_pooled(settings)
            body = _Ragged(file, pooled) if self.layout == "ragged" else _PerSentence(file)
            columns = _Columns(file)
            for row in rows:
                body.add(row)
                columns.add(row)
                check()
            body.finish()
            columns.finish()
            file.attrs["elmokit"] = to_json(dict(settings))

    def estimate_bytes(self, volume: Volume) -> int:
        """Estimates the size of the file; see `Writer.estimate_bytes`."""
        # Per row and per file, measured: headers, links and string heaps of HDF5.
        text = 16 * _COLUMN_BLOCK * -(-volume.num_rows // _COLUMN_BLOCK)
        text += volume.text_bytes + 28 * volume.num_rows
        if self.layout == "ragged":
            vector_bytes = volume.vector_bytes // max(1, volume.num_vectors)
            chunk = _chunk_length(vector_bytes)
            chunks = -(-volume.num_vectors // chunk)
            return chunks * chunk * vector_bytes + text + 8 * volume.num_rows + 20480
        if volume.num_rows <= MAX_INDEXED_ROWS:
            text += volume.text_bytes
        return volume.vector_bytes + 332 * volume.num_rows + text + 24576


def _chunk_length(vector_bytes: int) -> int:
    """Returns how many vectors stand in one chunk of a ragged file."""
    return max(1, _CHUNK_BYTES // max(1, vector_bytes))


class _Disk:
    """The file under HDF5; keeps the first error of a write instead of handing it down.

    HDF5 loses such errors when it closes a dataset (data would be missing without a word), or
    crashes on them. So the writer asks `check` after each row.
    """

    def __init__(self, file: FileIO) -> None:
        self.file = file
        self.error: OSError | None = None
        self.read, self.readinto = file.read, file.readinto
        self.seek, self.tell = file.seek, file.tell

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest and self.error is None:
                rest = rest[self.file.write(rest) :]
        except OSError as error:
            self.error = error
        return size

    def truncate(self, size: int) -> int:
        try:
            return self.file.truncate(size)
        except OSError as error:
            self.error = self.error or error
            return size

    def flush(self) -> None:
        """Has nothing to do: nothing is buffered here."""

    def check(self) -> None:
        if self.error is not None:
            raise self.error


@contextmanager
def _new_file(path: Path) -> Iterator[tuple[h5py.File, Callable[[], None]]]:
    with FileIO(path, "w+") as raw:
        disk = _Disk(raw)
        try:
            with h5py.File(disk, "w") as file:
                yield file, disk.check
        except Exception:
            if disk.error is None:
                raise  # otherwise it only follows from the failed write
        disk.check()


class _PerSentence:
    def __init__(self, file: h5py.File) -> None:
        self.file = file
        self.num_rows = 0
        self.first_rows: dict[str, str] = {}
        self.types = {np.dtype(name): h5py.h5t.py_create(np.dtype(name)) for name in ("f4", "f2")}
        self.creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        self.creation.set_obj_track_times(False)  # the same rows give the same bytes

    def add(self, row: EmbeddedRow) -> None:
        # h5py's low-level calls, since create_dataset takes three times as long.
        vectors, everything = np.ascontiguousarray(row.vectors), h5py.h5s.ALL
        space = h5py.h5s.create_simple(vectors.shape)
        name = str(self.num_rows).encode()
        kind = self.types[vectors.dtype]
        dataset = h5py.h5d.create(self.file.id, name, kind, space, self.creation)
        dataset.write(everything, everything, vectors)
        if self.num_rows < MAX_INDEXED_ROWS:
            self.first_rows.setdefault(" ".join(row.tokens), str(self.num_rows))
        self.num_rows += 1

    def finish(self) -> None:
        if self.num_rows <= MAX_INDEXED_ROWS:
            index = self.file.create_dataset("sentence_to_index", (1,), h5py.string_dtype())
            index[0] = to_json(self.first_rows)


class _Ragged:
    def __init__(self, file: h5py.File, pooled: bool) -> None:
        self.file, self.pooled = file, pooled
        self.offsets = [0]
        self.block: list[Vectors] = []
        self.block_bytes = 0
        self.vectors: h5py.Dataset | None = None

    def add(self, row: EmbeddedRow) -> None:
        by_token = row.vectors[None] if self.pooled else row.vectors
        if by_token.ndim == 3 and not self.pooled:
            by_token = by_token.swapaxes(0, 1)  # (T, L, 2D)
        self.offsets.append(self.offsets[-1] + len(by_token))
        self.block.append(by_token)
        self.block_bytes += by_token.nbytes
        if self.block_bytes >= _BLOCK_BYTES:
            self._flush()

    def finish(self) -> None:
        self._flush()
        self.file.create_dataset("offsets", data=np.array(self.offsets, np.int64))
        if self.vectors is None:
            self.file.create_dataset("vectors", (0, 0), np.float32)

    def _flush(self) -> None:
        if not self.block:
            return
        block = np.concatenate(self.block)
        if self.vectors is None:
            self.vectors = self._create(block)
        start = len(self.vectors)
        self.vectors.resize(start + len(block), axis=0)
        self.vectors[start:] = block
        self.block, self.block_bytes = [], 0

    def _create(self, block: Vectors) -> h5py.Dataset:
        width = block.shape[1:]  # (L, 2D) or (2D,)
        length = _chunk_length(block[:1].nbytes)
        dataset = self.file.create_dataset(
            "vectors", (0, *width), block.dtype, maxshape=(None, *width), chunks=(length, *width)
        )
        names = ("row" if self.pooled else "token", *(("layer",) if len(width) == 2 else ()), "dim")
        dataset.attrs["axes"] = " ".join(names)
        return dataset


class _Column:
    """One value per row, appended in blocks; made only if some row has a value."""

    def __init__(self, file: h5py.File, name: str, dtype: Any, absent: Any) -> None:
        self.file, self.name, self.dtype, self.absent = file, name, dtype, absent
        self.block: list[Any] = []
        self.start = 0
        self.dataset: h5py.Dataset | None = None

    def append(self, value: Any) -> None:
        self.block.append(self.absent if value is None else value)
        if len(self.block) == _COLUMN_BLOCK:
            self.flush()

    def flush(self) -> None:
        end = self.start + len(self.block)
        if self.dataset is None and any(value != self.absent for value in self.block):
            self.dataset = self.file.create_dataset(
                self.name,
                (0,),
                self.dtype,
                maxshape=(None,),
                chunks=(_COLUMN_BLOCK,),
                fillvalue=self.absent,
            )
        if self.dataset is not None and self.block:
            self.dataset.resize((end,))
            self.dataset[self.start :] = self.block
        self.block, self.start = [], end


class _Columns:
    """The text columns beside the vectors."""

    def __init__(self, file: h5py.File) -> None:
        text = h5py.string_dtype()
        self.sentences = _Column(file, "sentences", text, "")
        self.ids = _Column(file, "ids", text, "")
        self.lines = _Column(file, "lines", np.int64, -1)
        self.offsets = _Column(file, "character_offsets", text, "")

    def add(self, row: EmbeddedRow) -> None:
        self.sentences.append(to_json(row.tokens))
        self.ids.append(None if row.id is None else to_json(row.id))
        self.lines.append(row.line)
        self.offsets.append(None if row.offsets is None else to_json(row.offsets))

    def finish(self) -> None:
        for column in (self.sentences, self.ids, self.lines, self.offsets):
            column.flush()


class HDF5Reader:
    """Reads either layout, and the files of the AllenNLP and bilm-tf commands."""

    def __init__(self, path: Path) -> None:
        self._file = h5py.File(path, "r")
        try:
            self.settings: dict[str, Any] = json.loads(self._file.attrs.get("elmokit", "{}"))
            self._offsets: NDArray[np.int64] | None = None
            self._columns = {name: self._file[name] for name in _COLUMNS if name in self._file}
            if "offsets" in self._file and "vectors" in self._file:
                self._offsets = self._file["offsets"][:]
                self._ragged = self._file["vectors"]
                self._axes = self._ragged.attrs.get("axes", "token dim").split()
                self._num_rows = len(self._offsets) - 1
            else:
                self._num_rows = _count_rows(path, self._file)
            self._first_rows = self._read_index()
        except BaseException:
            self.close()
            raise
        self._blocks: dict[str, tuple[int, Any]] = {}

    def __len__(self) -> int:
        return self._num_rows

    def vectors(self, row: int) -> Vectors:
        """Returns the vectors of a row."""
        if self._offsets is not None:
            block = self._ragged[self._offsets[row] : self._offsets[row + 1]]
            if self._axes[0] == "row":
                return cast(Vectors, block[0])
            return np.ascontiguousarray(block.swapaxes(0, 1)) if block.ndim == 3 else block
        dataset = h5py.h5d.open(self._file.id, str(row).encode())
        vectors: Vectors = np.empty(dataset.shape, dataset.dtype)
        dataset.read(h5py.h5s.ALL, h5py.h5s.ALL, vectors)
        return vectors

    def text(self, row: int) -> RowText:
        """Returns what a row was made from."""
        if "sentences" not in self._columns:
            text = self._first_rows.get(row)
            return RowText(None if text is None else tuple(text.split()))
        line = self._value("lines", row)
        name, offsets = self._value("ids", row), self._value("character_offsets", row)
        return RowText(
            tokens=tuple(json.loads(self._value("sentences", row))),
            id=json.loads(name) if name else None,
            line=None if line is None or line < 0 else int(line),
            offsets=to_offsets(json.loads(offsets)) if offsets else None,
        )

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _read_index(self) -> dict[int, str]:
        """Reads row -> text from a file that has no other texts."""
        if "sentences" in self._columns or "sentence_to_index" not in self._file:
            return {}
        index = json.loads(self._file["sentence_to_index"][0])
        return {int(row): text for text, row in index.items()}

    def _value(self, name: str, row: int) -> Any:
        """Returns a value of a text column, which is read with its neighbours to save time."""
        if name not in self._columns:
            return None
        start = row - row % _COLUMN_BLOCK
        if name not in self._blocks or self._blocks[name][0] != start:
            self._blocks[name] = start, self._columns[name][start : start + _COLUMN_BLOCK]
        return self._blocks[name][1][row - start]


def _count_rows(path: Path, file: h5py.File) -> int:
    """Counts the datasets that are named by row; refuses a file that holds something else."""
    names: set[str] = set(file)
    num_rows = sum(name.isascii() and name.isdecimal() for name in names)
    if num_rows == 0 and "elmokit" not in file.attrs:
        found = ", ".join(sorted(map(repr, names))[:4]) or "nothing"
        if any(name.startswith(("char_embed", "CNN", "RNN_")) for name in names):
            raise InputError(
                f"{path}: holds a model's weights ({found}), not embeddings; "
                "load it as a model, with its options file"
            )
        raise InputError(f"{path}: holds no embeddings; rows 0, 1, ... expected, found {found}")
    for row in range(num_rows):
        if str(row) not in names:
            raise InputError(f"{path}: row {row} is missing although later rows are there")
    return num_rows
