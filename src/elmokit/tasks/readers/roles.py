"""Semantic roles in columns, as in the shared tasks of CoNLL 2005 and 2012, and marked in text.

Columns stand between tabs if a line has one, else between spaces. Blank lines end sentences. Each
predicate has a column, in the order of the predicates: `(A0*` begins an argument, `*)` ends one,
`(A0*)` is one of one word, `*` is neither.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from elmokit.errors import InputError
from elmokit.metrics.roles import VERB
from elmokit.metrics.spans import Span
from elmokit.tasks.readers.columns import BEGIN, END, split_columns
from elmokit.tasks.readers.reading import Block, cut_at_blank_lines, cut_lines

RoleFormat = Literal["auto", "conll2012", "conll2005"]
"""auto: conll2012 where a sentence's first line has 12 columns or more with numbers in the second
and third, else conll2005."""

_NONE = "-"
_CELL = re.compile(r"(?:\((?P<label>[^()*]+))?\*(?P<end>\))?")
_MARKED = re.compile(r"\*\*(.+)\*\*")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSentence:
    """Words, and what is said of them by each predicate."""

    name: str
    """The file."""
    lines: tuple[int, ...]
    """Line of each word."""
    tokens: tuple[str, ...]
    """The words; at least one."""
    predicates: tuple[int, ...]
    """Places of the predicates; there may be none."""
    roles: tuple[tuple[Span, ...], ...] | None = None
    """The spans of each predicate, its own (V) among them, if they were asked for."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """What stands where, columns counted from 0."""

    word: int
    predicate: int
    roles: int
    """The first column of arguments."""
    num_after: int
    """Columns behind the arguments."""


class RoleColumns:
    """The format for one file; each sentence is taken by itself."""

    def __init__(
        self, name: str, format: RoleFormat, predicate_column: int, *, has_roles: bool
    ) -> None:
        """Prepares for a file.

        Args:
            name: What messages call it.
            format: What stands where.
            predicate_column: Where predicates are in conll2005, 1 for the first column; arguments
                begin after it.
            has_roles: Whether arguments are read.
        """
        self._name, self._has_roles = name, has_roles
        self._format, self._predicate_column = format, predicate_column

    def cut(self, lines: Iterable[tuple[int, str]]) -> Iterable[Block]:
        """Cuts at blank lines, and where a document begins."""
        for block in cut_at_blank_lines(lines):
            start, has_word = 0, False
            for place, (_, line) in enumerate(block):
                if has_word and line.startswith(BEGIN):
                    yield block[start:place]
                    start, has_word = place, False
                has_word = has_word or _is_word(line)
            yield block[start:]

    def parse(self, block: Block) -> RoleSentence | None:
        """Returns the sentence of a block, or None if it has no word.

        Raises:
            InputError: Lines have too few columns or not equally many, there are more or fewer
                columns of arguments than predicates, or a column of them is malformed.
        """
        rows = [(number, split_columns(line)) for number, line in block if _is_word(line)]
        if not rows:
            return None
        layout = _layout(rows[0][1], self._format, self._predicate_column)
        self._check_columns(rows, layout)
        predicates = [
            place for place, (_, row) in enumerate(rows) if row[layout.predicate] != _NONE
        ]
        return RoleSentence(
            name=self._name,
            lines=tuple(number for number, _ in rows),
            tokens=tuple(row[layout.word] for _, row in rows),
            predicates=tuple(predicates),
            roles=self._roles(rows, predicates, layout) if self._has_roles else None,
        )

    def _check_columns(self, rows: Sequence[tuple[int, list[str]]], layout: _Layout) -> None:
        number, first = rows[0]
        least = layout.roles + layout.num_after
        if len(first) < least:
            raise InputError(
                f"{self._name}: line {number}: found {len(first)} columns, expected {least} or "
                "more; set data.format or data.predicate_column, or leave the sentence out with "
                "--skip-bad"
            )
        for number, row in rows:
            where = f"{self._name}: line {number}"
            if len(row) != len(first):
                raise InputError(
                    f"{where}: found {len(row)} columns, the first line of the sentence has "
                    f"{len(first)}; mend the line, or leave its sentence out with --skip-bad"
                )
            for place, what in ((layout.word, "word"), (layout.predicate, "predicate")):
                if not row[place]:
                    raise InputError(f"{where}: column {place + 1} is empty; expected a {what}")

    def _roles(
        self, rows: Sequence[tuple[int, list[str]]], predicates: Sequence[int], layout: _Layout
    ) -> tuple[tuple[Span, ...], ...]:
        number, first = rows[0]
        num_columns = len(first) - layout.roles - layout.num_after
        if num_columns != len(predicates):
            raise InputError(
                f"{self._name}: line {number}: the sentence has {num_columns} columns of arguments "
                f"and {len(predicates)} predicates in column {layout.predicate + 1}; expected a "
                "column for each"
            )
        return tuple(
            self._column(rows, predicate, column)
            for column, predicate in enumerate(predicates, start=layout.roles)
        )

    def _column(
        self, rows: Sequence[tuple[int, list[str]]], predicate: int, column: int
    ) -> tuple[Span, ...]:
        """Reads the spans of a predicate; if its own is missing, it is added."""
        places = [f"{self._name}: line {number}: column {column + 1}" for number, _ in rows]
        spans = _read_spans([row[column] for _, row in rows], places)
        at = next((span for span in spans if span.start <= predicate < span.end), None)
        if at is None and not any(span.label == VERB for span in spans):
            return tuple(sorted([*spans, Span(predicate, predicate + 1, VERB)]))
        if at is None or at.label != VERB:
            found = "nothing" if at is None else at.label
            raise InputError(
                f"{places[predicate]}: found {found} at the predicate, expected ({VERB}*; the "
                "columns of arguments have the order of the predicates"
            )
        return tuple(spans)


def write_roles(
    block: Block,
    roles: Sequence[Sequence[Span]] | None,
    format: RoleFormat,
    predicate_column: int,
) -> Iterator[str]:
    """Yields the lines of a block with other columns of arguments; without any, as they are."""
    rows = [split_columns(line) for _, line in block if _is_word(line)]
    columns = [_cells(spans, len(rows)) for spans in roles or ()]
    place = 0
    for _, line in block:
        if roles is None or not _is_word(line):
            yield line
            continue
        row, layout = rows[place], _layout(rows[0], format, predicate_column)
        behind = row[len(row) - layout.num_after :]
        cells = [column[place] for column in columns]
        yield ("\t" if "\t" in line else " ").join([*row[: layout.roles], *cells, *behind])
        place += 1


class MarkedText:
    """Plain lines, predicates between `**` and `**`; a blank line is no sentence."""

    def __init__(self, name: str) -> None:
        self._name = name

    def cut(self, lines: Iterable[tuple[int, str]]) -> Iterable[Block]:
        """Makes each line a block."""
        return cut_lines(lines)

    def parse(self, block: Block) -> RoleSentence | None:
        """Returns the words of a line."""
        [(number, line)] = block
        words = line.split()
        marked = [_MARKED.fullmatch(word) for word in words]
        if not words:
            return None
        return RoleSentence(
            name=self._name,
            lines=(number,) * len(words),
            tokens=tuple(
                word if mark is None else mark[1] for word, mark in zip(words, marked, strict=True)
            ),
            predicates=tuple(place for place, mark in enumerate(marked) if mark is not None),
        )


def write_marked(block: Block, roles: Sequence[Sequence[Span]] | None) -> Iterator[str]:
    """Yields a word a line, then itself if it is a predicate, then columns of arguments.

    A predicate that is a hyphen, which alone would stand for none, is doubled there. A blank line
    follows; that alone for a blank one.
    """
    sentence = MarkedText("").parse(block)
    if sentence is not None:
        columns = [_cells(spans, len(sentence.tokens)) for spans in roles or ()]
        for place, token in enumerate(sentence.tokens):
            predicate = _NONE
            if place in sentence.predicates:
                predicate = token if token != _NONE else 2 * _NONE
            yield " ".join([token, predicate, *(column[place] for column in columns)])
    yield ""


def _layout(columns: Sequence[str], format: RoleFormat, predicate_column: int) -> _Layout:
    """Returns what stands where in a sentence, by its first line."""
    numbers = columns[1:3]
    looks_so = len(columns) >= 12 and all(number.isdecimal() for number in numbers)
    if format == "conll2012" or (format == "auto" and looks_so):
        return _Layout(word=3, predicate=7, roles=11, num_after=1)
    return _Layout(word=0, predicate=predicate_column - 1, roles=predicate_column, num_after=0)


def _read_spans(cells: Sequence[str], places: Sequence[str]) -> list[Span]:
    """Reads a column of arguments; `places` is for messages."""
    spans: list[Span] = []
    label, start = "", None
    for place, (cell, where) in enumerate(zip(cells, places, strict=True)):
        match = _CELL.fullmatch(cell)
        if match is None:
            raise InputError(f"{where}: found {cell!r}, expected *, (LABEL*, *) or (LABEL*)")
        if match["label"]:
            if start is not None:
                raise InputError(
                    f"{where}: {match['label']} begins inside {label}; arguments of a predicate "
                    "may not overlap"
                )
            label, start = match["label"], place
        if match["end"]:
            if start is None:
                raise InputError(f"{where}: the bracket closes nothing")
            spans.append(Span(start, place + 1, label))
            start = None
    if start is not None:
        raise InputError(f"{places[start]}: the bracket of {label} is never closed")
    return spans


def _cells(spans: Iterable[Span], length: int) -> list[str]:
    """Writes spans that do not overlap as a column."""
    cells = ["*"] * length
    for start, end, label in spans:
        cells[start] = f"({label}*"
        cells[end - 1] += ")"
    return cells


def _is_word(line: str) -> bool:
    return bool(line.strip()) and not line.startswith((BEGIN, END))
