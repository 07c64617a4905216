"""TensorFlow's tensor bundle: PREFIX.index names the tensors, PREFIX.data-* hold their numbers.

The index is a sorted string table, as LevelDB's: blocks of keys, each without what it shares with
the key before; a block that lists the blocks; a footer that points to this one. Every block has a
checksum. The value of a key is a protocol buffer, a `BundleEntryProto`; the empty key, which comes
first, has the `BundleHeaderProto`. (tensorflow/core/protobuf/tensor_bundle.proto,
tensorflow/core/lib/io/table_format.txt)
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from elmokit.checkpoints.crc32c import crc32c
from elmokit.checkpoints.files import read_bytes, reason
from elmokit.checkpoints.layout import Shape
from elmokit.checkpoints.table import Stored
from elmokit.errors import CheckpointError

SUFFIX = ".index"

_MAGIC = bytes.fromhex("57fb808b247547db")
_FOOTER_SIZE = 48
_TRAILER_SIZE = 5
"""After each block: one byte for its compression, four for its checksum."""
_VERSION = 1
"""Of the format; a bundle says which version its reader must have at least."""
_DTYPES = {
    1: torch.float32,
    2: torch.float64,
    3: torch.int32,
    9: torch.int64,
    14: torch.bfloat16,
    19: torch.float16,
}
"""TensorFlow's numbers for the kinds of number that are read."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Where one tensor lies."""

    shape: Shape
    dtype: int
    shard: Path
    offset: int
    size: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Bundle:
    """The tensors of a bundle, by name."""

    path: Path
    """The index."""
    entries: Mapping[str, Entry]

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    @property
    def shards(self) -> list[Path]:
        """The files of numbers."""
        return sorted({entry.shard for entry in self.entries.values()})

    @property
    def stored(self) -> dict[str, Stored]:
        """Shape and kind of number of each tensor."""
        return {
            name: Stored(entry.shape, _name(entry.dtype)) for name, entry in self.entries.items()
        }

    def read(self, name: str) -> Tensor:
        """Reads one tensor of floats or integers.

        Raises:
            CheckpointError: The file of numbers is missing, truncated or damaged, or the tensor is
                of another kind.
        """
        entry = self.entries[name]
        dtype = _DTYPES.get(entry.dtype)
        if dtype is None:
            raise CheckpointError(f"{self.path}: {name} holds {_name(entry.dtype)}, not numbers")
        size = math.prod(entry.shape) * dtype.itemsize
        if size != entry.size:
            raise CheckpointError(
                f"{self.path}: {name} has {entry.size:,} bytes; its shape {entry.shape} of "
                f"{_name(entry.dtype)} needs {size:,}"
            )
        self._check_length(name)
        tensor = torch.empty(entry.shape, dtype=dtype)
        octets = tensor.reshape(-1).view(torch.uint8).numpy().data
        try:
            with entry.shard.open("rb") as file:
                file.seek(entry.offset)
                file.readinto(octets)
        except OSError as error:
            raise CheckpointError(f"{entry.shard}: cannot be read: {reason(error)}") from None
        if _masked(crc32c(octets)) != entry.checksum:
            raise CheckpointError(
                f"{entry.shard}: {name} is damaged, or of another checkpoint: its checksum is not "
                f"the one in {self.path.name}"
            )
        return tensor

    def check_lengths(self) -> None:
        """Sees to it that the files of numbers are as long as they have to be.

        Raises:
            CheckpointError: One is missing or truncated.
        """
        for name in self.entries:
            self._check_length(name)

    def _check_length(self, name: str) -> None:
        entry = self.entries[name]
        end = entry.offset + entry.size
        try:
            length = entry.shard.stat().st_size
        except OSError as error:
            raise CheckpointError(f"{entry.shard}: cannot be read: {reason(error)}") from None
        if end > length:
            raise CheckpointError(
                f"{entry.shard}: the file is truncated: it has {length:,} bytes, {name} ends at "
                f"{end:,}"
            )


def read_index(path: Path) -> Bundle:
    """Reads the index of a bundle.

    Raises:
        CheckpointError: The file is truncated, damaged, or of a kind that is not read.
    """
    data = read_bytes(path)
    try:
        records = _records(data)
        key, value = next(records, (b"", b""))
        if key:
            raise _BundleError("the file is damaged: it has no header")
        header = _parse(value)
        _check_header(header)
        prefix, num_shards = path.name.removesuffix(SUFFIX), header.numbers.get(1, 0)
        entries = {}
        for key, value in records:
            name, entry = _printable(key), _parse(value)
            if 7 in entry.parts:
                raise _BundleError(f"{name} is cut into slices, which are not read")
            shard = f"{prefix}.data-{entry.numbers.get(3, 0):05}-of-{num_shards:05}"
            entries[name] = _entry(entry, path.with_name(shard))
    except IndexError:
        raise CheckpointError(f"{path}: the file is damaged: a block ends too early") from None
    except _BundleError as error:
        raise CheckpointError(f"{path}: {error}") from None
    return Bundle(path, entries)


