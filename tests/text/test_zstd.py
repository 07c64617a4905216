import io

import pytest
import zstandard

from elmokit.text.zstd import ZstdReader

SKIPPABLE = b"\x50\x2a\x4d\x18\x03\x00\x00\x00xyz"


def read(data: bytes) -> bytes:
    return ZstdReader(io.BytesIO(data)).read()


def test_frames_are_joined_and_skippable_ones_passed_over():
    frames = zstandard.compress(b"ab" * 99999), SKIPPABLE, zstandard.compress(b"c")
    assert read(b"".join(frames)) == b"ab" * 99999 + b"c"
    assert read(b"") == b""


def test_small_reads_give_the_same_bytes():
    reader = ZstdReader(io.BytesIO(zstandard.compress(bytes(range(256)))))
    assert b"".join(iter(lambda: reader.read(7), b"")) == bytes(range(256))


def test_every_cut_is_noticed():
    data = zstandard.compress(b"hello world, hello") + zstandard.compress(b"again")
    whole = len(zstandard.compress(b"hello world, hello"))
    for end in set(range(1, len(data))) - {whole}:
        with pytest.raises(EOFError):
            read(data[:end])


def test_other_data_is_an_error_of_the_operating_system_kind():
    with pytest.raises(OSError, match="descriptor"):
        read(b"no zstandard data")
