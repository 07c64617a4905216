"""The roofline: how fast a biLM would run if only its matrix products took time.

The work of a text is what its LSTM layers and its word types need at least: every token and both
boundaries of every sentence pass through the LSTM, and each distinct type through the character
CNN once, convolved where its characters are and at one place of its padding. This work at the best
rate of a matrix product over 1,024 rows, measured in the same run, is the time that a contender's
own is compared with. All that works on single numbers, gates and activations, counts as free.

Letters: N rows, I input width, O output width, D projection, H LSTM cell, F filters in all.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import torch
import torch.nn.functional as F

from elmokit.config import BiLMConfig, CharCNNConfig

NUM_ROWS = 1024
NUM_REPEATS = 3
"""Products of each shape at a time; the fastest counts."""
MARKS = 2
"""Characters that mark the beginning and the end of a word."""
NUM_DIRECTIONS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Floating-point operations, a multiplication and an addition being two."""

    lstm: float
    types: float

    @property
    def total(self) -> float:
        """Of both."""
        return self.lstm + self.types


def work_of(config: BiLMConfig, sentences: Sequence[Sequence[str]]) -> Work:
    """Return what it takes at least to embed sentences from nothing."""
    positions = sum(len(sentence) + 2 for sentence in sentences)
    types = {token for sentence in sentences for token in sentence}
    return Work(
        lstm=positions * lstm_work(config),
        types=sum(type_work(config, word) for word in types) + 2 * type_work(config, "."),
    )


def lstm_work(config: BiLMConfig) -> float:
    """Return the operations of one position in all layers of both directions."""
    lstm = config.lstm
    assert lstm.kind == "projected", "no contender has another"
    gates = 2 * lstm.projection_dim * 4 * lstm.cell_dim  # input and recurrent matrix
    projection = lstm.cell_dim * lstm.projection_dim if lstm.recurrent_projection else 0
    return 2.0 * NUM_DIRECTIONS * lstm.num_layers * (gates + projection)


def type_work(config: BiLMConfig, word: str) -> float:
    """Return the operations of one word type: convolutions, highways, projection."""
    projection = config.token_dim * config.lstm.projection_dim if config.token_projection else 0
    if config.characters is None:
        return 2.0 * projection
    cnn = config.characters
    highways = cnn.num_highway * cnn.num_filters * 2 * cnn.num_filters
    return 2.0 * (_convolutions(cnn, word) + highways + projection)


def _convolutions(cnn: CharCNNConfig, word: str) -> int:
    """Return the multiplications; windows that hold nothing but padding are all alike."""
    length = min(len(word.encode()) + MARKS, cnn.max_characters)
    return sum(
        width * cnn.embedding_dim * count * min(length + 1, cnn.max_characters - width + 1)
        for width, count in cnn.filters
    )


@dataclass(slots=True)
class MatrixRate:
    """The best rates of the matrix products of a model so far, in operations a second."""

    shapes: Sequence[tuple[int, int]]
    """(I, O) of each matrix."""
    rates: dict[str, float] = field(default_factory=dict)
    """By shape, as `I x O`."""

    @classmethod
    def of(cls, configs: Iterable[BiLMConfig]) -> "MatrixRate":
        """Prepare to measure the matrices of models."""
        shapes: set[tuple[int, int]] = set()
        for config in configs:
            lstm = config.lstm
            shapes |= {
                (lstm.projection_dim, 4 * lstm.cell_dim),
                (lstm.cell_dim, lstm.projection_dim),
            }
            if config.characters is not None:
                num_filters = config.characters.num_filters
                shapes.add((num_filters, 2 * num_filters))
        return cls(sorted(shapes))

    @property
    def best(self) -> float:
        """The highest of all shapes."""
        return max(self.rates.values())

    def measure(self, num_threads: int) -> None:
        """Measure every shape once more, at 1,024 rows in float32, and keep what is faster."""
        before = torch.get_num_threads()
        torch.set_num_threads(num_threads)
        for inputs, outputs in self.shapes:
            name = f"{inputs} x {outputs}"
            self.rates[name] = max(self.rates.get(name, 0.0), _rate(inputs, outputs))
        torch.set_num_threads(before)


def _rate(inputs: int, outputs: int) -> float:
    """Return the rate of (N, I) times (I, O), the weight stored as (O, I)."""
    rows, weight = torch.randn(NUM_ROWS, inputs), torch.randn(outputs, inputs)
    fastest = float("inf")
    with torch.inference_mode():
        F.linear(rows, weight)
        for _ in range(NUM_REPEATS):
            began = perf_counter()
            F.linear(rows, weight)
            fastest = min(fastest, perf_counter() - began)
    return 2 * NUM_ROWS * inputs * outputs / fastest
