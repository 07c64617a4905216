"""Write ELMo checkpoints with random weights in the AllenNLP / bilm-tf format.

Speed does not depend on the values, so random weights of the published shapes serve a benchmark
as well as trained ones. Scales keep the activations of every layer at a size like that of a
trained model, so that a comparison of two implementations' vectors means something.

Shape letters: C character embedding, F filters in all, D projection, H LSTM cell.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

NUM_CHARACTERS = 261
"""Rows stored in the file; the options say one more, for the padding row that is not stored."""
CHARACTER_DIM = 16
FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
NUM_LAYERS = 2
BIAS_SCALE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What differs between the published sizes of ELMo."""

    lstm_dim: int
    projection_dim: int
    num_highways: int


SIZES = {
    "original": Size(lstm_dim=4096, projection_dim=512, num_highways=2),
    "small": Size(lstm_dim=1024, projection_dim=128, num_highways=1),
}


def write_checkpoint(folder: Path, size: Size, seed: int) -> tuple[Path, Path]:
    """Write `options.json` and `weights.hdf5` into an existing folder and return both paths."""
    options, weights = folder / "options.json", folder / "weights.hdf5"
    options.write_text(json.dumps(options_of(size), indent=2), encoding="utf-8")
    with h5py.File(weights, "w") as file:
        for name, values in tensors_of(size, np.random.default_rng(seed)):
            file[name] = values
    return options, weights


def options_of(size: Size) -> dict[str, Any]:
    """Return the contents of `options.json`."""
    return {
        "lstm": {
            "use_skip_connections": True,
            "projection_dim": size.projection_dim,
            "cell_clip": 3,
            "proj_clip": 3,
            "dim": size.lstm_dim,
            "n_layers": NUM_LAYERS,
        },
        "char_cnn": {
            "activation": "relu",
            "filters": [list(shape) for shape in FILTERS],
            "n_highway": size.num_highways,
            "embedding": {"dim": CHARACTER_DIM},
            "n_characters": NUM_CHARACTERS + 1,
            "max_characters_per_token": 50,
        },
    }


def tensors_of(size: Size, random: np.random.Generator) -> Iterator[tuple[str, Array]]:
    """Yield the name and values of every tensor, one at a time to hold little memory."""
    yield "char_embed", _normal(random, NUM_CHARACTERS, CHARACTER_DIM, scale=1.0)
    yield from _character_cnn(size, random)
    for direction in range(2):
        for layer in range(NUM_LAYERS):
            prefix = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            yield f"{prefix}/W_0", _matrix(random, 2 * size.projection_dim, 4 * size.lstm_dim)
            yield f"{prefix}/B", _bias(random, 4 * size.lstm_dim)
            yield f"{prefix}/W_P_0", _matrix(random, size.lstm_dim, size.projection_dim)


def _character_cnn(size: Size, random: np.random.Generator) -> Iterator[tuple[str, Array]]:
    for index, (width, count) in enumerate(FILTERS):
        scale = (width * CHARACTER_DIM) ** -0.5
        shape = (1, width, CHARACTER_DIM, count)
        yield f"CNN/W_cnn_{index}", _normal(random, *shape, scale=scale)
        yield f"CNN/b_cnn_{index}", _bias(random, count)
    num_filters = sum(count for _, count in FILTERS)
    for index in range(size.num_highways):
        for part in ("carry", "transform"):
            yield f"CNN_high_{index}/W_{part}", _matrix(random, num_filters, num_filters)
            yield f"CNN_high_{index}/b_{part}", _bias(random, num_filters)
    yield "CNN_proj/W_proj", _matrix(random, num_filters, size.projection_dim)
    yield "CNN_proj/b_proj", _bias(random, size.projection_dim)


def _matrix(random: np.random.Generator, fan_in: int, fan_out: int) -> Array:
    return _normal(random, fan_in, fan_out, scale=fan_in**-0.5)


def _bias(random: np.random.Generator, dim: int) -> Array:
    return _normal(random, dim, scale=BIAS_SCALE)


def _normal(random: np.random.Generator, *shape: int, scale: float) -> Array:
    return random.standard_normal(shape, dtype=np.float32) * np.float32(scale)
