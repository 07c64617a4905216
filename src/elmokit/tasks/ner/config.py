"""Settings of `ner`; needs no torch."""

from dataclasses import dataclass
from typing import Literal

from elmokit.metrics.spans import InvalidPolicy, Scheme
from elmokit.tasks.config import DataSection


@dataclass(frozen=True, slots=True, kw_only=True)
class NerData(DataSection):
    """Columns, a word a line."""

    column: int = -1
    """Where tags are: 1 for the first column, -1 for the last."""
    scheme: Literal["auto"] | Scheme = "auto"
    """How tags write spans; auto takes what fits the training file best."""
    invalid_tags: InvalidPolicy = "refuse"
    """What becomes of an impossible sequence of tags. conlleval: read as CoNLL's scorer does.
    discard: no span."""
