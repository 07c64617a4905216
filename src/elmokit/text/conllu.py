"""CoNLL-U: a sentence is a row, and its words are the forms of lines with an integer id."""

import re
from collections.abc import Iterable, Iterator

from elmokit.errors import InputError
from elmokit.text.row import Row

_NUM_COLUMNS = 10
_WORD_ID = re.compile(r"[0-9]+")
_OTHER_ID = re.compile(r"[0-9]+[-.][0-9]+")  # a multiword token 1-2, an empty node 1.1


def read_conllu(lines: Iterable[tuple[int, str]], name: str) -> Iterator[Row]:
    """Yields each sentence that has a word or other token line; comments alone are no sentence.

    Args:
        lines: Numbered lines.
        name: What messages call the source.

    Raises:
        InputError: A line has not ten columns, or its id is not of a kind that CoNLL-U has.
    """
    first = 0
    words: list[str] | None = None
    for number, line in lines:
        if not line.strip():
            if words is not None:
                yield Row(tuple(words), first)
            first, words = 0, None
            continue
        first = first or number
        if line.startswith("#"):
            continue
        words = [] if words is None else words
        columns = read_word(line, f"{name}: line {number}")
        if columns is not None:
            words.append(columns[1])
    if words is not None:
        yield Row(tuple(words), first)


def read_word(line: str, where: str) -> list[str] | None:
    """Returns the columns of a word, or None for a line that is no word.

    Raises:
        InputError: The line has not ten columns, or its id is not of a kind that CoNLL-U has.
    """
    columns = line.split("\t")
    if len(columns) != _NUM_COLUMNS:
        raise InputError(
            f"{where}: found {len(columns)} columns, expected the {_NUM_COLUMNS} of CoNLL-U, "
            "separated by tabs; if this is another format, name it with --format"
        )
    if _WORD_ID.fullmatch(columns[0]):
        return columns
    if _OTHER_ID.fullmatch(columns[0]):
        return None
    raise InputError(
        f"{where}: id: {columns[0]!r} is no number; expected 1, or 1-2 or 1.1 for a line to skip"
    )
