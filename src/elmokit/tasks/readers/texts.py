"""A labelled text a line: tab-separated columns, or the question classes of TREC."""

from collections.abc import Iterable, Iterator, Mapping

from elmokit.errors import InputError
from elmokit.tasks.readers.items import Text
from elmokit.tasks.readers.reading import Block, cut_lines
from elmokit.tasks.readers.tsv import Table, label_of, words_of


class TsvTexts:
    """Tab-separated lines with a column of labels and one of texts."""

    def __init__(self, name: str, columns: Mapping[str, str], *, labels: bool) -> None:
        """Prepares for a file.

        Args:
            name: What messages call it.
            columns: Number or name of the columns text and label.
            labels: Whether labels are read.
        """
        self._name, self._table = name, Table(name, columns, labels=labels)

    def cut(self, lines: Iterable[tuple[int, str]]) -> Iterable[Block]:
        """Makes each line a block."""
        return self._table.cut(lines)

    def parse(self, block: Block) -> Text | None:
        """Returns the text of a line; None for a header or a blank line.

        Raises:
            ConfigError: A column is missing.
            InputError: The label or the text is missing, or the line has too few or too many
                columns.
        """
        found = self._table.read(block)
        if found is None:
            return None
        where = f"{self._name}: line {block[0][0]}"
        return Text(
            where=where,
            tokens=words_of(found["text"], "text", where),
            label=label_of(found["label"], where) if "label" in found else None,
        )


class Trec:
    """COARSE:fine, a space, and a question in words."""

    def __init__(self, name: str, *, labels: str | None) -> None:
        """Prepares for a file.

        Args:
            name: What messages call it.
            labels: "coarse" for the part before the colon, "fine" for the whole; None for no
                labels.
        """
        self._name, self._labels = name, labels

    def cut(self, lines: Iterable[tuple[int, str]]) -> Iterable[Block]:
        """Makes each line a block."""
        return cut_lines(lines)

    def parse(self, block: Block) -> Text | None:
        """Returns the question of a line; None for a blank line.

        Raises:
            InputError: The label or the question is missing.
        """
        [(number, line)] = block
        if not line.strip():
            return None
        where = f"{self._name}: line {number}"
        label, _, question = line.strip().partition(" ")
        coarse, _, fine = label.partition(":")
        if not coarse or not fine:
            raise InputError(
                f"{where}: found {label!r}, expected a class such as DESC:manner before the "
                "question; mend the line, or leave it out with --skip-bad"
            )
        labels = {"coarse": coarse, "fine": label}
        return Text(
            where=where,
            tokens=words_of(question, "question", where),
            label=None if self._labels is None else labels[self._labels],
        )


def write_labelled(line: str, label: str | None) -> Iterator[str]:
    """Yields a label and what stood in the line, between them a tab."""
    yield f"{label or ''}\t{line}"


def write_trec(line: str, label: str | None) -> Iterator[str]:
    """Yields a line of TREC with another class; without one, as it is."""
    yield f"{label} {line.strip().partition(' ')[2]}" if label else line
