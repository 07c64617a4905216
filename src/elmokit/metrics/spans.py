"""Labelled spans: from and to tags of a word each, and their F1."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, get_args

from elmokit.errors import InputError
from elmokit.metrics.counts import Counts

Scheme = Literal["IOB2", "BIOES", "IOB1"]
"""IOB2: B- begins a span, I- goes on. BIOES: E- ends one too, and S- is a span of one word.
IOB1: I- begins a span and goes on, B- begins one right after another of the same label."""

InvalidPolicy = Literal["conlleval", "discard", "refuse"]
"""What an impossible sequence of tags stands for. conlleval: spans as CoNLL's scorer finds them,
which takes any tag that cannot go on for a beginning. discard: no span. refuse: an error."""

OUTSIDE = "O"
_PREFIXES = ("B", "I", "E", "S")


class Span(NamedTuple):
    """Words start to end (exclusive) with a label."""

    start: int
    end: int
    label: str


class Labelled(Protocol):
    """A span, or anything else with a label that is equal to its like."""

    @property
    def label(self) -> str:
        """What it is."""
        ...

    def __hash__(self) -> int: ...


def decode(
    tags: Sequence[str], scheme: Scheme = "IOB2", invalid: InvalidPolicy = "conlleval"
) -> list[Span]:
    """Finds the spans that tags stand for, in order.

    Args:
        tags: `O`, or a prefix and a label such as `B-PER`.
        scheme: How spans are written; it decides which sequences are impossible.
        invalid: What becomes of those.

    Raises:
        InputError: A tag is neither `O` nor a prefix with a label, or (refuse) the sequence is
            impossible.
    """
    chunks = _chunks(tags)
    if invalid == "conlleval":
        return chunks
    valid = [_is_valid(tags, chunk, scheme) for chunk in chunks]
    if invalid == "refuse" and not all(valid):
        place = chunks[valid.index(False)].start
        raise InputError(f"tag {place + 1} ({tags[place]}): impossible there in {scheme}")
    return [chunk for chunk, is_valid in zip(chunks, valid, strict=True) if is_valid]


def encode(spans: Iterable[Span], length: int, scheme: Scheme = "IOB2") -> list[str]:
    """Writes spans that do not overlap as tags.

    Args:
        spans: In any order.
        length: Words in all.
        scheme: How to write them.
    """
    tags = [OUTSIDE] * length
    before: Span | None = None
    for span in sorted(spans):
        start, end, label = span
        follows_its_like = before is not None and before[1:] == (start, label)
        tags[start:end] = [f"I-{label}"] * (end - start)
        if scheme != "IOB1" or follows_its_like:
            tags[start] = f"B-{label}"
        if scheme == "BIOES":
            tags[end - 1] = f"{'S' if end - start == 1 else 'E'}-{label}"
        before = span
    return tags


def first_invalid(tags: Sequence[str], scheme: Scheme) -> int | None:
    """Returns where the first impossible span begins, or None.

    Raises:
        InputError: A tag is neither `O` nor a prefix with a label.
    """
    return next(
        (chunk.start for chunk in _chunks(tags) if not _is_valid(tags, chunk, scheme)), None
    )


def detect_scheme(sequences: Iterable[Sequence[str]]) -> Scheme:
    """Returns the scheme in which the fewest spans are impossible, IOB2 where several fit.

    Raises:
        InputError: A tag is neither `O` nor a prefix with a label.
    """
    schemes: tuple[Scheme, ...] = get_args(Scheme)
    invalid = Counter(dict.fromkeys(schemes, 0))
    for tags in sequences:
        for chunk in _chunks(tags):
            invalid.update(name for name in schemes if not _is_valid(tags, chunk, name))
    return min(schemes, key=invalid.__getitem__)


def tags_of(labels: Iterable[str], scheme: Scheme) -> list[str]:
    """Returns every tag that spans with these labels may need, `O` first."""
    prefixes = _PREFIXES if scheme == "BIOES" else ("B", "I")
    return [OUTSIDE, *(f"{prefix}-{label}" for label in sorted(labels) for prefix in prefixes)]


def is_tag(tag: str) -> bool:
    """Tells whether a tag is `O` or a prefix with a label."""
    return tag == OUTSIDE or (tag[:1] in _PREFIXES and tag[1:2] == "-" and len(tag) > 2)


def may_follow(before: str | None, tag: str | None, scheme: Scheme) -> bool:
    """Tells whether a tag may come after another.

    Args:
        before: The tag before; None for the beginning of the sentence.
        tag: The tag; None for the end of the sentence.
        scheme: How spans are written.
    """
    prefix, label = _split(before or OUTSIDE)
    next_prefix, next_label = _split(tag or OUTSIDE)
    is_open = prefix in ("B", "I")
    goes_on = is_open and next_label == label
    if scheme == "BIOES":
        return goes_on if next_prefix in ("I", "E") else not is_open
    if scheme == "IOB2":
        return goes_on if next_prefix == "I" else True
    return goes_on if next_prefix == "B" else True


@dataclass(frozen=True, slots=True)
class SpanScores:
    """Spans that agree in both ends and the label."""

    overall: Counts
    """All labels together (micro-averaged, as CoNLL's scorer does)."""
    labels: dict[str, Counts]
    """Each label by itself, in alphabetical order."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the figures as plain values."""
        return {
            **self.overall.to_dict(),
            "labels": {label: counts.to_dict() for label, counts in self.labels.items()},
        }


def score_spans(
    gold: Iterable[Iterable[Labelled]], predicted: Iterable[Iterable[Labelled]]
) -> SpanScores:
    """Compares the spans of each sentence with those predicted.

    Args:
        gold: For each sentence its spans.
        predicted: The same, for the same sentences in the same order.
    """
    right: Counter[str] = Counter()
    wanted: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for is_there, was_found in zip(map(set, gold), map(set, predicted), strict=True):
        right.update(span.label for span in is_there & was_found)
        wanted.update(span.label for span in is_there)
        found.update(span.label for span in was_found)
    labels = {
        label: Counts(right[label], found[label], wanted[label])
        for label in sorted({*wanted, *found})
    }
    return SpanScores(Counts(right.total(), found.total(), wanted.total()), labels)


def _split(tag: str) -> tuple[str, str]:
    if tag == OUTSIDE:
        return OUTSIDE, ""
    if not is_tag(tag):
        raise InputError(
            f"tag {tag!r}: expected {OUTSIDE}, or one of {', '.join(_PREFIXES)} with a label, such "
            "as B-PER"
        )
    return tag[0], tag[2:]


def _chunks(tags: Sequence[str]) -> list[Span]:
    """Finds the spans of tags by the rules of CoNLL's scorer, which are the same in all schemes."""
    chunks: list[Span] = []
    before, label_before = OUTSIDE, ""
    for place, tag in enumerate(tags):
        prefix, label = _split(tag)
        if prefix != OUTSIDE:
            goes_on = before in ("B", "I") and prefix in ("I", "E") and label == label_before
            start = chunks.pop().start if goes_on else place
            chunks.append(Span(start, place + 1, label))
        before, label_before = prefix, label
    return chunks


def _is_valid(tags: Sequence[str], chunk: Span, scheme: Scheme) -> bool:
    inside = tags[chunk.start : chunk.end]
    known = _PREFIXES if scheme == "BIOES" else ("B", "I")
    # In IOB1 alone does the tag before decide whether a span may begin so.
    before = tags[chunk.start - 1] if scheme == "IOB1" and chunk.start else None
    return all(tag[0] in known for tag in inside) and all(
        may_follow(*pair, scheme) for pair in itertools.pairwise([before, *inside, None])
    )
