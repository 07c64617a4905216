"""One direction of one LSTM layer over a packed batch, step by step: forward, and its gradient.

Automatic differentiation would make a gradient of each weight at every step and add them up. Here
it is one matrix product for a chunk of steps, and the forward pass keeps gates and cells only.

Letters: N packed positions, n positions of a chunk, B rows, b rows active in a step, I input width,
D output width, H cell size.
"""

from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from elmokit.config import LSTMConfig
from elmokit.nn.cell import Work, cell_for, stop_at_clip

_CHUNK_ROWS = 1024
"""Positions whose gates are made at a time: bounds memory at any sentence length."""


class Weights(NamedTuple):
    """What a layer learns in one direction; the gates i, f, g, o lie in this order along 4H."""

    input: Tensor
    """(4H, I)"""
    recurrent: Tensor
    """(4H, D)"""
    bias: Tensor
    """(4H,)"""
    projection: Tensor | None
    """(D, H); None if the hidden values are the output."""


class Reading(NamedTuple):
    """What a layer reads in one direction."""

    inputs: Tensor
    """(N, I) packed, time-major; with `places` (U, I) distinct ones."""
    batch_sizes: tuple[int, ...]
    """Active rows of each step; never rises."""
    h: Tensor
    """(B, D) output before the first step."""
    c: Tensor
    """(B, H) cell before the first step."""
    places: Tensor | None = None
    """(N,) int64, which of the distinct inputs each position reads."""

    def spread(self) -> "Reading":
        """Returns the same with an input for each position."""
        if self.places is None:
            return self
        return self._replace(inputs=F.embedding(self.places, self.inputs), places=None)

    def at(self, span: slice) -> tuple[Tensor, Tensor | None]:
        """Returns the inputs of a chunk of n positions.

        Returns:
            (n, I), and None; with `places` the distinct ones alone, and (n,) which each reads.
        """
        if self.places is None:
            return self.inputs[span], None
        read, places = torch.unique(self.places[span], return_inverse=True)
        return self.inputs[read], places


class Trace(NamedTuple):
    """What a forward pass computed."""

    outputs: Tensor
    """(N, D)"""
    cells: Tensor
    """(N, H) after each step; empty without a gradient."""
    gates: list[Tensor]
    """(n, 4H) of each chunk, after sigmoid and tanh; none without a gradient."""


class _Chunk(NamedTuple):
    """Steps whose gates are made at once."""

    span: slice
    """Their positions."""
    steps: list[slice]
    """Each step's positions, counted within the chunk."""


class Gradients(NamedTuple):
    """The gradient of a loss by what goes into a layer, in the order of `Reading` and `Weights`."""

    inputs: Tensor
    """(N, I)"""
    h: Tensor
    """(B, D)"""
    c: Tensor
    """(B, H)"""
    input_weight: Tensor
    """(4H, I)"""
    recurrent_weight: Tensor
    """(4H, D)"""
    bias: Tensor
    """(4H,)"""
    projection: Tensor | None
    """(D, H)"""


