"""Which layers a caller gets, and how they are combined.

Letters: N packed positions, L layers, D projection width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal

import torch
from torch import Tensor

from elmokit.errors import ConfigError
from elmokit.nn.network import Layers

LayerChoice = Literal["all", "mean", "top"] | int | Sequence[int]
"""all layers, their mean, the top, one by number, or several by number (0 is the token layer)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Numbered layers, each with a weight if they are summed."""

    layers: tuple[int, ...]
    """Layers to read, 0 to L."""
    weights: tuple[float, ...] | None = None
    """One weight per layer of the sum; None keeps the layers apart."""
    keep_axis: bool
    """Whether the result has a layer axis."""

    @classmethod
    def parse(
        cls, choice: LayerChoice, weights: Sequence[float] | None, num_outputs: int
    ) -> "Selection":
        """Reads a caller's choice for a model with `num_outputs` layers.

        Args:
            choice: See `LayerChoice`; must be "all" if weights are given.
            weights: Final weights, one per layer, used as they are (no softmax, no gamma).
            num_outputs: L + 1, or 1 for a stacked LSTM.

        Raises:
            ConfigError: A layer does not exist, the choice is unknown, weights are of a wrong
                number or given beside layers.
        """
        every = tuple(range(num_outputs))
        if weights is not None:
            return cls._weighted(choice, weights, every)
        if isinstance(choice, str):
            return cls._named(choice, every)
        numbers = _numbers(choice)
        if numbers is None:
            raise ConfigError(
                f"layers: {choice!r} is not all, mean, top, a number or several numbers"
            )
        if not numbers or not all(number in every for number in numbers):
            raise ConfigError(f"layers: {choice!r} asks for a layer outside 0..{num_outputs - 1}")
        return cls(layers=numbers, keep_axis=not isinstance(choice, Integral))

    @classmethod
    def _named(cls, choice: str, every: tuple[int, ...]) -> "Selection":
        if choice == "all":
            return cls(layers=every, keep_axis=True)
        if choice == "mean":
            return cls(layers=every, weights=(1 / len(every),) * len(every), keep_axis=False)
        if choice == "top":
            return cls(layers=every[-1:], keep_axis=False)
        raise ConfigError(f"layers: {choice!r} is not all, mean, top, a number or several numbers")

    @classmethod
    def _weighted(
        cls, choice: LayerChoice, weights: Sequence[float], every: tuple[int, ...]
    ) -> "Selection":
        if not isinstance(choice, str) or choice != "all":
            raise ConfigError(f"weights: give either weights or layers={choice!r}, not both")
        if not all(isinstance(weight, Real) for weight in weights):
            raise ConfigError(f"weights: expected numbers, found {weights!r}")
        if len(weights) != len(every):
            raise ConfigError(
                f"weights: expected {len(every)}, one per layer, found {len(weights)}"
            )
        # A layer of weight 0 is left out, so that (0, 0, 1) is the top layer to the last bit.
        used = [
            (layer, float(weight)) for layer, weight in zip(every, weights, strict=True) if weight
        ]
        layers, kept = zip(*used or [(0, 0.0)], strict=True)
        return cls(layers=layers, weights=kept, keep_axis=False)

    def apply(self, layers: Layers, flipped: Tensor, positions: Tensor) -> Tensor:
        """Reads the selection off a run.

        Args:
            layers: What `BiLMNetwork.run` returned.
            flipped: (N,) from `Batch.flipped()`.
            positions: (M,) those wanted, in the wanted order, such as `Batch.unpacked()` gives.

        Returns:
            (K, M, 2D) float32 with the K layers chosen, or (M, 2D) without layer axis.
        """
        if self.weights is not None:
            total = layers.join(self.layers[0], flipped, positions).float() * self.weights[0]
            for layer, weight in zip(self.layers[1:], self.weights[1:], strict=True):
                total.add_(layers.join(layer, flipped, positions), alpha=weight)
            return total
        if not self.keep_axis:
            return layers.join(self.layers[0], flipped, positions).float()
        width = 2 * layers.forward[0].size(1)
        result = positions.new_empty(len(self.layers), len(positions), width, dtype=torch.float32)
        for place, layer in enumerate(self.layers):
            result[place] = layers.join(layer, flipped, positions)
        return result


def _numbers(choice: object) -> tuple[int, ...] | None:
    """One number or several as a tuple; None if it is something else."""
    try:
        numbers = (choice,) if isinstance(choice, Integral) else tuple(choice)  # type: ignore[arg-type]
    except TypeError:  # nothing to iterate over
        return None
    if not all(isinstance(n, Integral) and not isinstance(n, bool) for n in numbers):
        return None
    return tuple(map(int, numbers))
