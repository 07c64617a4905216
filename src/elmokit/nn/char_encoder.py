"""Character CNN and highway layers: character ids -> one vector per word type.

Letters: U word types, C characters, c character width, F filters, P window positions.
"""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from elmokit.batch import send
from elmokit.config import CharCNNConfig
from elmokit.nn.products import Linear, MakeProduct

_CHUNK_CHARACTERS = 4096
"""Characters convolved at a time, so that what the filters give stays near the processor."""
_MIN_WORDS = 16
"""Words from which on torch convolves in one way, so that a word has the same bits beside any."""


class Highway(Linear):
    """The linear layer of a highway: (U, F) -> (U, 2F), a and the gate before its sigmoid."""

    def __init__(self, width: int) -> None:
        super().__init__(width, 2 * width)

    def use_products(self, make: MakeProduct | None, name: str) -> None:
        """As in `Linear`; the gate comes out halved, for `_halved_highway`."""
        halves = torch.ones(2, self.in_features)
        halves[1] = 0.5
        halves = halves.flatten()
        weight, bias = self.weight.detach(), self.bias.detach()
        self.product = make and make(name, weight * halves[:, None], bias * halves)


class CharEncoder(nn.Module):
    """Convolutions over a word's characters, the maximum over positions, highways (paper, 3.4)."""

    def __init__(self, config: CharCNNConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(
            config.num_characters + 1, config.embedding_dim, padding_idx=0
        )
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.embedding_dim, count, width) for width, count in config.filters
        )
        self.highways = nn.ModuleList(
            Highway(config.num_filters) for _ in range(config.num_highway)
        )

    def forward(self, char_ids: Tensor) -> Tensor:
        """Encodes each word type by itself.

        Args:
            char_ids: (U, C) int64, filled up to `max_characters` with the padding character. On
                the CPU they make a GPU run ahead: cutting them there would wait for it.

        Returns:
            (U, F) vectors of the highway's width, on the device of the weights.
        """
        device = self.embedding.weight.device
        # Types of like length go together, so that short words are not convolved as long ones.
        ends = _constant_tails(char_ids)
        ends, order = torch.sort(ends)
        pieces = []
        last = ends.tolist()
        for start, stop in _chunks(last, _CHUNK_CHARACTERS):
            length = last[stop - 1] + max(width for width, _ in self.config.filters)
            pieces.append(self._convolve(send(char_ids[order[start:stop], :length], device)))
        vectors = torch.cat(pieces)
        for highway in self.highways:
            pass_on = _highway if cast(Highway, highway).product is None else _halved_highway
            vectors = pass_on(vectors, highway(vectors).to(vectors.dtype))
        return F.embedding(send(torch.argsort(order), device), vectors)

    def _convolve(self, char_ids: Tensor) -> Tensor:
        """(U, C) ids -> (U, F): every filter's maximum over all positions, then the activation."""
        count, maximum = len(char_ids), _maximum_by_product
        if not (torch.is_grad_enabled() or char_ids.is_cuda):
            maximum = _maximum
            if count < _MIN_WORDS:
                char_ids = char_ids[torch.arange(_MIN_WORDS) % count]
        characters = self.embedding(char_ids)  # (U, C, c)
        maxima = [maximum(characters, cast(nn.Conv1d, layer)) for layer in self.convolutions]
        features = torch.cat(maxima, dim=1)[:count]
        return torch.relu(features) if self.config.activation == "relu" else torch.tanh(features)


def _maximum(characters: Tensor, convolution: nn.Conv1d) -> Tensor:
    """(U, C, c) -> (U, F): each filter's maximum over positions.

    An untrained LSTM that clips makes 1e-4 of the last bits here. The reference numbers agree best
    with those of torch's own convolution, which vectors are therefore made with.
    """
    return convolution(characters.transpose(1, 2)).amax(dim=2)  # type: ignore[no-any-return]  # torch


def _maximum_by_product(characters: Tensor, convolution: nn.Conv1d) -> Tensor:
    """The same as one matrix product over all windows of all types: to learn from, and on a GPU.

    Forward and back it takes a third of the time: torch's convolution is made for many channels,
    and its maximum over the innermost dimension is slow. On a GPU cuDNN's convolution would round
    to ten bits, as torch lets it by default.
    """
    (width,) = convolution.kernel_size
    positions = characters.size(1) - width + 1
    windows = [characters[:, offset : offset + positions] for offset in range(width)]
    weight = convolution.weight.transpose(1, 2).flatten(1)  # (F, width * c)
    values = F.linear(torch.cat(windows, dim=2), weight)  # (U, P, F)
    return _Maximum.apply(values) + convolution.bias  # type: ignore[no-any-return, no-untyped-call]  # torch


class _Maximum(torch.autograd.Function):
    """(U, P, F) -> (U, F), the maximum over positions; equal ones share the gradient.

    The same as `amax`, whose own gradient takes three times as long.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        maximum = values.amax(dim=1)
        ctx.save_for_backward(values, maximum)
        return maximum

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        values, maximum = ctx.saved_tensors
        shares = torch.empty_like(values)
        torch.eq(values, maximum[:, None], out=shares)
        return shares.mul_((gradient / shares.sum(dim=1))[:, None])


def _constant_tails(char_ids: Tensor) -> Tensor:
    """(U, C) ids -> (U,): where the run of equal ids that ends each word starts.

    All windows inside this run see the same characters and give the same value, so the maximum over
    positions needs only the first of them. A padded word's run is its padding.
    """
    changes = char_ids[:, 1:] != char_ids[:, :-1]
    positions = torch.arange(1, char_ids.size(1), device=char_ids.device)
    return (changes * positions).amax(dim=1)


def _chunks(ends: list[int], budget: int) -> list[tuple[int, int]]:
    """Cuts types, sorted by length, into runs of at most `budget` characters, or one type."""
    cuts = [0]
    for i, end in enumerate(ends):
        if (i - cuts[-1] + 1) * (end + 1) > budget and i > cuts[-1]:
            cuts.append(i)
    return list(zip(cuts, [*cuts[1:], len(ends)], strict=True))


def _highway(inputs: Tensor, projected: Tensor) -> Tensor:
    """Carries part of the input past a non-linear layer: g * x + (1 - g) * relu(a).

    Args:
        inputs: (U, F), x.
        projected: (U, 2F), a and the gate before its sigmoid.
    """
    nonlinear, gate = projected.chunk(2, dim=1)
    return torch.lerp(torch.relu(nonlinear), inputs, torch.sigmoid(gate))


def _halved_highway(inputs: Tensor, projected: Tensor) -> Tensor:
    """The same of a halved gate, in operations that round alike at any place of a tensor.

    `product_steps` tells why.
    """
    nonlinear, gate = projected.chunk(2, dim=1)
    carry = torch.relu(nonlinear)
    share = torch.tanh(gate).add_(1).mul_(0.5)
    return (inputs - carry).mul_(share).add_(carry)
