"""Settings of `entailment`; needs no torch."""

from dataclasses import dataclass
from typing import Literal

from elmokit.tasks.config import DataSection


@dataclass(frozen=True, slots=True, kw_only=True)
class EntailmentData(DataSection):
    """Two texts and a label a line."""

    format: Literal["snli", "sick", "tsv"] = "snli"
    """snli: JSON lines. sick: SICK's table. tsv: columns between tabs."""
    label_column: str = "1"
    """Column of labels (tsv): its number from 1, or its name in the first line."""
    premise_column: str = "2"
    """Column of the first texts (tsv)."""
    hypothesis_column: str = "3"
    """Column of the second texts (tsv)."""