class _BundleError(Exception):
    """What is wrong with an index."""


class _Message(NamedTuple):
    """A protocol buffer: field number -> what it holds."""

    numbers: dict[int, int]
    parts: dict[int, list[bytes]]


def _printable(key: bytes) -> str:
    name = key.decode("utf-8", "backslashreplace")
    return name if name.isprintable() else repr(name)


def _name(dtype: int) -> str:
    known = _DTYPES.get(dtype)
    return f"TensorFlow's type {dtype}" if known is None else str(known).removeprefix("torch.")


def _check_header(header: _Message) -> None:
    if header.numbers.get(2, 0) != 0:
        raise _BundleError("its numbers are big-endian, which is not read")
    versions = _parse(header.parts.get(3, [b""])[-1])
    if versions.numbers.get(2, 0) > _VERSION:
        raise _BundleError(
            f"it asks for a reader of version {versions.numbers[2]}; this one is {_VERSION}"
        )


def _entry(message: _Message, shard: Path) -> Entry:
    numbers = message.numbers
    dims = [dim for shape in message.parts.get(2, []) for dim in _parse(shape).parts.get(2, [])]
    return Entry(
        shape=tuple(_parse(dim).numbers.get(1, 0) for dim in dims),
        dtype=numbers.get(1, 0),
        shard=shard,
        offset=numbers.get(4, 0),
        size=numbers.get(5, 0),
        checksum=numbers.get(6, 0),
    )


def _records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and values of a table, in order."""
    if not data.endswith(_MAGIC) or len(data) < _FOOTER_SIZE:
        raise _BundleError("the file is truncated, or no index of a TensorFlow checkpoint")
    footer = data[-_FOOTER_SIZE:]
    _, _, position = _handle(footer, 0)  # of a block about the table, which is empty
    index, size, _ = _handle(footer, position)
    end = 0
    for _, value in _block(data, index, size):
        offset, size, _ = _handle(value, 0)
        if offset < end:  # blocks that overlap could make a small file endless
            raise _BundleError("the file is damaged: its blocks are not in order")
        end = offset + size
        yield from _block(data, offset, size)


def _handle(data: bytes, position: int) -> tuple[int, int, int]:
    """Returns the place and the size of a block, and the position after them."""
    offset, position = _varint(data, position)
    size, position = _varint(data, position)
    return offset, size, position


def _block(data: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and values of one block, once its checksum is found right."""
    start = offset + size
    content, trailer = data[offset:start], data[start : start + _TRAILER_SIZE]
    checksum = int.from_bytes(trailer[1:], "little")
    if len(trailer) < _TRAILER_SIZE or _masked(crc32c(content + trailer[:1])) != checksum:
        raise _BundleError("the file is damaged: the checksum of a block is wrong")
    if trailer[0]:
        raise _BundleError("its blocks are compressed, which is not read; store it uncompressed")
    # The block ends with the places of keys that are whole, and their number.
    end = size - 4 * (1 + int.from_bytes(content[-4:], "little"))
    position, key = 0, b""
    while position < end:
        shared, position = _varint(content, position)
        length, position = _varint(content, position)
        value_length, position = _varint(content, position)
        value_start = position + length
        key = key[:shared] + content[position:value_start]
        position = value_start + value_length
        if position > end:
            raise _BundleError("the file is damaged: a key or a value is longer than its block")
        yield key, content[value_start:position]


def _parse(data: bytes) -> _Message:
    """Takes a protocol buffer apart."""
    message, position = _Message({}, {}), 0
    while position < len(data):
        tag, position = _varint(data, position)
        field, kind = tag >> 3, tag & 7
        if kind == 0:
            message.numbers[field], position = _varint(data, position)
            continue
        fixed = {1: 8, 5: 4}.get(kind)
        size, position = (fixed, position) if fixed else _varint(data, position)
        part, position = data[position : position + size], position + size
        if kind not in (1, 2, 5) or position > len(data):
            raise _BundleError("the file is damaged: a value is no protocol buffer")
        if fixed:
            message.numbers[field] = int.from_bytes(part, "little")
        else:
            message.parts.setdefault(field, []).append(part)
    return message


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Returns a number of seven bits a byte, the lowest first, and the position after it."""
    number = 0
    for shift in range(0, 64, 7):
        octet = data[position]
        position += 1
        number |= (octet & 0x7F) << shift
        if octet < 0x80:
            return number, position
    raise _BundleError("the file is damaged: a number has more than 64 bits")


def _masked(checksum: int) -> int:
    """Returns a checksum as it is stored: turned by 15 bits, plus a constant."""
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
