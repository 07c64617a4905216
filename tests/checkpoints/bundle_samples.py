"""TensorFlow's tensor bundles written for tests, from the description of the format alone."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import torch

MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
DTYPES = {
    "float32": 1,
    "float64": 2,
    "int32": 3,
    "uint8": 4,
    "int64": 9,
    "bool": 10,
    "bfloat16": 14,
    "float16": 19,
}

Fields = dict[int, int | bytes | list[bytes]]
"""A protocol buffer: field -> value; a field of 6 is the checksum, of fixed width."""


def crc32c(data: bytes) -> int:
    """The checksum bit by bit, as RFC 3720 defines it."""
    remainder = 0xFFFFFFFF
    for octet in data:
        remainder ^= octet
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82F63B78 if remainder & 1 else 0)
    return remainder ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    checksum = crc32c(data)
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) % 2**32


def varint(number: int) -> bytes:
    octets = bytearray()
    while number >= 0x80:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*octets, number])


def message(fields: Fields) -> bytes:
    data = b""
    for field, value in fields.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, bytes):
                data += varint(field << 3 | 2) + varint(len(item)) + item
            elif field == 6:
                data += varint(field << 3 | 5) + item.to_bytes(4, "little")
            else:
                data += varint(field << 3) + varint(item)
    return data


def shape_message(shape: Iterable[int]) -> bytes:
    return message({2: [message({1: size}) for size in shape]})


def block(records: Iterable[tuple[bytes, bytes]], whole_every: int = 3) -> bytes:
    """Keys without what they share with the key before; every third one whole."""
    data, restarts, before = b"", [], b""
    for number, (key, value) in enumerate(records):
        shared = 0
        if number % whole_every == 0:
            restarts.append(len(data))
        else:
            while shared < min(len(key), len(before)) and key[shared] == before[shared]:
                shared += 1
        data += varint(shared) + varint(len(key) - shared) + varint(len(value))
        data += key[shared:] + value
        before = key
    restarts = restarts or [0]
    return data + b"".join(n.to_bytes(4, "little") for n in [*restarts, len(restarts)])


def table(blocks: Iterable[bytes], compression: int = 0) -> bytes:
    """Blocks, the block of blocks, and the footer."""
    data, handles = b"", []

    def add(content: bytes) -> bytes:
        nonlocal data
        handle = varint(len(data)) + varint(len(content))
        content += bytes([compression])
        data += content + masked(content).to_bytes(4, "little")
        return handle

    for number, content in enumerate(blocks):
        handles.append((f"{number:04}".encode(), add(content)))
    footer = add(block([])) + add(block(handles))
    return data + footer.ljust(40, b"\0") + MAGIC


def write_bundle(
    prefix: Path,
    tensors: Mapping[str, np.ndarray | torch.Tensor],
    *,
    num_shards: int = 1,
    block_size: int = 5,
    compression: int = 0,
    header: Fields | None = None,
    changes: Mapping[str, Fields] | None = None,
) -> None:
    """Writes PREFIX.index and PREFIX.data-*.

    Args:
        prefix: Path without the endings.
        tensors: By name.
        num_shards: Files of numbers, filled in turn.
        block_size: Records in a block of the index.
        compression: What the index says of its blocks.
        header: Fields of the header that differ.
        changes: Fields of entries that differ, by name.
    """
    shards = [b""] * num_shards
    records = {b"": message({1: num_shards, 3: message({1: 1}), **(header or {})})}
    for number, (name, tensor) in enumerate(sorted(tensors.items())):
        tensor = torch.as_tensor(tensor)
        data = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        shard = number % num_shards
        fields: Fields = {
            1: DTYPES[str(tensor.dtype).removeprefix("torch.")],
            2: shape_message(tensor.shape),
            3: shard,
            4: len(shards[shard]),
            5: len(data),
            6: masked(data),
        }
        records[name.encode()] = message(fields | (changes or {}).get(name, {}))
        shards[shard] += data
    ordered = sorted(records.items())
    blocks = [block(ordered[i : i + block_size]) for i in range(0, len(ordered), block_size)]
    prefix.with_name(f"{prefix.name}.index").write_bytes(table(blocks, compression))
    for number, data in enumerate(shards):
        name = f"{prefix.name}.data-{number:05}-of-{num_shards:05}"
        prefix.with_name(name).write_bytes(data)
