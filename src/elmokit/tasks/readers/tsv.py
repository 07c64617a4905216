"""Tab-separated lines: a label and a text, or two texts; columns are chosen by number or name."""

from collections.abc import Iterable, Iterator

from elmokit.config import nearest
from elmokit.errors import InputError
from elmokit.tasks.readers.reading import Block, cut_lines


class Table:
    """The lines of one file as columns; the first line has their names if any is asked for."""

    def __init__(self, name: str, columns: dict[str, str]) -> None:
        """Prepares for a file.

        Args:
            name: What messages call it.
            columns: What is read -> the column it stands in: its number from 1, or its name in the
                first line.
        """
        self._name, self._columns = name, columns
        self.has_header = not all(column.isdecimal() for column in columns.values())
        self.places: dict[str, int] = {}
        """What is read -> its column from 0, once the first line is read."""
        self._num_columns: int | None = None

    def cut(self, lines: Iterable[tuple[int, str]]) -> Iterator[Block]:
        """Makes each line a block."""
        return cut_lines(lines)

    def read(self, block: Block) -> dict[str, str] | None:
        """Returns what a line holds; None for a header or a blank line.

        Raises:
            InputError: There is no such column, or the line has another number of columns than the
                first.
        """
        [(number, line)] = block
        if not line.strip():
            return None
        columns = line.split("\t")
        if self._num_columns is None:
            self._num_columns = len(columns)
            self.places = {
                what: self._find(column, columns, f"{self._name}: line {number}")
                for what, column in self._columns.items()
            }
            if self.has_header:
                return None
        if len(columns) != self._num_columns:
            raise InputError(
                f"{self._name}: line {number}: found {len(columns)} columns, the first line has "
                f"{self._num_columns}; mend the line, or leave it out with --skip-bad"
            )
        return {what: columns[place] for what, place in self.places.items()}

    def _find(self, column: str, columns: list[str], where: str) -> int:
        if self.has_header:
            if column not in columns:
                raise InputError(
                    f"{where}: there is no column {column!r}{nearest(column, columns)}; the "
                    f"columns are {', '.join(columns)}"
                )
            return columns.index(column)
        if not 1 <= int(column) <= len(columns):
            raise InputError(
                f"{where}: there is no column {column}, the line has {len(columns)} (between "
                "tabs); mend the line, or set the data.*_column that names it"
            )
        return int(column) - 1


class LabelColumn:
    """Writes the lines of a table with other labels."""

    def __init__(self, column: str) -> None:
        """Prepares for a file.

        Args:
            column: Where labels stand: a number from 1, or a name in the first line, which gets the
                column if it has none of that name.
        """
        self._column = column
        self._place = int(column) - 1 if column.isdecimal() else None

    def __call__(self, line: str, label: str | None) -> Iterator[str]:
        """Yields a line with its label; without one, as it is."""
        columns = line.split("\t")
        if not line.strip():
            pass
        elif self._place is None:
            if self._column not in columns:
                columns.append(self._column)
            self._place = columns.index(self._column)
        elif self._place >= len(columns):
            columns.append(label or "")
        elif label is not None:
            columns[self._place] = label
        yield "\t".join(columns)


def label_of(label: str, where: str) -> str:
    """Returns a label without white space around it.

    Raises:
        InputError: There is none, or it is `-`, which stands for none.
    """
    label = label.strip()
    if label in ("", "-"):
        raise InputError(
            f"{where}: the label is {'missing' if not label else repr(label)}; mend the line, or "
            "leave it out with --skip-bad"
        )
    return label


def words_of(text: str, what: str, where: str) -> tuple[str, ...]:
    """Returns the words of a text.

    Raises:
        InputError: There is none.
    """
    words = tuple(text.split())
    if not words:
        raise InputError(
            f"{where}: the {what} has no words; mend the line, or leave it out with --skip-bad"
        )
    return words
