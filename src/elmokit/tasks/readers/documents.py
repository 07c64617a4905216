"""Documents with clusters of mentions, in the columns of CoNLL-2012.

A document stands between `#begin document NAME` and `#end document`, a word a line, a blank line
after each sentence. Column 4 is the word, column 10 its speaker where there are twelve or more, the
last one coreference: `(5` opens a mention of cluster 5, `5)` closes it, `(5)` is one of one word,
`|` stands between several, `-` for none.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from elmokit.errors import InputError
from elmokit.tasks.readers.columns import BEGIN, END, split_columns
from elmokit.tasks.readers.reading import Block, cut_at_blank_lines

_NONE = "-"
_NO_MARKS = (_NONE, "_", "*")
_MARK = re.compile(r"(\(?)([^()|\s]+)(\)?)")
_LAST = re.compile(r"\S+(?=\s*$)")
"""The last column between spaces, without what follows it."""
_WORD, _SPEAKER = 3, 9
_LEAST_COLUMNS, _COLUMNS = 5, 12
"""Name, part, number, word, coreference; and the columns of CoNLL-2012 without predicates."""

_MEND = "mend the document, or leave it out with --skip-bad"


class Mention(NamedTuple):
    """Words start to end (exclusive) of a document."""

    start: int
    end: int


Clusters: TypeAlias = tuple[tuple[Mention, ...], ...]
"""Mentions in order, clusters by their first one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Sentences, and what in them is the same thing."""

    where: str
    """Place for messages."""
    sentences: tuple[tuple[str, ...], ...]
    """The words; at least one."""
    speakers: tuple[str | None, ...]
    """Who says each word of the document, where that is known."""
    clusters: Clusters | None = None
    """What is right, if that was asked for."""


class Conll2012:
    """The format for one file."""

    def __init__(self, name: str, *, clusters: bool, singletons: bool = True) -> None:
        """Prepares for a file.

        Args:
            name: What messages call it.
            clusters: Whether the column of coreference is read.
            singletons: Whether clusters of one mention are taken, or left out.
        """
        self._name, self._has_clusters = name, clusters
        self._least = 1 if singletons else 2
        self._begun: dict[str, int] = {}

    def cut(self, lines: Iterable[tuple[int, str]]) -> Iterator[Block]:
        """Cuts before each document and after it."""
        block: Block = []
        for number, line in lines:
            if line.startswith(BEGIN) and block:
                yield block
                block = []
            block.append((number, line))
            if line.startswith(END):
                yield block
                block = []
        if block:
            yield block

    def parse(self, block: Block) -> Document | None:
        """Returns the document of a block, or None if it has no more than comments.

        Raises:
            InputError: A marker of the document is missing, its name was there before, it has no
                word, a line has too few or too many columns, or (clusters) brackets do not match or
                a span is a mention twice.
        """
        filled = [(number, line) for number, line in block if line.strip()]
        if not any(_is_word(line) or line.startswith((BEGIN, END)) for _, line in filled):
            return None
        where = self._check_markers(filled)
        sentences, speakers, marks = [], [], []
        for rows in self._sentences(block):
            sentences.append(tuple(columns[_WORD] for _, columns in rows))
            for number, columns in rows:
                speaker = columns[_SPEAKER] if len(columns) >= _COLUMNS else _NONE
                speakers.append(None if speaker == _NONE else speaker)
                marks.append((number, columns[-1].strip()))
        if not sentences:
            raise InputError(f"{where}: the document has not one word; {_MEND}")
        clusters = _clusters(marks, self._name) if self._has_clusters else None
        if clusters is not None:
            clusters = tuple(cluster for cluster in clusters if len(cluster) >= self._least)
        return Document(
            where=where,
            sentences=tuple(sentences),
            speakers=tuple(speakers),
            clusters=clusters,
        )

    def _check_markers(self, block: Block) -> str:
        """Returns the place of a document that begins and ends as it should."""
        number, line = block[0]
        where = f"{self._name}: line {number}"
        if not line.startswith(BEGIN):
            found = "a document ends" if line.startswith(END) else "a word"
            raise InputError(
                f"{where}: found {found} where none has begun; put '{BEGIN} (NAME); part 000' "
                "before the first line of each document"
            )
        name = " ".join(line.removeprefix(BEGIN).split())
        before = self._begun.setdefault(name, number)
        if before != number:
            raise InputError(
                f"{where}: the document {name or 'without a name'} was there before, in line "
                f"{before}; give it another name or part, or leave it out with --skip-bad"
            )
        if not block[-1][1].startswith(END):
            raise InputError(
                f"{where}: the document {name} has no '{END}' after it; its last line is "
                f"{block[-1][0]}; {_MEND}"
            )
        return where

    def _sentences(self, block: Block) -> Iterator[list[tuple[int, list[str]]]]:
        """Yields the lines of each sentence with their columns."""
        for sentence in cut_at_blank_lines(block):
            rows = [(number, split_columns(line)) for number, line in sentence if _is_word(line)]
            for number, columns in rows:
                self._check_columns(number, columns, len(rows[0][1]))
            if rows:
                yield rows

    def _check_columns(self, number: int, columns: Sequence[str], expected: int) -> None:
        where = f"{self._name}: line {number}"
        if len(columns) < _LEAST_COLUMNS:
            raise InputError(
                f"{where}: found {len(columns)} columns, expected those of CoNLL-2012: name, part, "
                f"number, word, ..., coreference; {_MEND}"
            )
        if len(columns) != expected:
            raise InputError(
                f"{where}: found {len(columns)} columns, the first line of the sentence has "
                f"{expected}; {_MEND}"
            )
        for what, column in (("word", columns[_WORD]), ("coreference", columns[-1])):
            if not column.strip():
                raise InputError(f"{where}: the column of the {what} is empty; {_MEND}")


class PlainDocuments:
    """A sentence a line, its words between white space; a blank line ends a document."""

    def __init__(self, name: str) -> None:
        self._name = name

    def cut(self, lines: Iterable[tuple[int, str]]) -> Iterable[Block]:
        """Cuts at blank lines."""
        return cut_at_blank_lines(lines)

    def parse(self, block: Block) -> Document | None:
        """Returns the sentences of a block, or None if it is blank."""
        lines = [(number, line.split()) for number, line in block if line.strip()]
        if not lines:
            return None
        return Document(
            where=f"{self._name}: line {lines[0][0]}",
            sentences=tuple(tuple(words) for _, words in lines),
            speakers=(None,) * sum(len(words) for _, words in lines),
        )


def write_conll2012(block: Block, clusters: Clusters | None) -> Iterator[str]:
    """Yields the lines of a document with its clusters in the last column; without, as they are."""
    marks = _written(clusters or ())
    word = 0
    for _, line in block:
        if clusters is not None and _is_word(line):
            mark = marks.get(word, _NONE)
            before, tab, _ = line.rpartition("\t")
            line = f"{before}\t{mark}" if tab else _LAST.sub(mark, line)
            word += 1
        yield line


def write_plain(document: Document, clusters: Clusters, part: int) -> Iterator[str]:
    """Yields plain text as a document of CoNLL-2012, named `text`."""
    marks = _written(clusters)
    word = 0
    yield f"{BEGIN} (text); part {part:03}"
    for sentence in document.sentences:
        for number, token in enumerate(sentence):
            unknown = [_NONE] * (_COLUMNS - _WORD - 2)
            yield "\t".join(["text", str(part), str(number), token, *unknown, marks.get(word, "-")])
            word += 1
        yield ""
    yield END


def _is_word(line: str) -> bool:
    """Tells lines of words from blank ones, comments and the marks of documents."""
    return bool(line.strip()) and not line.startswith("#")


def _clusters(marks: Iterable[tuple[int, str]], name: str) -> Clusters:
    """Returns the clusters of a document from the last column of each word, and its line."""
    open_at: dict[str, list[tuple[int, int]]] = {}  # cluster -> first words, with their lines
    cluster_of: dict[Mention, str] = {}
    for word, (number, column) in enumerate(marks):
        where = f"{name}: line {number}"
        for mark in () if column in _NO_MARKS else column.split("|"):
            found = _MARK.fullmatch(mark)
            if found is None or not (found[1] or found[3]):
                raise InputError(
                    f"{where}: coreference: found {mark!r} in {column!r}, expected marks such as "
                    f"(5, 5) or (5) with | between them; {_MEND}"
                )
            begins, cluster, ends = found.groups()
            if begins:
                open_at.setdefault(cluster, []).append((word, number))
            if not ends:
                continue
            if not open_at.get(cluster):
                raise InputError(
                    f"{where}: coreference: {mark!r} closes a mention that is not open; {_MEND}"
                )
            mention = Mention(open_at[cluster].pop()[0], word + 1)
            if mention in cluster_of:
                raise InputError(
                    f"{where}: coreference: the mention that {mark!r} ends is marked twice, in "
                    f"cluster {cluster_of[mention]} and in {cluster}; {_MEND}"
                )
            cluster_of[mention] = cluster
    for cluster, left in open_at.items():
        if left:
            raise InputError(
                f"{name}: line {left[-1][1]}: coreference: '({cluster}' is never closed; {_MEND}"
            )
    return grouped(cluster_of)


def grouped(cluster_of: Mapping[Mention, object]) -> Clusters:
    """Returns the clusters in order, from what each mention belongs to."""
    clusters: dict[object, list[Mention]] = {}
    for mention in sorted(cluster_of):
        clusters.setdefault(cluster_of[mention], []).append(mention)
    return tuple(tuple(cluster) for cluster in clusters.values())


def _written(clusters: Clusters) -> dict[int, str]:
    """Returns the last column of the words where mentions begin or end: outer ones open first."""
    mentions = sorted(
        (mention.start, -mention.end, number)
        for number, cluster in enumerate(clusters)
        for mention in cluster
    )
    opened: dict[int, list[str]] = {}
    closed: dict[int, list[str]] = {}
    for start, minus_end, number in mentions:
        last = -minus_end - 1
        opened.setdefault(start, []).append(f"({number})" if start == last else f"({number}")
        if start != last:
            closed.setdefault(last, []).insert(0, f"{number})")
    words = sorted({*opened, *closed})
    # What ends at a word began before it, so it closes before another mention opens there.
    return {word: "|".join([*closed.get(word, []), *opened.get(word, [])]) for word in words}
