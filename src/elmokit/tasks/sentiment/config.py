"""Settings of `sentiment`; needs no torch."""

from dataclasses import dataclass
from typing import Literal

from elmokit.tasks.config import TextData
from elmokit.tasks.readers.trees import Classes


@dataclass(frozen=True, slots=True, kw_only=True)
class SentimentData(TextData):
    """Trees of the Stanford Sentiment Treebank, or a labelled text a line."""

    format: Literal["trees", "tsv"] = "trees"
    """trees: a tree a line. tsv: columns between tabs."""
    classes: Classes = 5
    """Labels of trees: all 5, or 2 without the neutral sentences."""
    phrases: bool = False
    """Learn from every phrase of a tree, not from whole sentences alone."""
