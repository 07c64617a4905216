"""A corpus on disk: written in one pass over the text, memory-mapped when it is read.

tokens.bin    int32, all sentences end to end, each as `<S> w1 .. wn </S>`, by number of word type
offsets.bin   int64, where each sentence starts, and where the last one ends
counts.bin    int64, how often each type occurs in tokens.bin
types.txt     the types, one a line; `<S>` and `</S>` are the first two
corpus.json   what the arrays were made from and what they hold; without it there is no corpus

A type is any surface form of the text, so nothing here depends on a vocabulary.
"""

import dataclasses
import hashlib
import json
import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from elmokit.config import parse
from elmokit.embedding.manifest import move_into_place, write_atomically
from elmokit.embedding.progress import Progress
from elmokit.errors import ConfigError, InputError
from elmokit.text.lines import read_lines
from elmokit.vocabulary import BEGIN, END

_logger = logging.getLogger(__name__)

VERSION = 1
"""Version of the layout of the folder."""

BEGIN_TYPE, END_TYPE = 0, 1
"""Numbers of the types that stand before and after a sentence."""

TOKENS, OFFSETS, COUNTS = "tokens.bin", "offsets.bin", "counts.bin"
_DTYPES: dict[str, np.dtype[Any]] = {
    TOKENS: np.dtype("<i4"),
    OFFSETS: np.dtype("<i8"),
    COUNTS: np.dtype("<i8"),
}
_TYPES, _RECORD = "types.txt", "corpus.json"

_BLOCK_TOKENS = 1 << 20