class Steps:
    """The arithmetic of one layer in one direction."""

    def __init__(self, config: LSTMConfig, weights: Weights, product_type: torch.dtype) -> None:
        """Prepares the weights.

        Args:
            config: The clips and the bias of the forget gate.
            weights: The layer's; everything but products is computed in their type.
            product_type: Type in which matrices are multiplied.
        """
        self._cell_clip = config.cell_clip
        self._projection_clip = config.projection_clip if weights.projection is not None else None
        bias = weights.bias
        projection = weights.projection
        self._cell = cell_for(bias, bias.dtype if projection is None else product_type)
        if config.forget_bias:
            shift = torch.zeros_like(bias)
            shift[config.cell_dim : 2 * config.cell_dim] = config.forget_bias
            bias = bias + shift
        self._weights = Weights(
            weights.input.to(product_type),
            weights.recurrent.to(product_type),
            bias,
            projection if projection is None else projection.to(product_type),
        )

    def forward(self, reading: Reading, *, for_gradient: bool) -> tuple[Trace, Tensor]:
        """Runs all steps; without a gradient in the memory of a chunk.

        Returns:
            What was computed, and (B, H) the cell after each row's last step.
        """
        h, c = reading.h, contiguous_copy(reading.c)
        num_positions = sum(reading.batch_sizes)
        outputs = h.new_empty(num_positions, h.size(1))
        cells = c.new_empty(num_positions if for_gradient else 0, c.size(1))
        kept: list[Tensor] = []
        room = c.new_empty(0)
        for span, steps in chunks(reading.batch_sizes):
            shape = (span.stop - span.start, 4 * c.size(1))
            if for_gradient or len(room) < shape[0]:  # else the memory of the chunk before will do
                room = c.new_empty(shape)
            gates = room[: shape[0]]
            self._read(*reading.at(span), gates)
            h = self._run(steps, gates, h, c, outputs[span], cells[span] if for_gradient else None)
            if for_gradient:
                kept.append(gates)
        return Trace(outputs, cells, kept), c

    def _read(self, inputs: Tensor, places: Tensor | None, gates: Tensor) -> None:
        """Writes what the inputs of a chunk, from `Reading.at`, add to its gates (n, 4H)."""
        if places is None:
            _linear_into(gates, inputs, self._weights.input, self._weights.bias)
            return
        values = gates.new_empty(len(inputs), gates.size(1))
        _linear_into(values, inputs, self._weights.input, self._weights.bias)
        torch.index_select(values, 0, places, out=gates)

    def _run(
        self,
        steps: list[slice],
        gates: Tensor,
        h: Tensor,
        c: Tensor,
        outputs: Tensor,
        cells: Tensor | None,
    ) -> Tensor:
        """Makes the steps of a chunk of n positions, in place.

        Args:
            steps: Each step's positions.
            gates: (n, 4H) what the inputs add to them; becomes their values.
            h: (B, D) output before.
            c: (B, H) cell before; becomes that after.
            outputs: (n, D) written.
            cells: (n, H) written, if given.

        Returns:
            The last step's output.
        """
        for step in steps:
            size = step.stop - step.start
            h = self._step(gates[step], h[:size], c[:size], outputs[step])
            if cells is not None:
                cells[step] = c[:size]
        return h

    def _step(self, gates: Tensor, h: Tensor, c: Tensor, output: Tensor) -> Tensor:
        """Makes a step: `gates` (b, 4H), `c` (b, H), `output` (b, D) in place; returns the last."""
        recurrent, product = self._weights.recurrent.t(), None
        if recurrent.dtype == gates.dtype:
            gates.addmm_(h, recurrent)
        else:
            product = _product(h, recurrent)
        hidden = self._cell.forward(gates, product, c, self._cell_clip)
        if self._weights.projection is None:
            return output.copy_(hidden)
        projected = _product(hidden, self._weights.projection.t()).to(output.dtype)
        if (clip := self._projection_clip) is None:
            return output.copy_(projected)
        return torch.clamp(projected, -clip, clip, out=output)

    def backward(
        self, reading: Reading, trace: Trace, outputs: Tensor, last_cells: Tensor
    ) -> Gradients:
        """Carries a gradient back through all steps.

        Args:
            reading: What `forward` read.
            trace: What it computed.
            outputs: (N, D) gradient by the outputs.
            last_cells: (B, H) gradient by the last cells.
        """
        weights, input_dim = self._weights, reading.inputs.size(1)
        h_before = _before(reading.h, trace.outputs, reading.batch_sizes)
        c_before = _before(reading.c, trace.cells, reading.batch_sizes)
        inputs = torch.empty_like(reading.inputs)
        h, c = reading.h.new_zeros(reading.h.shape), contiguous_copy(last_cells)
        sources = h.new_zeros(4 * c.size(1), input_dim + h.size(1))
        bias = torch.zeros_like(weights.bias)
        projection = None
        if weights.projection is not None:
            projection = torch.zeros_like(weights.projection, dtype=h.dtype)
        clips = (
            _reached(trace.cells, self._cell_clip),
            _reached(trace.outputs, self._projection_clip),
        )
        kept = list(zip(chunks(reading.batch_sizes), trace.gates, strict=True))
        for (span, steps), gates in reversed(kept):
            work = Work(
                *(gates, c_before[span], trace.cells[span], trace.outputs[span]),
                torch.empty_like(gates),
                torch.empty_like(trace.cells[span]),
                contiguous_copy(outputs[span]),
            )
            self._run_back(steps, work, clips, h, c)
            bias += work.by_gates.sum(dim=0)
            by_gates = work.by_gates.to(weights.input.dtype)
            inputs[span] = _product(by_gates, weights.input)
            # Inputs and outputs side by side: one wide product is faster than two narrow ones.
            read = torch.cat([reading.inputs[span], h_before[span]], dim=1)
            _add_product(sources, by_gates.t(), read.to(by_gates.dtype))
            if projection is not None:
                _add_product(projection, work.by_outputs.t(), work.hidden.to(by_gates.dtype))
        return Gradients(
            inputs, h, c, sources[:, :input_dim], sources[:, input_dim:], bias, projection
        )

    def _run_back(
        self,
        steps: list[slice],
        work: Work,
        clips: tuple[float | None, float | None],
        h: Tensor,
        c: Tensor,
    ) -> None:
        """Carries the gradient through the steps of a chunk, in place; see `_step_back`."""
        for step in reversed(steps):
            rows = step.stop - step.start
            self._step_back(work.at(step), clips, h[:rows], c[:rows])

    def _step_back(
        self, work: Work, clips: tuple[float | None, float | None], h: Tensor, c: Tensor
    ) -> None:
        """Carries the gradient through one step, in place.

        Args:
            work: The step's part of the chunk.
            clips: Of cells and of outputs; None where no value reaches it.
            h: (b, D) what the later steps add to the gradient by the output; becomes the gradient
                by the output before.
            c: (b, H) gradient by the cell; becomes that by the cell before.
        """
        by_output = work.by_outputs.add_(h)
        stop_at_clip(by_output, work.outputs, clips[1])
        by_hidden = by_output
        if self._weights.projection is not None:
            by_hidden = _product(by_output, self._weights.projection)
        self._cell.backward(work, by_hidden, c, clips[0])
        h.copy_(_product(work.by_gates, self._weights.recurrent))


