"""How far a token's vectors depend on the state that a sentence starts from, and on what is before.

Each direction is looked at from where it begins to read: the first token of the forward direction
is the sentence's first, that of the backward direction its last.

Letters: K layers, T tokens, D projection width.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.analysis.examples import Array
from elmokit.embedding.embedder import Embedder
from elmokit.errors import InputError

POSITIONS = ("1", "2", "3", "4", "5", "6-10", "11-20", "21-")
"""Places of tokens in their direction, from 1, and how they are put together."""
_STARTS = (0, 1, 2, 3, 4, 5, 10, 20)
LEAST = 4
"""Sentences that a measurement needs."""
NUM_FIRST = 5
"""Tokens on which a cold start shows most."""
FRESH, CALIBRATED, CONTEXT = "zero state", "calibrated state", "left context"

_SMALL = 0.05
"""Mean relative distance below which a state does not matter."""
_WORTH = 0.9
"""A calibrated state is recommended if it leaves less than this part of the distance."""


class Distance(NamedTuple):
    """How far vectors are apart, by layer and position: (K, positions) each, NaN for no token."""

    relative: NDArray[np.float64]
    """Mean of |a - b| / |b|, in one direction's half of the vector."""
    cosine: NDArray[np.float64]
    """Mean cosine of the two."""
    first: NDArray[np.float64]
    """(K,) mean relative distance on the first five positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What differs from what, and how far."""

    layers: tuple[int, ...]
    distances: Mapping[str, Distance]
    """zero state, calibrated state: against the state carried from sentence to sentence.
    left context: a sentence by itself against the same after the one before it, forward half."""
    is_own: bool
    """Whether the calibrated state is the one that the model came with."""
    has_state: bool
    """Whether the model has a state to carry."""
    advice: str
    """What to do with this model, with its number."""

    def to_dict(self) -> dict[str, Any]:
        """Returns it as JSON values; a position without tokens is null."""
        return {
            "layers": list(self.layers),
            "positions": list(POSITIONS),
            "has_state": self.has_state,
            "calibrated_state": "the model's own" if self.is_own else "from the first half",
            "advice": self.advice,
            "distances": {
                name: {key: _values(value) for key, value in found._asdict().items()}
                for name, found in self.distances.items()
            },
        }


