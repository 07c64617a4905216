"""One direction of one LSTM layer by products of one's own choice: the forward pass only.

The values are those of `lstm_steps`. They are made in C++ where `elmokit-kernels` is installed, and
else of products, sums and tanh alone: both give the same bits wherever an element lies in a tensor
and however threads share it, which torch's sigmoid does not. A last bit that differs is now and
then rounded to another whole number, and a sentence's vectors would depend on its batch; they do
depend, a little, on which of the two made them.

Letters: N packed positions, B rows, b rows active in a step, D output width, H cell size.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from elmokit.config import LSTMConfig
from elmokit.nn.fused_steps import kernels
from elmokit.nn.lstm_steps import Reading, Weights, chunks, contiguous_copy
from elmokit.nn.products import MakeProduct, Product


class Products(NamedTuple):
    """How a layer multiplies in one direction.

    With sigmoid(x) = (1 + tanh(x / 2)) / 2, the gates i, f, o come out halved, and the projection
    takes hidden values that are doubled.
    """

    input: Product
    """(n, I) -> (n, 4H), bias included."""
    recurrent: Product
    """(b, D) -> (b, 4H)"""
    projection: Product | None
    """(b, H) -> (b, D); None if the hidden values are the output."""


@torch.no_grad()
def make_products(config: LSTMConfig, weights: Weights, make: MakeProduct, name: str) -> Products:
    """Makes the products of a layer, of that name in its network."""
    halves = torch.full((4, config.cell_dim), 0.5)
    halves[2] = 1.0  # g
    halves = halves.flatten()
    bias = weights.bias.clone()
    bias[config.cell_dim : 2 * config.cell_dim] += config.forget_bias
    projection = weights.projection
    return Products(
        make(f"{name}.input_weight", weights.input * halves[:, None], bias * halves),
        make(f"{name}.recurrent_weight", weights.recurrent * halves[:, None], None),
        None if projection is None else make(f"{name}.projection", projection * 0.5, None),
    )


def run_steps(config: LSTMConfig, products: Products, reading: Reading) -> tuple[Tensor, Tensor]:
    """Runs all steps.

    Returns:
        (N, D) outputs, and (B, H) the cell after each row's last step.
    """
    h, c = reading.h, contiguous_copy(reading.c)
    outputs = h.new_empty(sum(reading.batch_sizes), h.size(1))
    for span, steps in chunks(reading.batch_sizes):
        inputs, places = reading.at(span)
        gates = products.input(inputs)
        if places is not None:
            gates = gates.index_select(0, places)
        for step in steps:
            rows = slice(span.start + step.start, span.start + step.stop)
            size = step.stop - step.start
            h = _step(config, products, gates[step], h[:size], c[:size], outputs[rows])
    return outputs, c


def _step(
    config: LSTMConfig, products: Products, gates: Tensor, h: Tensor, c: Tensor, output: Tensor
) -> Tensor:
    """Makes a step: `gates` (b, 4H), `c` (b, H), `output` (b, D) in place; returns the last."""
    gates = products.recurrent.add_to(gates, h)
    module = kernels()
    if module is not None:
        hidden = module.cell_of_halves(gates, c, config.cell_clip or math.inf)
    else:
        hidden = _cell_of_halves(gates, c, config.cell_clip)
    if products.projection is None:
        return output.copy_(hidden.mul_(0.5))
    output.copy_(products.projection(hidden))
    if config.projection_clip is not None:
        output.clamp_(-config.projection_clip, config.projection_clip)
    return output


def _cell_of_halves(gates: Tensor, c: Tensor, clip: float | None) -> Tensor:
    """Makes the cell of a step: `gates` (b, 4H) are used up, `c` (b, H) becomes that after.

    Returns:
        (b, H) hidden values, doubled.
    """
    gates = gates.tanh_()
    i, f, g, o = gates.chunk(4, dim=1)
    gates[:, : 2 * c.size(1)].add_(1)  # i and f, doubled
    o.add_(1)
    c.mul_(f).add_(i.mul_(g)).mul_(0.5)
    if clip is not None:
        c.clamp_(-clip, clip)
    return torch.tanh(c).mul_(o)
