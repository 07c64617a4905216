"""Tab-separated lines: a label and a text, or two texts; columns are chosen by number or name."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from elmokit.config import nearest
from elmokit.errors import ConfigError, InputError
from elmokit.tasks.readers.reading import Block, cut_lines


class Table:
    """The lines of one file as columns; the first line has their names if any is asked for."""

    def __init__(self, name: str, columns: Mapping[str, str], *, labels: bool = True) -> None:
        """Prepares for a file.

        Args:
            name: What messages call it.
            columns: What may be read -> the column it stands in: its number from 1, or its name in
                the first line.
            labels: Whether the column of labels is read; else it may be missing.
        """
        self._name, self._has_names = name, _have_names(columns)
        self._columns = {what: columns[what] for what in columns if labels or what != "label"}
        self._places: dict[str, int] = {}
        self._num_columns: int | None = None

    def cut(self, lines: Iterable[tuple[int, str]]) -> Iterator[Block]:
        """Makes each line a block."""
        return cut_lines(lines)

    def read(self, block: Block) -> dict[str, str] | None:
        """Returns what a line holds; None for a header or a blank line.

        Raises:
            ConfigError: There is no such column.
            InputError: The line has another number of columns than the first.
        """
        [(number, line)] = block
        if not line.strip():
            return None
        columns = line.split("\t")
        if self._num_columns is None:
            self._places = {
                what: self._find(column, columns, f"{self._name}: line {number}")
                for what, column in self._columns.items()
            }
            self._num_columns = len(columns)
            if self._has_names:
                return None
        if len(columns) != self._num_columns:
            raise InputError(
                f"{self._name}: line {number}: found {len(columns)} columns, the first line has "
                f"{self._num_columns}; mend the line, or leave it out with --skip-bad"
            )
        return {what: columns[place] for what, place in self._places.items()}

    def _find(self, column: str, columns: Sequence[str], where: str) -> int:
        """Returns the place of a column in the first line, from 0."""
        place = _place(column, columns if self._has_names else ())
        if place is None:
            raise ConfigError(
                f"{where}: there is no column {column!r}{nearest(column, columns)}; the columns "
                f"are {', '.join(columns)}"
            )
        if not 0 <= place < len(columns):
            raise ConfigError(
                f"{where}: there is no column {column}, the line has {len(columns)} (between "
                "tabs); mend the line, or set the data.*_column that names it"
            )
        return place


class LabelColumn:
    """Writes the lines of a table with other labels."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        """Prepares for a file.

        Args:
            columns: As for `Table`; the first line gets the column of labels if it has none.
        """
        self._column = columns["label"]
        self._place = None if _have_names(columns) else _place(self._column, ())

    def __call__(self, line: str, label: str | None) -> Iterator[str]:
        """Yields a line with its label; without one, as it is."""
        columns = line.split("\t")
        if not line.strip():
            pass
        elif self._place is None:
            place = _place(self._column, columns)
            if place is None or place >= len(columns):
                place = len(columns)
                columns.append(self._column)
            self._place = place
        elif self._place >= len(columns):
            columns.append(label or "")
        elif label is not None:
            columns[self._place] = label
        yield "\t".join(columns)


def _have_names(columns: Mapping[str, str]) -> bool:
    """Tells whether a column is asked for by what can only be its name."""
    return not all(column.isdecimal() for column in columns.values())


def _place(column: str, names: Sequence[str]) -> int | None:
    """Returns the place of a column from 0, by its name or else its number; None if it has none."""
    if column in names:
        return names.index(column)
    return int(column) - 1 if column.isdecimal() else None


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
