"""Lines of a file or of standard input: opened, decompressed, decoded, and cut at LF only."""

import codecs
import encodings.aliases
import gzip
import io
import itertools
import lzma
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from elmokit.config import nearest
from elmokit.errors import ConfigError, InputError
from elmokit.text.zstd import ZstdReader

STDIN = "-"
"""The source that stands for standard input."""

DECOMPRESSORS: dict[str, Callable[[Any], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".xz": lzma.LZMAFile,
    ".zst": ZstdReader,
}
"""Suffix -> what turns the open file into a file of decompressed bytes."""

_BUFFER_BYTES = 1 << 16

_MEND = "give the encoding of the file: --encoding, or data.encoding of a run"


def source_name(source: str | Path) -> str:
    """Returns what messages call the source."""
    return "standard input" if str(source) == STDIN else str(source)


def check_encoding(encoding: str) -> None:
    """Checks that Python can decode text of this encoding piece by piece.

    Raises:
        ConfigError: It cannot; the nearest known name is given.
    """
    try:
        b"\n".decode(encoding, "ignore")  # refuses codecs that make no text
        codecs.getincrementaldecoder(encoding)
    except (LookupError, ValueError):
        spelt = encoding.lower().replace("-", "_")
        known = {*encodings.aliases.aliases, *encodings.aliases.aliases.values()} - {spelt}
        raise ConfigError(
            f"encoding: {encoding!r} is no text encoding that Python knows{nearest(spelt, known)}; "
            "use a name such as utf-8, utf-16 or latin-1"
        ) from None


def read_lines(
    source: str | Path, encoding: str, *, mend: str = _MEND
) -> Iterator[tuple[int, str]]:
    """Returns the lines with their numbers, from 1; the source is opened when the first is read.

    A line ends at LF and nowhere else; its LF, a CR before that, and a byte-order mark at the start
    of the file are left out. An LF at the end of the file starts no further line.

    Args:
        source: A file, decompressed if it ends in .gz, .xz or .zst; `-` is standard input.
        encoding: Any text encoding that Python knows.
        mend: What a message about another encoding tells to do.

    Raises:
        ConfigError: The encoding is unknown.
        InputError: While reading: the file is missing, unreadable, damaged, incomplete, or not of
            this encoding.
        MissingExtraError: While reading: a .zst file needs the extra `zstd`.
    """
    check_encoding(encoding)
    name = source_name(source)
    lines = _decode(_read_pieces(source, name), name, encoding, mend)
    return ((number, line.removesuffix("\r")) for number, line in enumerate(lines, start=1))


def _read_pieces(source: str | Path, name: str) -> Iterator[bytes]:
    """Yields the bytes up to and including each byte 0x0A, then the rest."""
    try:
        if str(source) == STDIN:
            yield from _standard_input()
            return
        decompress = DECOMPRESSORS.get(Path(source).suffix.lower())
        with Path(source).open("rb") as file:
            if decompress is None:
                yield from file
                return
            if not file.peek(1):  # gzip alone would take this for no text
                raise EOFError
            with io.BufferedReader(decompress(file), _BUFFER_BYTES) as decompressed:
                yield from decompressed
    except EOFError:
        raise InputError(
            f"{name}: the compressed data ends too early; get or make the file again"
        ) from None
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise InputError(f"{name}: the compressed data is damaged ({error})") from None
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from None


def _standard_input() -> Iterable[bytes]:
    if sys.stdin is None:
        raise OSError("there is none")
    return sys.stdin.buffer


def _decode(pieces: Iterable[bytes], name: str, encoding: str, mend: str) -> Iterator[str]:
    """Decodes first and cuts lines afterwards: byte 0x0A is part of other characters in UTF-16."""
    decoder = codecs.getincrementaldecoder(encoding)()
    number = 1
    offset = begin = 0  # bytes of the file before the piece, and before the last that had some
    line: list[str] = []
    for piece in itertools.chain(pieces, [b""]):
        begin = offset if piece else begin
        try:
            text = decoder.decode(piece, final=not piece)
        except UnicodeDecodeError as error:
            # The decoder may hold bytes of earlier pieces, and the error counts from the first.
            start = error.start - (len(error.object) - len(piece))
            place = f"byte {offset + start + 1} of the file"
            if b"\n".decode(encoding, "ignore") == "\n":  # then a piece is a line
                place = f"byte {offset + start - begin + 1} ({place})"
            else:
                number += error.object[: error.start].decode(encoding, "ignore").count("\n")
            found = f"{error.object[error.start : error.end].hex(' ')} ({error.reason})"
            raise InputError(
                f"{name}: line {number}, {place}: found {found}, expected {encoding}; {mend}"
            ) from None
        except UnicodeError as error:  # such as UTF-16 without a byte-order mark
            reason = " ".join(str(error).split())
            raise InputError(f"{name}: line {number}: {reason}; {mend}") from None
        if offset == 0:
            text = text.removeprefix("\ufeff")
        offset += len(piece)
        rest, *others = text.split("\n")
        line.append(rest)
        for other in others:
            yield "".join(line)
            number += 1
            line = [other]
    if any(line):
        yield "".join(line)
