"""The paper's LSTM layer: recurrent projection, cell clip, projection clip.

Letters: N packed positions, B rows, D projection width, H cell size, I input width.
"""

import functools
import math
from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from elmokit.config import LSTMConfig
from elmokit.nn.fused_steps import make_steps
from elmokit.nn.lstm_steps import Reading, Trace, Weights
from elmokit.nn.product_steps import Products, make_products, run_steps
from elmokit.nn.products import MakeProduct
from elmokit.nn.side_by_side import side_by_side

_T = TypeVar("_T")


class ProjectedLSTM(nn.Module):
    """One direction of an LSTM layer whose output is projected and clipped before it recurs.

    Per step, with the gates i, f, g, o in this order along 4H: c = clip(f * c + i * g) and
    h = clip(P (o * tanh(c))); without a projection h = o * tanh(c), which is not clipped.
    `forget_bias` is added to the pre-activation of f. The clipped values are the state. These are
    the numbers of bilm-tf's LSTMCell and of AllenNLP's LstmCellWithProjection. A skip connection is
    the caller's and no part of the state. `run_layers` runs it.
    """

    products: Products | None = None
    """How the layer multiplies if not as torch does; nothing is learnt then."""

    def __init__(self, config: LSTMConfig, input_dim: int) -> None:
        super().__init__()
        self.config = config
        gates_dim = 4 * config.cell_dim
        self.input_weight = nn.Parameter(torch.empty(gates_dim, input_dim))
        self.recurrent_weight = nn.Parameter(torch.empty(gates_dim, config.projection_dim))
        self.bias = nn.Parameter(torch.empty(gates_dim))
        self.projection = (
            nn.Parameter(torch.empty(config.projection_dim, config.cell_dim))
            if config.recurrent_projection
            else None
        )
        for parameter in self.parameters():
            nn.init.uniform_(
                parameter, -1 / math.sqrt(config.cell_dim), 1 / math.sqrt(config.cell_dim)
            )

    @property
    def weights(self) -> Weights:
        """What the layer learns."""
        return Weights(self.input_weight, self.recurrent_weight, self.bias, self.projection)

    def use_products(self, make: MakeProduct | None, name: str) -> None:
        """Sets how the layer, of that name in its network, multiplies; None: as torch does."""
        self.products = make and make_products(self.config, self.weights, make, name)


def run_layers(
    layers: Sequence[ProjectedLSTM], readings: Sequence[Reading], num_threads: int | None = None
) -> list[tuple[Tensor, Tensor]]:
    """Runs layers that do not depend on each other, side by side: the two directions of one depth.

    Matrices are multiplied in their own type, or in that of autocast; all else is in the type of
    the biases.

    Args:
        layers: The layers, of one configuration.
        readings: What each reads.
        num_threads: Threads of the CPU that they share; those of torch if absent.

    Returns:
        For each layer (N, D) outputs, and (B, H) the cell after each row's last step.
    """
    num_threads = num_threads or torch.get_num_threads()
    computations = [
        functools.partial(run_steps, layer.config, layer.products, reading)
        for layer, reading in zip(layers, readings, strict=True)
        if layer.products is not None
    ]
    if computations:
        return _run_at_once(layers[0].config, readings, computations, num_threads)
    config, device = layers[0].config, readings[0].inputs.device
    autocast = torch.is_autocast_enabled(device.type)
    kind = torch.get_autocast_dtype(device.type) if autocast else layers[0].input_weight.dtype
    groups = [
        (reading._replace(inputs=reading.inputs.to(layer.bias.dtype)), layer.weights)
        for layer, reading in zip(layers, readings, strict=True)
    ]
    learns = torch.is_grad_enabled() and any(
        x is not None and x.requires_grad for x in _flat(groups)
    )
    if learns or device.type != "cpu":  # on a GPU, to look for distinct inputs is to wait
        groups = [(reading.spread(), weights) for reading, weights in groups]
    if learns:
        sizes = tuple(reading.batch_sizes for reading, _ in groups)
        results = _RunLayers.apply(config, kind, sizes, num_threads, *_flat(groups))  # type: ignore[no-untyped-call]  # torch
        return list(zip(results[::2], results[1::2], strict=True))
    runs = _run(config, kind, groups, num_threads, for_gradient=False)
    return [(trace.outputs, last_cells) for trace, last_cells in runs]


_Groups = list[tuple[Reading, Weights]]
"""What each of the layers reads and has learnt."""


class _RunLayers(torch.autograd.Function):
    """`run_layers` with its gradient, both of them side by side."""

    @staticmethod
    def forward(
        ctx: Any,
        config: LSTMConfig,
        kind: torch.dtype,
        sizes: tuple[tuple[int, ...], ...],
        num_threads: int,
        *flat: Any,
    ) -> tuple[Tensor, ...]:
        runs = _run(config, kind, _grouped(sizes, flat), num_threads, for_gradient=True)
        ctx.settings = (config, kind, sizes, len(flat), [len(trace.gates) for trace, _ in runs])
        parts = [part for trace, _ in runs for part in (trace.outputs, trace.cells, *trace.gates)]
        ctx.save_for_backward(*flat, *parts)
        return tuple(part for trace, last_cells in runs for part in (trace.outputs, last_cells))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        config, kind, sizes, num_sources, num_chunks = ctx.settings
        groups = _grouped(sizes, ctx.saved_tensors[:num_sources])
        parts = iter(ctx.saved_tensors[num_sources:])
        computations = []
        for number, (reading, weights) in enumerate(groups):
            outputs, cells, *gates = islice(parts, 2 + num_chunks[number])
            trace = Trace(outputs, cells, gates)
            computations.append(
                functools.partial(
                    make_steps(config, weights, kind).backward,
                    reading,
                    trace,
                    *gradients[2 * number : 2 * number + 2],
                )
            )
        readings = [reading for reading, _ in groups]
        found = _run_at_once(config, readings, computations, torch.get_num_threads())
        return (None, None, None, None, *chain.from_iterable(found))


def _run(
    config: LSTMConfig, kind: torch.dtype, groups: _Groups, num_threads: int, *, for_gradient: bool
) -> list[tuple[Trace, Tensor]]:
    computations = [
        functools.partial(
            make_steps(config, weights, kind).forward, reading, for_gradient=for_gradient
        )
        for reading, weights in groups
    ]
    return _run_at_once(config, [reading for reading, _ in groups], computations, num_threads)


def _run_at_once(
    config: LSTMConfig,
    readings: Sequence[Reading],
    computations: Sequence[Callable[[], _T]],
    num_threads: int,
) -> list[_T]:
    """Runs the computations of independent layers, one for each reading."""
    rows = max(len(reading.h) for reading in readings)
    num_products = rows * config.cell_dim * config.projection_dim
    return side_by_side(computations, readings[0].inputs.device, num_products, num_threads)


def _flat(groups: _Groups) -> list[Tensor | None]:
    """Lists the seven tensors of each layer."""
    return [
        x for reading, weights in groups for x in (reading.inputs, reading.h, reading.c, *weights)
    ]


def _grouped(sizes: Sequence[tuple[int, ...]], flat: Sequence[Any]) -> _Groups:
    """Sorts the seven tensors of each layer; a projection may be None."""
    groups = []
    for number, batch_sizes in enumerate(sizes):
        inputs, h, c, *weights = flat[7 * number : 7 * number + 7]
        groups.append((Reading(inputs, batch_sizes, h, c), Weights(*weights)))
    return groups
