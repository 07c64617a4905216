"""The files that vectors are written to, one module per format behind one table of suffixes."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from elmokit.embedding.writers.estimate import Volume
from elmokit.embedding.writers.hdf5 import HDF5Writer, Layout
from elmokit.embedding.writers.jsonl import JSONLWriter
from elmokit.embedding.writers.npz import NpzWriter
from elmokit.embedding.writers.parquet import ParquetWriter
from elmokit.embedding.writers.record import EmbeddedRow, RowText, Vectors
from elmokit.errors import OutputError

__all__ = ["EmbeddedRow", "Layout", "Reader", "Volume", "Writer", "writer_for"]


class Writer(Protocol):
    """Writes a file of embeddings."""

    def write(self, path: Path, rows: Iterable[EmbeddedRow], settings: Mapping[str, Any]) -> None:
        """Writes a complete file in one pass over the rows, one row or a bounded block in memory.

        What the file holds depends on the rows and the settings alone. Rows are numbered from 0 in
        the order in which they come, whatever their `index`.

        Args:
            path: The file; an old one is overwritten.
            rows: All with vectors of one dtype and kind.
            settings: JSON values that are kept in the file. `pooling`, if given and not "none",
                says that a row has one vector instead of one per token.

        Raises:
            OSError: The disk is full or refuses; what was written so far is left behind.
        """
        ...

    def estimate_bytes(self, volume: Volume) -> int:
        """Estimates the size of the file; within a few percent for 1,000 sentences and more."""
        ...


class Reader(Protocol):
    """Reads a file of embeddings row by row; foreign exceptions tell of damage."""

    settings: dict[str, Any]

    def __len__(self) -> int: ...

    def vectors(self, row: int) -> Vectors:
        """Returns the vectors of a row, 0 <= row < len."""
        ...

    def text(self, row: int) -> RowText:
        """Returns what a row was made from."""
        ...

    def close(self) -> None:
        """Closes the file."""
        ...


def writer_for(path: Path, layout: Layout = "per-sentence") -> Writer:
    """Returns the writer for a file name.

    Raises:
        OutputError: The suffix is unknown, or the format has no such layout.
        MissingExtraError: The format's package is not installed.
    """
    suffix = path.suffix.lower()
    if suffix in (".h5", ".hdf5"):
        return HDF5Writer(layout)
    others: dict[str, Callable[[], Writer]] = {
        ".npz": NpzWriter,
        ".parquet": ParquetWriter,
        ".jsonl": JSONLWriter,
    }
    if suffix not in others:
        known = ", ".join((".h5", ".hdf5", *others))
        raise OutputError(f"{path}: the name of the output must end in one of {known}")
    if layout != "per-sentence":
        raise OutputError(f"{path}: layout {layout} is for .h5 and .hdf5; leave it out")
    return others[suffix]()
