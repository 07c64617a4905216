"""How well two contenders' vectors of the same sentences agree."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What differs, over all tokens and layers."""

    difference: float
    """The largest |a - b| / max(1, |b|) of a number."""
    median_cosine: float
    """Between the two vectors of a token in a layer."""
    least_cosine: float


def compare(path: Path, reference: Path) -> Agreement:
    """Compare two files of vectors, one array (L+1, T, 2D) a sentence.

    Raises:
        SystemExit: They do not hold the same sentences.
    """
    differences, cosines = [], []
    for name, ours, theirs in _pairs(path, reference):
        if ours.shape != theirs.shape:
            raise SystemExit(f"{path.stem}: {name} has shape {ours.shape}, not {theirs.shape}")
        scale = np.maximum(1.0, np.abs(theirs))
        differences.append(np.max(np.abs(ours - theirs) / scale, initial=0.0))
        norms = np.linalg.norm(ours, axis=-1) * np.linalg.norm(theirs, axis=-1)
        cosines.append(((ours * theirs).sum(axis=-1) / norms).ravel())
    together = np.concatenate(cosines)
    return Agreement(
        difference=float(np.max(differences)),
        median_cosine=float(np.median(together)),
        least_cosine=float(np.min(together)),
    )


def _pairs(path: Path, reference: Path) -> Iterator[tuple[str, Array, Array]]:
    with np.load(path) as vectors, np.load(reference) as others:
        if vectors.files != others.files:
            raise SystemExit(
                f"{path.stem}: {len(vectors.files)} sentences came back, not {len(others.files)}"
            )
        for name in vectors.files:
            yield name, vectors[name].astype(np.float64), others[name].astype(np.float64)
