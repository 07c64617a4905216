"""Questions about texts: SQuAD's JSON, or a question and a text a line."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from elmokit.errors import InputError
from elmokit.tasks.readers.items import Question
from elmokit.tasks.readers.passages import Cutting, Passage, window_around
from elmokit.tasks.readers.reading import Block, Reading, cut_lines, read_pieces
from elmokit.text.lines import read_lines, source_name

T = TypeVar("T")

_MEND = "mend it, or leave it out with --skip-bad"
_KINDS = {
    str: "a string",
    list: "a list",
    dict: "an object",
    int: "a whole number",
    bool: "a truth value",
}
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Piece:
    """A question of a file, or a part that cannot be read as questions."""

    where: str
    """Place for messages."""
    key: str | None
    """What its answer is written under; None if it asks nothing."""
    content: tuple[Passage, dict[str, Any]] | InputError
    """The text and the fields of the question, or what is wrong."""


def read_squad(
    source: str,
    cutting: Cutting,
    *,
    encoding: str,
    answers: bool,
    learnt: bool,
    skip_bad: bool,
) -> Reading[Piece, Question]:
    """Reads a file of SQuAD 1.1, or of 2.0, whose questions may have no answer.

    Args:
        source: The file; `-` is standard input.
        cutting: How texts are cut.
        encoding: Encoding of the file.
        answers: Whether answers are read.
        learnt: Whether there must be one that is whole in a window.
        skip_bad: Go on after an error; see `read_pieces`.

    Raises:
        InputError: The file cannot be read or is not JSON, a question is wrong, or there is none.
        ConfigError: The encoding is unknown.
    """
    name = source_name(source)
    text = "\n".join(line for _, line in read_lines(source, encoding))

    def parse(piece: Piece) -> Question:
        if isinstance(piece.content, InputError):
            raise piece.content
        return _question(piece.where, *piece.content, cutting, answers=answers, learnt=learnt)

    return read_pieces(
        _pieces(_load(text, name), name, cutting), parse, name=name, skip_bad=skip_bad
    )


def write_squad(reading: Reading[Piece, Question], predictions: Sequence[str]) -> Iterator[str]:
    """Yields the lines of a JSON object, id -> answer, with an empty one for what was left out."""
    answers = {
        entry.piece.key: answer or ""
        for entry, answer in reading.predicted(predictions)
        if entry.piece.key is not None
    }
    yield "{"
    for number, (key, answer) in enumerate(answers.items(), start=1):
        yield f" {_json(key)}: {_json(answer)}{',' if number < len(answers) else ''}"
    yield "}"


class PlainQuestions:
    """A question, a tab and a text a line."""

    def __init__(self, name: str, cutting: Cutting) -> None:
        """Prepares for a file.

        Args:
            name: What messages call it.
            cutting: How texts are cut.
        """
        self._name, self._cutting = name, cutting

    def cut(self, lines: Iterable[tuple[int, str]]) -> Iterable[Block]:
        """Makes each line a block."""
        return cut_lines(lines)

    def parse(self, block: Block) -> Question | None:
        """Returns the question of a line; None for a blank line.

        The text goes to the end of the line, whatever tabs it has.

        Raises:
            InputError: The tab, the question or the text is missing.
        """
        [(number, line)] = block
        if not line.strip():
            return None
        where = f"{self._name}: line {number}"
        question, tab, context = line.partition("\t")
        if not tab:
            raise InputError(f"{where}: has no tab between a question and its text; {_MEND}")
        found = {"question": question, "context": context}
        passage = _passage(found, where, self._cutting)
        return _question(where, passage, found, self._cutting, answers=False, learnt=False)


def _load(text: str, name: str) -> list[Any]:
    """Returns the articles of a document."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{name}: line {error.lineno}, character {error.colno}: not JSON ({error.msg}); give a "
            "file of SQuAD's format"
        ) from None
    except (ValueError, RecursionError) as error:  # a number of too many digits, too many brackets
        raise InputError(f"{name}: not JSON that can be read ({error})") from None
    articles = document.get("data") if isinstance(document, dict) else None
    if not isinstance(articles, list):
        raise InputError(
            f'{name}: is not of SQuAD\'s format, an object with a list "data"; give such a file'
        )
    return articles


