"""The paper's scalar mix: gamma * sum_j s_j layer_j (equation 1).

Letters: L layers, 2D their width.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmokit.errors import ConfigError

_LAYER_NORM_EPSILON = 1e-13
"""Added to the variance, as in AllenNLP (bilm-tf's weight_layers has 1e-12)."""


class ScalarMix(nn.Module):
    """A softmax-weighted sum of layers, scaled by gamma, optionally layer-normalised before.

    The layer norm is AllenNLP's: one mean and variance per layer over all elements that the mask
    keeps, of the whole batch; so with it a sentence's vectors depend on its batch.

    Attributes:
        weights: (num_layers,) raw weights, before their softmax.
        gamma: () the scale.
    """

    def __init__(
        self,
        num_layers: int,
        *,
        layer_norm: bool = False,
        weights: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        """Builds the mix.

        Args:
            num_layers: L + 1.
            layer_norm: Whether layers are normalised before they are summed.
            weights: Raw weights (logits, before the softmax) to start from; zeros if absent.
            trainable: Whether weights and gamma learn.

        Raises:
            ConfigError: The number of weights is not the number of layers.
        """
        super().__init__()
        if weights is not None and len(weights) != num_layers:
            raise ConfigError(
                f"mix weights: expected {num_layers}, one per layer, found {len(weights)}"
            )
        self.layer_norm = layer_norm
        values = (
            torch.zeros(num_layers)
            if weights is None
            else torch.tensor(weights, dtype=torch.float32)
        )
        self.weights = nn.Parameter(values, requires_grad=trainable)
        self.gamma = nn.Parameter(torch.tensor(1.0), requires_grad=trainable)

    @property
    def normalized_weights(self) -> Tensor:
        """(num_layers,) s_j, the softmax of the raw weights; they sum to 1."""
        return torch.softmax(self.weights, dim=0)

    def forward(self, layers: Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """Mixes the layers.

        Args:
            layers: One tensor (..., 2D) per layer, all of one shape.
            mask: (...) bool or 0 and 1, which vectors count for the layer norm; all if absent.

        Returns:
            (..., 2D).

        Raises:
            ConfigError: The number of layers is not the mix's.
        """
        if len(layers) != len(self.weights):
            raise ConfigError(
                f"scalar mix: built for {len(self.weights)} layers, given {len(layers)}"
            )
        if self.layer_norm:
            layers = [_normalize(layer, mask) for layer in layers]
        return self.gamma * sum(  # type: ignore[no-any-return]
            weight * layer for weight, layer in zip(self.normalized_weights, layers, strict=True)
        )


def _normalize(layer: Tensor, mask: Tensor | None) -> Tensor:
    """(layer - mean) / deviation, over every element of the vectors that the mask keeps."""
    kept = layer if mask is None else layer[mask.bool()]
    variance, mean = torch.var_mean(kept, correction=0)
    return (layer - mean) / torch.sqrt(variance + _LAYER_NORM_EPSILON)
