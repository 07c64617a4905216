"""Reading files of embeddings: by row, by text, in order."""

import operator
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from elmokit.embedding.writers import EmbeddedRow, Reader
from elmokit.embedding.writers.hdf5 import HDF5Reader
from elmokit.embedding.writers.jsonl import JSONLReader
from elmokit.embedding.writers.npz import NpzReader
from elmokit.embedding.writers.parquet import ParquetReader
from elmokit.embedding.writers.record import RowText, Vectors, is_pooled
from elmokit.errors import ElmokitError, InputError

_READERS: Mapping[bytes, Callable[[Path], Reader]] = {
    b"\x89HDF\r\n\x1a\n": HDF5Reader,
    b"PK\x03\x04": NpzReader,
    b"PAR1": ParquetReader,
    b"{": JSONLReader,
}
"""First bytes of a file -> its reader."""

_DAMAGE = (
    *(OSError, RuntimeError, LookupError, ValueError, TypeError, EOFError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, struct.error),
)
"""What the libraries raise on a damaged file."""


def open_embeddings(path: str | Path) -> "StoredEmbeddings":
    """Opens a file that `elmo embed` wrote, or the AllenNLP or bilm-tf command (HDF5).

    The format is told from the content, not from the name. Rows are read when they are asked for.

    Args:
        path: An HDF5 (either layout), npz, Parquet or JSON Lines file.

    Raises:
        InputError: The file is missing, damaged, or holds something else.
        MissingExtraError: It is a Parquet file and pyarrow is not installed.
    """
    path = Path(path)
    return StoredEmbeddings(path, _open_reader(path))


