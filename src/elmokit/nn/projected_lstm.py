"""One layer, one direction of the paper's LSTM: recurrent projection, cell clip, projection clip.

Letters: N packed positions, B rows, b rows active in a step, D projection width, H cell size,
I input width.
"""

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmokit.config import LSTMConfig

_CHUNK_ROWS = 1024
"""Positions whose pre-activations exist at a time: bounds memory at any sentence length."""


class ProjectedLSTM(nn.Module):
    """An LSTM whose output is projected and clipped before it recurs.

    Per step, with the gates i, f, g, o in this order along 4H: c = clip(f * c + i * g) and
    h = clip(P (o * tanh(c))); without a projection h = o * tanh(c), which is not clipped.
    `forget_bias` is added to the pre-activation of f. The clipped values are the state. These are
    the numbers of bilm-tf's LSTMCell and of AllenNLP's LstmCellWithProjection. A skip connection is
    the caller's and no part of the state.
    """

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

    def forward(
        self, inputs: Tensor, batch_sizes: tuple[int, ...], h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Runs over a packed batch.

        Args:
            inputs: (N, I) packed, time-major.
            batch_sizes: Active rows of each step; never rises.
            h: (B, D) output before the first step.
            c: (B, H) cell before the first step.

        Returns:
            (N, D) outputs, and (B, H) the cell after each row's last step.
        """
        sources = (inputs, h, c, *self.parameters())
        graph = torch.is_grad_enabled() and any(source.requires_grad for source in sources)
        if graph or torch.is_autocast_enabled(inputs.device.type):  # which changes types midway
            return self._run_with_graph(inputs, batch_sizes, h, c)
        return self._run_in_place(inputs, batch_sizes, h, c)

    def _run_with_graph(
        self, inputs: Tensor, batch_sizes: tuple[int, ...], h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor]:
        outputs, ended = [], []
        for gates in self._input_gates(inputs, batch_sizes):
            size = len(gates)
            if size < len(c):
                ended.append(c[size:])
                h, c = h[:size], c[:size]
            h, c = self._step(gates, h, c)
            outputs.append(h)
        return torch.cat(outputs), torch.cat([c, *reversed(ended)])

    def _run_in_place(
        self, inputs: Tensor, batch_sizes: tuple[int, ...], h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The same numbers without a graph: every step writes into memory that is already there."""
        outputs = inputs.new_empty(len(inputs), self.config.projection_dim)
        c = c.clone()
        position = 0
        for gates in self._input_gates(inputs, batch_sizes):
            size = len(gates)
            output = outputs[position : position + size]
            self._step_in_place(gates, h[:size], c[:size], output)
            h = output
            position += size
        return outputs, c

    def _input_gates(self, inputs: Tensor, batch_sizes: tuple[int, ...]) -> Iterator[Tensor]:
        """Yields the input's part of each step's pre-activations, (b, 4H); one GEMM for a chunk."""
        cell_dim = self.config.cell_dim
        bias: Tensor = self.bias
        if self.config.forget_bias:
            shift = torch.zeros_like(bias)
            shift[cell_dim : 2 * cell_dim] = self.config.forget_bias
            bias = bias + shift
        position = 0
        for sizes in _time_chunks(batch_sizes):
            stop = position + sum(sizes)
            yield from torch.split(F.linear(inputs[position:stop], self.input_weight, bias), sizes)
            position = stop

    def _step(self, gates: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """(b, 4H) input part, (b, D), (b, H) -> the next h and c."""
        cell_clip, projection_clip = self.config.cell_clip, self.config.projection_clip
        i, f, g, o = torch.addmm(gates, h, self.recurrent_weight.t()).chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        if cell_clip is not None:
            c = c.clamp(-cell_clip, cell_clip)
        h = torch.sigmoid(o) * torch.tanh(c)
        if self.projection is not None:
            h = h @ self.projection.t()
            if projection_clip is not None:
                h = h.clamp(-projection_clip, projection_clip)
        return h, c

    def _step_in_place(self, gates: Tensor, h: Tensor, c: Tensor, output: Tensor) -> None:
        """As `_step`, into `c` (b, H) and `output` (b, D); `gates` is used up."""
        cell_dim = self.config.cell_dim
        cell_clip, projection_clip = self.config.cell_clip, self.config.projection_clip
        gates.addmm_(h, self.recurrent_weight.t())
        i, f = gates[:, : 2 * cell_dim].sigmoid_().chunk(2, dim=1)
        g = gates[:, 2 * cell_dim : 3 * cell_dim].tanh_()
        o = gates[:, 3 * cell_dim :].sigmoid_()
        c.mul_(f).addcmul_(i, g)
        if cell_clip is not None:
            c.clamp_(-cell_clip, cell_clip)
        hidden = torch.tanh(c).mul_(o)
        if self.projection is None:
            output.copy_(hidden)
            return
        torch.mm(hidden, self.projection.t(), out=output)
        if projection_clip is not None:
            output.clamp_(-projection_clip, projection_clip)


def _time_chunks(batch_sizes: tuple[int, ...]) -> Iterator[list[int]]:
    """Cuts the steps into runs of at most `_CHUNK_ROWS` positions, or one step if it is larger."""
    chunk: list[int] = []
    for size in batch_sizes:
        if chunk and sum(chunk) + size > _CHUNK_ROWS:
            yield chunk
            chunk = []
        chunk.append(size)
    if chunk:
        yield chunk
