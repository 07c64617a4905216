"""A word a line with its columns, as in the shared tasks of CoNLL 2000, 2002 and 2003.

Columns stand between tabs if a line has one, else between spaces. Blank lines end sentences; a
line whose word is -DOCSTART- is none of a sentence, and may have other columns.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from elmokit.errors import InputError
from elmokit.metrics.spans import OUTSIDE
from elmokit.tasks.readers.items import Sentence
from elmokit.tasks.readers.reading import Block, cut_at_blank_lines

DOCSTART = "-DOCSTART-"
BEGIN, END = "#begin document", "#end document"
"""What lines before and after a document start with, in CoNLL 2011 and 2012."""

_SPACES = re.compile(" +")


class Columns:
    """The format for one file; all lines of it have as many columns as the first."""

    def __init__(self, name: str, column: int | None) -> None:
        """Prepares for a file.

        Args:
            name: What messages call it.
            column: Where tags are: 1 for the first column, -1 for the last; None for no tags.
        """
        self._name, self._column = name, column
        self._num_columns: int | None = None

    def cut(self, lines: Iterable[tuple[int, str]]) -> Iterable[Block]:
        """Cuts at blank lines."""
        return cut_at_blank_lines(lines)

    def parse(self, block: Block) -> Sentence | None:
        """Returns the sentence of a block, or None if it has no word.

        Raises:
            InputError: A line has too few or too many columns, or no word.
        """
        rows = [(number, split_columns(line)) for number, line in block if line.strip()]
        rows = [(number, columns) for number, columns in rows if columns[0] != DOCSTART]
        if not rows:
            return None
        for number, columns in rows:
            self._check(columns, f"{self._name}: line {number}")
        place = None if self._column is None else self._column - (self._column > 0)
        return Sentence(
            name=self._name,
            lines=tuple(number for number, _ in rows),
            tokens=tuple(columns[0] for _, columns in rows),
            tags=None if place is None else tuple(columns[place] for _, columns in rows),
        )

    def _check(self, columns: Sequence[str], where: str) -> None:
        if not columns[0]:
            raise InputError(f"{where}: the first column is empty; expected a word there")
        if self._num_columns is None:
            if self._column is not None and not 1 <= abs(self._column) <= len(columns):
                raise InputError(
                    f"{where}: column: there is no column {self._column}, the line has "
                    f"{len(columns)}; set data.column"
                )
            self._num_columns = len(columns)
        if len(columns) != self._num_columns:
            raise InputError(
                f"{where}: found {len(columns)} columns, the first line has {self._num_columns}; "
                "mend the line, or leave its sentence out with --skip-bad"
            )


def write_columns(block: Block, tags: Sequence[str] | None) -> Iterator[str]:
    """Yields the lines of a block with one more column, the tags; without any, as they are."""
    left = iter(tags or ())
    for _, line in block:
        if line.strip() and split_columns(line)[0] == DOCSTART:
            yield _with_tag(line, OUTSIDE)
        elif line.strip() and tags is not None:
            yield _with_tag(line, next(left))
        else:
            yield line


def split_columns(line: str) -> list[str]:
    """Returns the columns of a line: between tabs if it has one, else between spaces.

    Other white space, such as a no-break space, is part of a column.
    """
    return line.split("\t") if "\t" in line else _SPACES.split(line.strip(" "))


def _with_tag(line: str, tag: str) -> str:
    separator = "\t" if "\t" in line else " "
    return f"{line.rstrip()}{separator}{tag}"
