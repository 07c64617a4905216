"""Settings of `classify`; needs no torch."""

from dataclasses import dataclass
from typing import Literal

from elmokit.tasks.config import DataSection


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifyData(DataSection):
    """A labelled text a line."""

    format: Literal["tsv", "trec"] = "tsv"
    """tsv: columns between tabs. trec: COARSE:fine, a space, and a question."""
    label_column: str = "1"
    """Column of labels (tsv): its number from 1, or its name in the first line."""
    text_column: str = "2"
    """Column of texts (tsv): its number from 1, or its name in the first line."""
    classes: Literal["coarse", "fine"] = "coarse"
    """Which classes of TREC are learnt."""
