"""Zstandard decompression that notices a file without its end."""

import io
from typing import Any, BinaryIO

from elmokit.extras import needed

# Small, since a few bytes may stand for a block of 128 KiB.
_CHUNK_BYTES = 4096


class ZstdReader(io.RawIOBase):
    """The decompressed bytes of all frames of a file.

    The package's own stream takes a cut file for a complete one, and stops after the first frame.
    As in `gzip`, a file that ends too early is an EOFError and damaged data an OSError.

    Raises:
        MissingExtraError: The package `zstandard` is not installed.
    """

    def __init__(self, file: BinaryIO) -> None:
        with needed("zstandard", 'reading .zst files needs zstandard; pip install "elmokit[zstd]"'):
            import zstandard
        self._file = file
        self._context = zstandard.ZstdDecompressor()
        self._damage: type[Exception] = zstandard.ZstdError
        self._frame: Any = None
        self._compressed = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        """Tells that this can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills the start of the buffer and returns how many bytes it has; 0 at the end."""
        while not self._ready:
            self._compressed = self._compressed or self._file.read(_CHUNK_BYTES)
            if not self._compressed:
                if self._frame is not None:
                    raise EOFError("the last frame has no end")
                return 0
            self._decompress()
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _decompress(self) -> None:
        if self._frame is None:
            self._frame = self._context.decompressobj()
        try:
            self._ready = memoryview(self._frame.decompress(self._compressed))
        except self._damage as error:
            raise OSError(str(error)) from None
        self._compressed = b""
        if self._frame.eof:
            self._compressed = self._frame.unused_data
            self._frame = None
