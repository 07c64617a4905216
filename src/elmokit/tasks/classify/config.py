"""Settings of `classify`; needs no torch."""

from dataclasses import dataclass
from typing import Literal

from elmokit.tasks.config import TextData


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifyData(TextData):
    """A labelled text a line."""

    format: Literal["tsv", "trec"] = "tsv"
    """tsv: columns between tabs. trec: COARSE:fine, a space, and a question."""
    classes: Literal["coarse", "fine"] = "coarse"
    """Which classes of TREC are learnt."""