def _pieces(articles: list[Any], name: str, cutting: Cutting) -> Iterator[Piece]:
    """Yields every question, and what else cannot be read."""
    seen: set[str] = set()
    for number, article in enumerate(articles, start=1):
        where = f"{name}: article {number}"
        try:
            paragraphs = _field(_checked(article, dict, where), "paragraphs", list, where)
        except InputError as error:
            yield Piece(where, None, error)
            continue
        if isinstance(title := article.get("title"), str):
            where = f"{where} ({title:.40})"
        for place, paragraph in enumerate(paragraphs, start=1):
            yield from _asked(paragraph, f"{where}, paragraph {place}", cutting, seen)


def _asked(paragraph: Any, where: str, cutting: Cutting, seen: set[str]) -> Iterator[Piece]:
    """Yields the questions of a paragraph."""
    try:
        questions = _field(_checked(paragraph, dict, where), "qas", list, where)
    except InputError as error:
        yield Piece(where, None, error)
        return
    passage: Passage | InputError
    try:
        passage = _passage(paragraph, where, cutting)
    except InputError as error:
        passage = error
    for number, question in enumerate(questions, start=1):
        place = f"{where}, question {number}"
        key = place.partition(": ")[2]  # of a question without an id of its own
        try:
            found = _field(_checked(question, dict, place), "id", str, place)
            if found in seen:
                raise InputError(f"{place}: id: {found!r} was there before; {_MEND}")
            seen.add(found)
            key, place = found, f"{place} ({found})"
            content = passage if isinstance(passage, InputError) else (passage, question)
        except InputError as error:
            content = error
        yield Piece(place, key, content)


def _passage(fields: dict[str, Any], where: str, cutting: Cutting) -> Passage:
    passage = cutting.passage(_field(fields, "context", str, where))
    if not passage.tokens:
        raise InputError(f"{where}: context: has no words; {_MEND}")
    return passage


def _question(
    where: str,
    passage: Passage,
    fields: dict[str, Any],
    cutting: Cutting,
    *,
    answers: bool,
    learnt: bool,
) -> Question:
    tokens = cutting.question(_field(fields, "question", str, where))
    if not tokens:
        raise InputError(f"{where}: question: has no words; {_MEND}")
    found = _answers(where, passage, fields) if answers else []
    if learnt and not found:
        raise InputError(
            f"{where}: answers: there is none, and a model learns from questions with one; leave "
            "it out with --skip-bad"
        )
    spans = tuple(span for _, span in found)
    if learnt and window_around(spans, passage.windows) is None:
        raise InputError(
            f"{where}: answers: have {len(spans[0])} words and lie in no window; raise "
            "model.overlap, or leave it out with --skip-bad"
        )
    return Question(
        where=where,
        passage=passage,
        tokens=tokens,
        answers=tuple(answer for answer, _ in found),
        spans=spans,
    )


def _answers(where: str, passage: Passage, fields: dict[str, Any]) -> list[tuple[str, range]]:
    """Returns each answer with its words."""
    answers = _field(fields, "answers", list, where)
    if "is_impossible" in fields and _field(fields, "is_impossible", bool, where) and answers:
        raise InputError(f"{where}: is_impossible: is true, but there are answers; {_MEND}")
    found = []
    for number, answer in enumerate(answers, start=1):
        place = f"{where}, answer {number}"
        text = _field(_checked(answer, dict, place), "text", str, place)
        start = _field(answer, "answer_start", int, place)
        if not text.strip():
            raise InputError(f"{place}: text: has no words; {_MEND}")
        if not 0 <= start < len(passage.text):
            raise InputError(
                f"{place}: answer_start: {start!r:.20} lies outside the context, which has "
                f"{len(passage.text):,} characters; {_MEND}"
            )
        piece = passage.text[start : start + len(text)]
        span = passage.words(start, start + len(text))
        if piece != text:
            raise InputError(
                f"{place}: text: the context has {piece!r:.60} at character {start}, expected "
                f"{text!r:.60}; {_MEND}"
            )
        found.append((text, span))
    return found


def _field(fields: dict[str, Any], name: str, kind: type[T], where: str) -> T:
    if name not in fields:
        raise InputError(f"{where}: {name}: is missing; {_MEND}")
    return _checked(fields[name], kind, f"{where}: {name}")


def _checked(value: Any, kind: type[T], where: str) -> T:
    if type(value) is not kind:  # a truth value is no number here
        shown = json.dumps(value)
        raise InputError(f"{where}: expected {_KINDS[kind]}, found {shown:.40}; {_MEND}")
    return value


def _json(text: str) -> str:
    """Writes a string as it is read, escaped only where a file could not hold it."""
    return json.dumps(text, ensure_ascii=_SURROGATE.search(text) is not None)
