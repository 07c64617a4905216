"""What was found, what is there, and how much of it agrees."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts behind precision, recall and F1; a share of nothing is 0, as in CoNLL's scorer."""

    correct: int
    predicted: int
    gold: int

    @property
    def precision(self) -> float:
        """Correct ones among those predicted."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Correct ones among those there are."""
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of the two."""
        total = self.predicted + self.gold
        return 2 * self.correct / total if total else 0.0

    def to_dict(self) -> dict[str, float]:
        """Returns the figures as plain values."""
        return {
            "f1": self.f1,
            "precision": self.precision,
            "recall": self.recall,
            "correct": self.correct,
            "predicted": self.predicted,
            "gold": self.gold,
        }
