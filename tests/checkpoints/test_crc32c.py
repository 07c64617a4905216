import random

import bundle_samples
import pytest

from elmokit.checkpoints import crc32c as module
from elmokit.checkpoints.crc32c import crc32c


@pytest.mark.parametrize(
    ("data", "checksum"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_published_checksums(data, checksum):
    """RFC 3720, appendix B.4."""
    assert crc32c(data) == crc32c(memoryview(data)) == checksum


def test_every_length_equals_the_definition():
    data = random.Random(0).randbytes(300)
    for start in range(3):
        for end in range(start, 80):
            assert crc32c(data[start:end]) == bundle_samples.crc32c(data[start:end])
    assert crc32c(data) == bundle_samples.crc32c(data)


@pytest.mark.parametrize("chunk", [1, 2, 7, 64])
def test_chunks_make_no_difference(monkeypatch, chunk):
    data = random.Random(1).randbytes(1001)
    monkeypatch.setattr(module, "_CHUNK", chunk)
    assert crc32c(data) == bundle_samples.crc32c(data)