_MEND = "put it back from a copy, or begin a new run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file of text at the time it is read."""

    path: str
    size: int
    modified: int
    """Nanoseconds."""

    @classmethod
    def of(cls, path: Path) -> Self:
        """Looks at a file.

        Raises:
            InputError: It is not there.
        """
        try:
            status = path.stat()
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None
        return cls(path=str(path.resolve()), size=status.st_size, modified=status.st_mtime_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The content of corpus.json."""

    version: int = VERSION
    encoding: str
    sources: tuple[Source, ...]
    num_lines: int
    num_sentences: int
    """Lines that hold a token."""
    num_tokens: int
    """Without boundaries."""
    num_types: int
    digest: str
    """SHA-256 of what the arrays and types hold, whatever the files of text are called."""

    def size(self, name: str) -> int:
        """Returns how many values an array has."""
        sizes = {
            TOKENS: self.num_tokens + 2 * self.num_sentences,
            OFFSETS: self.num_sentences + 1,
            COUNTS: self.num_types,
        }
        return sizes[name]


def write_arrays(files: Sequence[Path], encoding: str, directory: Path) -> None:
    """Reads a text into a folder; arrays of another text there are replaced at the end.

    A process that is killed leaves a folder `preparing-*` in it, which may be removed.

    Args:
        files: Text, one sentence per line, tokens are `str.split()`; a blank line is no sentence.
        encoding: Its encoding.
        directory: The folder; made if absent.

    Raises:
        InputError: The text cannot be read, changes meanwhile, or has no sentence.
        OSError: The folder cannot be written; if that shows before the arrays are complete, what
            was in it stays.
    """
    sources = tuple(Source.of(file) for file in files)
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="preparing-", dir=directory) as place:
        record = _write(files, encoding, Path(place))
        for before, after in zip(sources, record.sources, strict=True):
            if before != after:
                raise InputError(f"{before.path}: changed while it was read; run again")
        (directory / _RECORD).unlink(missing_ok=True)
        for name in (*_DTYPES, _TYPES):
            move_into_place(Path(place) / name, directory / name)
    write_atomically(directory / _RECORD, json.dumps(dataclasses.asdict(record)).encode())


def read_record(directory: Path) -> Record:
    """Reads what a folder holds.

    Raises:
        InputError: There is no corpus, or it is damaged or of another version.
    """
    path = directory / _RECORD
    try:
        data = json.loads(path.read_bytes())
        version = data["version"]
        if version != VERSION:
            raise InputError(
                f"{path}: has version {version}, this elmokit reads {VERSION}; {_MEND}"
            )
        return parse(Record, data, str(path))
    except OSError as error:
        reason = error.strerror
    except (ConfigError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        reason = f"damaged ({error!r})"
    raise InputError(f"{path}: {reason}; {_MEND}")


def map_array(directory: Path, record: Record, name: str) -> NDArray[Any]:
    """Maps an array into memory, read-only.

    Raises:
        InputError: It is missing or of another size than the record says.
    """
    path, dtype = directory / name, _DTYPES[name]
    expected = record.size(name) * dtype.itemsize
    try:
        found = path.stat().st_size
        if found == expected:
            return np.asarray(np.memmap(path, dtype, mode="r"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; {_MEND}") from None
    raise InputError(f"{path}: {found} bytes, expected {expected}; {_MEND}")


def read_types(directory: Path, record: Record) -> tuple[str, ...]:
    """Reads the word types.

    Raises:
        InputError: They are missing, or not as many as the record says.
    """
    path = directory / _TYPES
    try:
        text = path.read_bytes().decode("utf-8", "surrogatepass")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; {_MEND}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: damaged ({error}); {_MEND}") from None
    types = tuple(text.split("\n")[:-1])
    if len(types) != record.num_types:
        raise InputError(f"{path}: {len(types)} types, expected {record.num_types}; {_MEND}")
    return types


def digest(*parts: bytes) -> str:
    """Returns the SHA-256 of parts end to end, as hexadecimal digits."""
    return hashlib.sha256(b"".join(parts)).hexdigest()


class _TypeNumbers(dict[str, int]):
    """Word type -> number; a new one has the next."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


class _GrowingArray:
    """An array that is written piece by piece, with its SHA-256; a context manager."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._dtype = _DTYPES[path.name]
        self.hash = hashlib.sha256()

    def append(self, values: Sequence[int] | NDArray[Any]) -> None:
        data = np.asarray(values, self._dtype).tobytes()
        self._file.write(data)
        self.hash.update(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()


@dataclass(slots=True)
class _Tally:
    lines: int = 0
    sentences: int = 0
    empty_files: list[Path] = dataclasses.field(default_factory=list)


def _write(files: Sequence[Path], encoding: str, place: Path) -> Record:
    numbers = _TypeNumbers({BEGIN: BEGIN_TYPE, END: END_TYPE})
    counts: NDArray[np.int64] = np.zeros(2, np.int64)
    tally, size = _Tally(), 0
    with (
        _GrowingArray(place / TOKENS) as tokens,
        _GrowingArray(place / OFFSETS) as offsets,
        _GrowingArray(place / COUNTS) as occurrences,
        Progress(total=None) as progress,
    ):
        offsets.append([0])
        for block, lengths in _read_blocks(files, encoding, numbers, tally):
            tokens.append(block)
            offsets.append(size + np.cumsum(lengths, dtype=np.int64))
            size += len(block)
            in_block = np.bincount(block, minlength=len(numbers))
            in_block[: len(counts)] += counts
            counts = in_block
            progress.advance(len(block))
        occurrences.append(counts)
    types = "".join(f"{word}\n" for word in numbers).encode("utf-8", "surrogatepass")
    (place / _TYPES).write_bytes(types)
    return Record(
        encoding=encoding,
        sources=tuple(Source.of(file) for file in files),
        num_lines=tally.lines,
        num_sentences=tally.sentences,
        num_tokens=size - 2 * tally.sentences,
        num_types=len(numbers),
        digest=digest(tokens.hash.digest(), offsets.hash.digest(), types),
    )


def _read_blocks(
    files: Sequence[Path], encoding: str, numbers: _TypeNumbers, tally: _Tally
) -> Iterator[tuple[list[int], list[int]]]:
    """Yields the types of whole sentences with boundaries, and the sentences' lengths therein."""
    block: list[int] = []
    lengths: list[int] = []
    for file in files:
        sentences_before = tally.sentences
        for _, line in read_lines(file, encoding):
            tally.lines += 1
            words = line.split()
            if not words:
                continue
            tally.sentences += 1
            block += (BEGIN_TYPE, *map(numbers.__getitem__, words), END_TYPE)
            lengths.append(len(words) + 2)
            if len(block) >= _BLOCK_TOKENS:
                yield block, lengths
                block, lengths = [], []
        if tally.sentences == sentences_before:
            tally.empty_files.append(file)
    if not tally.sentences:
        raise InputError(f"{', '.join(map(str, files))}: not a single sentence to train on")
    for file in tally.empty_files:
        _logger.warning("%s: holds no sentence", file)
    if block:
        yield block, lengths
