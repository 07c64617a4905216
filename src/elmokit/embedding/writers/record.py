"""What one row of output holds, and the JSON text in which its words are kept."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.floating[Any]]
"""float32 or float16: (L, T, 2D), (T, 2D), or pooled (L, dim), (dim,)."""


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedRow:
    """One input row with its vectors."""

    index: int
    """Number of the row in the input, from 0."""
    tokens: tuple[str, ...]
    vectors: Vectors
    id: str | None = None
    """Name of the row in the input (FASTA record, CoNLL-U sentence)."""
    line: int | None = None
    """Line of the input where the row begins, from 1."""
    offsets: tuple[tuple[int, int], ...] | None = None
    """Begin and end of each token, in characters of the input."""


@dataclass(frozen=True, slots=True)
class RowText:
    """What a stored row was made from; None where the file does not say."""

    tokens: tuple[str, ...] | None = None
    id: str | None = None
    line: int | None = None
    offsets: tuple[tuple[int, int], ...] | None = None


def to_json(value: Any) -> str:
    """Returns one line of ASCII, in which NUL, lone surrogates and U+2028 survive anywhere."""
    return json.dumps(value, separators=(",", ":"))


def to_offsets(pairs: Sequence[Sequence[int]] | None) -> tuple[tuple[int, int], ...] | None:
    """Returns character offsets as they stood in the row, from their JSON form."""
    return None if pairs is None else tuple((begin, end) for begin, end in pairs)


def is_pooled(settings: Mapping[str, Any]) -> bool:
    """Tells from a run's settings whether a row has one vector instead of one per token."""
    return bool(settings.get("pooling", "none") != "none")
