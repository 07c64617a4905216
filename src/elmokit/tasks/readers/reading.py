"""What every reader of examples does: pieces of a file in, examples and what is no example out."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from elmokit.errors import InputError
from elmokit.text.lines import read_lines, source_name

logger = logging.getLogger(__name__)

_SHOWN = 10
"""Skipped examples that are told one by one."""

P = TypeVar("P")
T = TypeVar("T")
V = TypeVar("V")
T_co = TypeVar("T_co", covariant=True)

Block = list[tuple[int, str]]
"""Lines that belong together, with their numbers."""


class LineFormat(Protocol[T_co]):
    """A format whose examples are lines, or blocks of them."""

    def cut(self, lines: Iterable[tuple[int, str]]) -> Iterable[Block]:
        """Cuts lines into blocks of one example each; no line is lost."""
        ...

    def parse(self, block: Block) -> T_co | None:
        """Returns the example of a block, or None if it holds none.

        Raises:
            InputError: The block is not of this format; the message has the file and the line.
        """
        ...


@dataclass(frozen=True, slots=True)
class Entry(Generic[P, T]):
    """A piece of a file."""

    piece: P
    """As it was read."""
    item: T | None
    """The example in it, if there is one."""


@dataclass(frozen=True, slots=True)
class Reading(Generic[P, T]):
    """A file that was read."""

    name: str
    """What messages call it."""
    entries: list[Entry[P, T]]
    """All of it, in order."""
    num_skipped: int
    """Pieces that were left out because something is wrong with them."""

    @property
    def items(self) -> list[T]:
        """The examples."""
        return [entry.item for entry in self.entries if entry.item is not None]

    def predicted(self, predictions: Iterable[V]) -> Iterator[tuple[Entry[P, T], V | None]]:
        """Yields each entry with what was predicted for its example, or None if it has none.

        Args:
            predictions: One for each of `items`, in order.
        """
        left = iter(predictions)
        for entry in self.entries:
            yield entry, None if entry.item is None else next(left)


def read_pieces(
    pieces: Iterable[P], parse: Callable[[P], T | None], *, name: str, skip_bad: bool
) -> Reading[P, T]:
    """Parses the pieces of a file.

    Args:
        pieces: What may hold an example each.
        parse: Returns the example of a piece or None; raises InputError if something is wrong.
        name: What messages call the file.
        skip_bad: Go on after an error; it is logged, and the piece has no example.

    Raises:
        InputError: A piece is wrong, or there is nothing that could be an example.
    """
    entries, num_skipped = [], 0
    for piece in pieces:
        try:
            item = parse(piece)
        except InputError as error:
            if not skip_bad:
                raise
            num_skipped += 1
            item = None
            if num_skipped <= _SHOWN:
                logger.warning("skipped: %s", error)
        entries.append(Entry(piece, item))
    reading = Reading(name, entries, num_skipped)
    if num_skipped:
        logger.warning("%s: skipped %s, read %s", name, num_skipped, len(reading.items))
    if not num_skipped:
        check_any(reading)
    return reading


def check_any(reading: Reading[P, T]) -> None:
    """Raises InputError if a file holds no example."""
    if not reading.items:
        raise InputError(f"{reading.name}: holds not one example")


def refined(reading: Reading[P, T], convert: Callable[[T], T], *, skip_bad: bool) -> Reading[P, T]:
    """Converts the examples of a file, where that takes all of it to be read first.

    Args:
        reading: The file.
        convert: Returns the example to take; raises InputError if something is wrong.
        skip_bad: Go on after an error; see `read_pieces`.

    Raises:
        InputError: An example is wrong, or there is none.
    """
    if not reading.items:
        return reading
    again = read_pieces(
        reading.entries,
        lambda entry: None if entry.item is None else convert(entry.item),
        name=reading.name,
        skip_bad=skip_bad,
    )
    entries = [Entry(entry.piece.piece, entry.item) for entry in again.entries]
    return Reading(reading.name, entries, reading.num_skipped + again.num_skipped)


def read_examples(
    source: str | Path,
    open_format: Callable[[str], LineFormat[T]],
    *,
    encoding: str = "utf-8",
    skip_bad: bool = False,
) -> Reading[Block, T]:
    """Reads a file whose examples are lines, or blocks of them.

    Args:
        source: A file, decompressed if it ends in .gz, .xz or .zst; `-` is standard input. CR at
            the end of a line and a byte-order mark are no part of it.
        open_format: Makes the format for a file of that name.
        encoding: Encoding of the file.
        skip_bad: Go on after an error; see `read_pieces`.

    Raises:
        InputError: The file cannot be read, a piece is wrong, or there is nothing that could be an
            example.
        ConfigError: The encoding is unknown.
    """
    name = source_name(source)
    format = open_format(name)
    pieces = list(format.cut(read_lines(source, encoding)))  # all, so that the file is closed
    return read_pieces(pieces, format.parse, name=name, skip_bad=skip_bad)


def cut_at_blank_lines(lines: Iterable[tuple[int, str]]) -> Iterator[Block]:
    """Yields blocks that end with their blank lines; those at the start begin the first block."""
    block: Block = []
    has_text = is_blank = False
    for number, line in lines:
        was_blank, is_blank = is_blank, not line.strip()
        if has_text and was_blank and not is_blank:
            yield block
            block, has_text = [], False
        block.append((number, line))
        has_text = has_text or not is_blank
    if block:
        yield block


def cut_lines(lines: Iterable[tuple[int, str]]) -> Iterator[Block]:
    """Yields each line as a block."""
    return ([line] for line in lines)