def measure_drift(
    emb: Embedder, sentences: Sequence[Sequence[str]], layers: Sequence[int]
) -> Drift:
    """Measures how state and left context move vectors.

    The second half of the text is measured. The first half is what comes before it, and what the
    state is calibrated on if the model brings none of its own.

    Args:
        emb: The model.
        sentences: Running text, in its order; none of them empty.
        layers: K layers by number.

    Raises:
        InputError: There are fewer than four sentences.
    """
    if len(sentences) < LEAST:
        raise InputError(
            f"drift: the text has {len(sentences)} sentences; give running text of {LEAST} or more"
        )
    before, measured = sentences[: len(sentences) // 2], sentences[len(sentences) // 2 :]
    has_state = emb.bilm.network.has_state
    is_own = has_state and any(bool(part.any()) for part in emb.bilm.initial_state)
    zero = with_zero_state(emb)
    calibrated = Embedder(emb.bilm, device=emb.bilm.device)
    if has_state and not is_own:
        calibrated.calibrate(before)
    fresh = zero.embed(measured, list(layers))
    carried = _carried(emb, before, measured, layers)
    after = [
        vectors[:, -len(tokens) :]
        for tokens, vectors in zip(
            measured,
            zero.stream(
                ([*a, *b] for a, b in zip(sentences[len(before) - 1 :], measured, strict=False)),
                list(layers),
            ),
            strict=True,
        )
    ]
    distances = {
        FRESH: compare(fresh, carried),
        CALIBRATED: compare(calibrated.embed(measured, list(layers)), carried),
        CONTEXT: compare(fresh, after, directions=1),
    }
    top = {name: float(found.first[-1]) for name, found in distances.items()}
    return Drift(
        layers=tuple(layers),
        distances=distances,
        is_own=is_own,
        has_state=has_state,
        advice=advise(top[FRESH], top[CALIBRATED], has_state=has_state, is_own=is_own),
    )


def compare(some: Sequence[Array], others: Sequence[Array], *, directions: int = 2) -> Distance:
    """Compares vectors of the same sentences, each direction's half by itself.

    Args:
        some: For each sentence (K, T, 2D).
        others: What they are compared with.
        directions: 2, or 1 for the forward half only.
    """
    halves = [
        [_half(vectors, direction) for vectors in pair]
        for pair in zip(some, others, strict=True)
        for direction in range(directions)
    ]
    places = np.concatenate([np.arange(one.shape[1]) for one, _ in halves])
    one, other = (np.concatenate(vectors, axis=1) for vectors in zip(*halves, strict=True))
    apart = np.linalg.norm(one - other, axis=-1)  # (K, N)
    lengths = [np.maximum(np.linalg.norm(x, axis=-1), 1e-12) for x in (one, other)]
    relative = apart / lengths[1]
    # Identical vectors have cosine 1 to the last bit this way.
    cosine = np.where(apart == 0, 1, (one * other).sum(-1) / (lengths[0] * lengths[1]))
    numbers = np.searchsorted(_STARTS, places, side="right") - 1
    binned, cosines = (
        np.stack([_mean(x[:, numbers == number]) for number in range(len(_STARTS))], axis=1)
        for x in (relative, cosine)
    )
    return Distance(binned, cosines, _mean(relative[:, places < NUM_FIRST]))


def with_zero_state(emb: Embedder) -> Embedder:
    """Returns the same model, whose sentences start from a state of zeros."""
    other = Embedder(emb.bilm, device=emb.bilm.device)
    if other.bilm.network.has_state:
        for part in other.bilm.initial_state:
            torch.nn.init.zeros_(part)
    return other


def advise(zero: float, calibrated: float, *, has_state: bool, is_own: bool) -> str:
    """Says in a sentence what to do, from the relative distances to carried state (top layer)."""
    if not has_state:
        return "This model carries no state: every sentence has one vector, and 0 % depends on it."
    told = f"the first {NUM_FIRST} tokens of a direction lie {zero:.1%} from those of carried state"
    if zero < _SMALL:
        return f"Use it as it is: from a state of zeros {told}."
    if calibrated < _WORTH * zero:
        kept = "Keep its calibrated state" if is_own else "Calibrate it"
        return f"{kept}: from a state of zeros {told}, from the calibrated one {calibrated:.1%}."
    return (
        f"Use it as it is: from a state of zeros {told}, and calibration leaves {calibrated:.1%}; "
        "carry state only to repeat results of the original programs."
    )


def _carried(
    emb: Embedder,
    before: Sequence[Sequence[str]],
    measured: Sequence[Sequence[str]],
    layers: Sequence[int],
) -> list[Array]:
    """Reads the text as one row whose state runs on, from a state of zeros."""
    row = Embedder(with_zero_state(emb).bilm, device=emb.bilm.device, state="carry")
    for tokens in before:
        row.embed([tokens], "top")
    return [row.embed([tokens], list(layers))[0] for tokens in measured]


def _half(vectors: Array, direction: int) -> Array:
    """Returns one direction's half of (K, T, 2D), in the order in which it reads."""
    forward, backward = np.split(vectors, 2, axis=-1)
    return backward[:, ::-1] if direction else forward


def _mean(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """Mean over the last axis, NaN for none."""
    if not values.shape[1]:
        return np.full(len(values), np.nan)
    mean: NDArray[np.float64] = values.mean(axis=1, dtype=np.float64)
    return mean


def _values(array: NDArray[np.float64]) -> list[Any]:
    """Returns nested lists; JSON has no NaN."""
    if array.ndim > 1:
        return [_values(row) for row in array]
    return [None if np.isnan(value) else float(value) for value in array]
