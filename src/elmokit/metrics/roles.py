"""Semantic roles: the arguments of predicates, scored as CoNLL's `srl-eval.pl` (2005) does."""

from collections.abc import Iterable
from typing import NamedTuple

from elmokit.metrics.spans import Span, SpanScores, score_spans

VERB = "V"
"""The label of the predicate itself, which is no argument."""

_CONTINUES = "C-"


class Argument(NamedTuple):
    """What a predicate has in one role."""

    label: str
    parts: tuple[tuple[int, int], ...]
    """Words of each part from start to end (exclusive); several if other words stand between."""


def arguments(spans: Iterable[Span]) -> list[Argument]:
    """Joins the spans of a predicate into its arguments.

    A span `C-X` goes on with the last `X` before it; where there is none, it counts as an `X`. The
    predicate itself, with all its parts, is left out.

    Args:
        spans: Those of one predicate, which do not overlap, in any order.
    """
    found: list[Argument] = []
    last: dict[str, int] = {}  # label -> place of its last argument
    for start, end, label in sorted(spans):
        head = label.removeprefix(_CONTINUES)
        if head != label and head in last:
            before = found[last[head]]
            found[last[head]] = before._replace(parts=(*before.parts, (start, end)))
        else:
            last[head] = len(found)
            found.append(Argument(head, ((start, end),)))
    return [argument for argument in found if argument.label != VERB]


def score_roles(gold: Iterable[Iterable[Span]], predicted: Iterable[Iterable[Span]]) -> SpanScores:
    """Compares the arguments of each predicate with those predicted.

    An argument is right if its label and the ends of all its parts are.

    Args:
        gold: For each predicate its spans, `V` and `C-` ones among them.
        predicted: The same, for the same predicates in the same order.
    """
    return score_spans(map(arguments, gold), map(arguments, predicted))