def contiguous_copy(tensor: Tensor) -> Tensor:
    """Copies a tensor, with one row after another."""
    return tensor.clone(memory_format=torch.contiguous_format)


def _reached(values: Tensor, clip: float | None) -> float | None:
    """Returns the clip if there are values at it, through which no gradient passes."""
    if clip is None:
        return None
    least, most = values.aminmax()
    return clip if max(-float(least), float(most)) >= clip else None


def _linear_into(gates: Tensor, inputs: Tensor, weight: Tensor, bias: Tensor) -> None:
    """(n, I), (4H, I), (4H,) -> (n, 4H) in the bias's type, written into `gates`."""
    if weight.dtype == bias.dtype:
        torch.addmm(bias, inputs, weight.t(), out=gates)
    else:
        torch.add(F.linear(inputs.to(weight.dtype), weight), bias, out=gates)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Multiplies in the type of the right matrix."""
    return torch.mm(left.to(right.dtype), right)


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Adds a product that is made in the type of the right matrix."""
    if total.dtype == right.dtype:
        total.addmm_(left, right)
    else:
        total += _product(left, right)


def _before(first: Tensor, after: Tensor, batch_sizes: tuple[int, ...]) -> Tensor:
    """(B, .) before the first step and (N, .) after each -> (N, .) before each."""
    parts, start = [first[: batch_sizes[0]]], 0
    for size, following in pairwise(batch_sizes):
        parts.append(after[start : start + following])
        start += size
    return torch.cat(parts)


def chunks(batch_sizes: tuple[int, ...]) -> list[_Chunk]:
    """Cuts the steps into chunks of at most `_CHUNK_ROWS` positions, or of one larger step."""
    chunks: list[_Chunk] = []
    steps: list[slice] = []
    begin = position = 0
    for size in batch_sizes:
        if steps and position + size - begin > _CHUNK_ROWS:
            chunks.append(_Chunk(slice(begin, position), steps))
            begin, steps = position, []
        steps.append(slice(position - begin, position - begin + size))
        position += size
    if steps:
        chunks.append(_Chunk(slice(begin, position), steps))
    return chunks
