"""Two texts and a label a line: SNLI's JSON lines, SICK's and other tab-separated tables."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from elmokit.errors import InputError
from elmokit.tasks.readers.items import Pair
from elmokit.tasks.readers.reading import Block, cut_lines
from elmokit.tasks.readers.tsv import Table, label_of, words_of
from elmokit.text.jsonl import parse_record

SICK = {"premise": "sentence_A", "hypothesis": "sentence_B", "label": "entailment_judgment"}
"""Columns of SICK by what stands in them."""

_TEXTS = {"premise": "sentence1", "hypothesis": "sentence2"}
_BRACKETS = str.maketrans("", "", "()")


class TsvPairs:
    """Tab-separated lines with two columns of texts and one of labels."""

    def __init__(self, name: str, columns: Mapping[str, str], *, labels: bool) -> None:
        """Prepares for a file.

        Args:
            name: What messages call it.
            columns: Number or name of the columns premise, hypothesis and label.
            labels: Whether labels are read.
        """
        self._name, self._table = name, Table(name, columns, labels=labels)

    def cut(self, lines: Iterable[tuple[int, str]]) -> Iterable[Block]:
        """Makes each line a block."""
        return self._table.cut(lines)

    def parse(self, block: Block) -> Pair | None:
        """Returns the pair of a line; None for a header or a blank line.

        Raises:
            ConfigError: A column is missing.
            InputError: The label or a text is missing, or the line has too few or too many columns.
        """
        found = self._table.read(block)
        return None if found is None else _pair(found, f"{self._name}: line {block[0][0]}")


class Snli:
    """JSON lines with gold_label, sentence1 and sentence2.

    Words are those of the binary parse where the record has one, else what white space separates.
    """

    def __init__(self, name: str, *, labels: bool) -> None:
        """Prepares for a file.

        Args:
            name: What messages call it.
            labels: Whether labels are read.
        """
        self._name, self._labels = name, labels

    def cut(self, lines: Iterable[tuple[int, str]]) -> Iterable[Block]:
        """Makes each line a block."""
        return cut_lines(lines)

    def parse(self, block: Block) -> Pair | None:
        """Returns the pair of a record; None for a blank line.

        Raises:
            InputError: A line is not JSON, a field is missing, or the label is "-".
        """
        [(number, line)] = block
        if not line.strip():
            return None
        where = f"{self._name}: line {number}"
        record = parse_record(line, where)
        found = {what: _text(record, field, where) for what, field in _TEXTS.items()}
        if self._labels:
            found["label"] = _field(record, "gold_label", where)
        return _pair(found, where)


def write_snli(line: str, label: str | None) -> Iterator[str]:
    """Yields a record with another label; without one, as it is."""
    yield json.dumps({**json.loads(line), "gold_label": label}) if label else line


def _pair(found: dict[str, str], where: str) -> Pair:
    return Pair(
        where=where,
        premise=words_of(found["premise"], "premise", where),
        hypothesis=words_of(found["hypothesis"], "hypothesis", where),
        label=label_of(found["label"], where) if "label" in found else None,
    )


def _text(record: dict[str, Any], field: str, where: str) -> str:
    parse = record.get(f"{field}_binary_parse")
    return parse.translate(_BRACKETS) if isinstance(parse, str) else _field(record, field, where)


def _field(record: dict[str, Any], field: str, where: str) -> str:
    value = record.get(field)
    if not isinstance(value, str):
        problem = "is missing" if value is None else f"expected a string, found {value!r:.40}"
        raise InputError(
            f"{where}: {field}: {problem}; mend the record, or leave it out with --skip-bad"
        )
    return value
