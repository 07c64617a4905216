"""What the parity tests share: tolerances, reference files, and the comparison of layers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

LAYERS = {"rtol": 1e-5, "atol": 3e-5}
"""For LSTM layers of the random models, whose values reach 15, and what is made of them."""
UNITS = {"rtol": 1e-5, "atol": 1e-5}
"""For token vectors and the published test models."""

odd_tokens = pytest.mark.filterwarnings("ignore:.*holds white space:UserWarning")
"""The reference sentences hold tokens with white space, of which a user is warned."""


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def load(path: Path, *, prefix: str = "s") -> dict[int, np.ndarray]:
    """Sentence number -> array, from the keys `sNN` of an archive."""
    with np.load(path) as data:
        names = [name for name in data.files if name.removeprefix(prefix).isdecimal()]
        return {int(name.removeprefix(prefix)): data[name] for name in names}


def assert_layers(found: np.ndarray, expected: np.ndarray) -> None:
    """Compares (L + 1, T, 2D); the token layer is held to the closer tolerance."""
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, **LAYERS)
    np.testing.assert_allclose(found[0], expected[0], **UNITS)
