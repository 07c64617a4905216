"""One label an example: accuracy, and F1 averaged over labels."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from elmokit.errors import InputError
from elmokit.metrics.counts import Counts


@dataclass(frozen=True, slots=True)
class LabelScores:
    """How predicted labels agree with the right ones."""

    accuracy: float
    """Share of examples with the right label."""
    macro_f1: float
    """Mean of the labels' F1, over all labels that are right or predicted somewhere."""
    labels: dict[str, Counts]
    """Each label by itself, in alphabetical order."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the figures as plain values."""
        return {
            "accuracy": self.accuracy,
            "macro_f1": self.macro_f1,
            "labels": {label: counts.to_dict() for label, counts in self.labels.items()},
        }


def score_labels(gold: Sequence[str], predicted: Sequence[str]) -> LabelScores:
    """Compares labels.

    Args:
        gold: The right label of each example.
        predicted: The predicted ones, in the same order.

    Raises:
        InputError: There is no example.
    """
    if not gold:
        raise InputError("there is not one example to score")
    right = Counter(a for a, b in zip(gold, predicted, strict=True) if a == b)
    wanted, found = Counter(gold), Counter(predicted)
    labels = {
        label: Counts(right[label], found[label], wanted[label])
        for label in sorted({*wanted, *found})
    }
    macro_f1 = sum(counts.f1 for counts in labels.values()) / len(labels)
    return LabelScores(right.total() / len(gold), macro_f1, labels)
