"""CRC-32C, the checksum in TensorFlow's files, fast enough in NumPy for gigabytes of weights.

A CRC is the remainder of a polynomial over GF(2), so it is linear: a word of the data may be moved
on past 2^k others (a table of 4 x 256) and added to the one it meets there. Data thus fold to half,
and half again, until one word is left.
"""

import functools

import numpy as np
from numpy.typing import NDArray

_Words = NDArray[np.uint32]

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, its bits reversed (RFC 3720, appendix B.4)
_ALL_ONES = 0xFFFFFFFF
_CHUNK = 2**17
"""Words that are folded at a time."""
_BYTE, _WORD = 3, 5  # a byte has 2^3 bits, a word 2^5


def crc32c(data: bytes | memoryview) -> int:
    """Returns the CRC-32C of the data; that of b"123456789" is 0xE3069283."""
    octets = np.frombuffer(data, np.uint8)
    whole = len(octets) // 4 * 4
    words = octets[:whole].view("<u4")
    remainder = _ALL_ONES
    for start in range(0, len(words), _CHUNK):
        chunk = words[start : start + _CHUNK].astype(np.uint32)
        chunk[0] ^= remainder
        remainder = _fold(chunk)
    for octet in octets[whole:].tolist():
        low = np.array([(remainder ^ octet) & 0xFF], np.uint32)
        remainder = remainder >> 8 ^ int(_moved(low, _BYTE)[0])
    return remainder ^ _ALL_ONES


def _fold(words: _Words) -> int:
    """Returns the remainder of some words, which are overwritten."""
    while len(words) > 1:
        level = (len(words) - 1).bit_length() - 1
        head, words = words[: -(2**level)], words[-(2**level) :]
        words[-len(head) :] ^= _moved(head, _WORD + level)
    return int(_moved(words, _WORD)[0])


def _moved(words: _Words, level: int) -> _Words:
    """Moves each word on by 2^level bits of the data."""
    table = _table(level)
    moved: _Words = table[3, words >> 24]
    for i in range(3):
        moved ^= table[i, words >> 8 * i & 0xFF]
    return moved


@functools.cache
def _table(level: int) -> _Words:
    """Returns what each of a word's four bytes becomes 2^level bits on, (4, 256)."""
    bits = np.array([1 << i for i in range(32)], np.uint32)
    if level:
        images = _moved(_moved(bits, level - 1), level - 1)
    else:
        images = np.concatenate([np.array([_POLYNOMIAL], np.uint32), bits[:-1]])
    is_set = (np.arange(256)[:, None] >> np.arange(8)) & 1 == 1  # (256, 8)
    chosen = np.where(is_set, images.reshape(4, 1, 8), np.uint32(0))
    table: _Words = np.bitwise_xor.reduce(chosen, axis=-1)
    return table