class StoredEmbeddings:
    """A file of embeddings as a sequence of arrays, one per input row, in the order of the input.

    `len(stored)`, `stored[i]`, iteration; a context manager that closes the file. Arrays have the
    shape and dtype in which they were written: (L, T, 2D), (T, 2D), or pooled (L, dim) or (dim,).
    Made by `open_embeddings`. Not to be shared between threads.
    """

    def __init__(self, path: Path, reader: Reader) -> None:
        self.path = path
        self._reader = reader
        self._closed = False
        self._hashes: NDArray[np.int64] | None = None

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings of the run that made the file; JSON Lines and other programs have none."""
        return self._reader.settings

    @property
    def ids(self) -> list[str | None]:
        """Names of all rows, such as those of FASTA records; None for a row without a name."""
        return [self._text(row).id for row in range(len(self))]

    def __repr__(self) -> str:
        return f"<StoredEmbeddings {str(self.path)!r}: {len(self):,} rows{self._kind()}>"

    def __len__(self) -> int:
        return len(self._reader)

    def __getitem__(self, row: int) -> Vectors:
        """Returns a row's vectors; negative numbers count from the end.

        Raises:
            IndexError: There is no such row.
            InputError: It is no row number, such as a slice; or the file is damaged.
        """
        row = self._checked(row)
        with self._reading():
            return self._reader.vectors(row)

    def __iter__(self) -> Iterator[Vectors]:
        return (self[row] for row in range(len(self)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def tokens(self, row: int) -> tuple[str, ...]:
        """Returns a row's tokens.

        In a file of the AllenNLP command only the first row of a repeated text has them.

        Raises:
            IndexError: There is no such row.
            InputError: It is no row number; or the file does not hold this row's text, or is
                damaged.
        """
        row = self._checked(row)
        return self._known(row, self._text(row).tokens)

    def row(self, row: int) -> EmbeddedRow:
        """Returns everything that the file holds of a row.

        Raises:
            IndexError: There is no such row.
            InputError: It is no row number; or the file does not hold this row's text, or is
                damaged.
        """
        row = self._checked(row)
        text = self._text(row)
        tokens = self._known(row, text.tokens)
        return EmbeddedRow(row, tokens, self[row], text.id, text.line, text.offsets)

    def find(self, text: str | Sequence[str]) -> list[int]:
        """Returns the numbers of all rows with this text, in order; none if there are none.

        In a file of the AllenNLP command only the first row of a repeated text is found.

        Args:
            text: The tokens; or one string, which is compared with a row's tokens joined by a
                space, any run of white space counting as one space.

        Raises:
            InputError: The file holds no texts, or is damaged.
        """
        texts = (self._text(row).tokens for row in range(len(self)))
        if self._hashes is None:
            self._hashes = np.fromiter((_hash(tokens) for tokens in texts), np.int64, len(self))
            if len(self) and not self._hashes.any():
                self._hashes = None
                raise InputError(f"{self.path}: texts were not stored; look rows up by number")
        wanted = (text,) if isinstance(text, str) else tuple(text)
        rows = (int(row) for row in np.flatnonzero(self._hashes == _hash(wanted)))
        if isinstance(text, str):
            return [row for row in rows if _joined(self.tokens(row)) == _joined(wanted)]
        return [row for row in rows if self.tokens(row) == wanted]

    def close(self) -> None:
        """Closes the file; reading from it is a ValueError from then on, as with other files."""
        self._reader.close()
        self._closed = True

    def _kind(self) -> str:
        """Returns in words what a row is, from the first one."""
        if self._closed:
            return ", closed"
        if not len(self):
            return ""
        try:
            shape = self[0].shape
        except InputError:
            return ", damaged"
        two = "(T, 2D) or (L, dim)"  # which of them, JSON Lines and other programs do not say
        if self.settings:
            two = "(L, dim)" if is_pooled(self.settings) else "(T, 2D)"
        letters = {1: "(dim,)", 2: two, 3: "(L, T, 2D)"}
        return f" of {letters.get(len(shape), 'another shape')}, the first {shape}"

    def _checked(self, row: int) -> int:
        try:
            number = operator.index(row)
        except TypeError:
            hint = "; find() looks a text up" if isinstance(row, str) else ""
            raise InputError(
                f"{self.path}: {row!r} is no row; give a row number, one at a time{hint}"
            ) from None
        if not -len(self) <= number < len(self):
            raise IndexError(f"{self.path}: row {number} of {len(self)} rows")
        return number % len(self)

    def _text(self, row: int) -> RowText:
        with self._reading():
            return self._reader.text(row)

    def _reading(self) -> AbstractContextManager[None]:
        if self._closed:
            raise ValueError(f"{self.path} is closed")
        return _reading(self.path)

    def _known(self, row: int, tokens: tuple[str, ...] | None) -> tuple[str, ...]:
        if tokens is None:
            raise InputError(f"{self.path}: the text of row {row} is not stored; use its number")
        return tokens


def _joined(tokens: Sequence[str]) -> str:
    return " ".join(" ".join(tokens).split())


def _hash(tokens: Sequence[str] | None) -> int:
    """Returns a number by which rows are found; 0 is kept for a row whose text is unknown."""
    return 0 if tokens is None else hash(_joined(tokens)) or 1


def _open_reader(path: Path) -> Reader:
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise InputError(f"{path}: no regular file; rows cannot be read from a pipe or device")
        with path.open("rb") as file:
            start = file.read(64)
    except OSError as error:
        raise InputError(f"{path}: {_why_unreadable(path, error)}") from error
    if not start and path.suffix.lower() == ".jsonl":
        return JSONLReader(path)
    for magic, reader in _READERS.items():
        if start.startswith(magic):
            with _reading(path):
                return reader(path)
    found = repr(start[:20].decode("utf-8", "replace")) if start else "nothing: it is empty"
    raise InputError(
        f"{path}: no file of embeddings (HDF5, npz, Parquet or JSON Lines); it begins with {found}"
    )


def _why_unreadable(path: Path, error: OSError) -> str:
    parts = path if path.suffix == ".parts" else path.with_name(f"{path.name}.parts")
    if parts.is_dir():
        return f"not finished; go on with elmo embed --resume (its parts lie in {parts})"
    return error.strerror or str(error)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except ElmokitError:
        raise
    except _DAMAGE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"{path}: damaged or truncated ({reason}); make or copy it again"
        ) from error
