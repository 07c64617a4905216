"""The cell as one GPU kernel forward and one back, in float32; Triton comes with torch for CUDA.

On a GPU each of torch's operations is a launch and a passage through memory. A step has some ten
of them forward and some fifteen back, which take longer than its matrix products.

Letters: b rows active in a step, H cell size.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from elmokit.nn.cell import Cell, Work

_BLOCK = 512
"""Cells of a row that one program computes: four for each of its 128 threads."""


class TritonCell(Cell):
    """`Cell` for contiguous float32 tensors of the current CUDA device; products of any type."""

    def __init__(self, hidden_type: torch.dtype) -> None:
        """Sets the type of what `forward` returns, so that it is ready to be multiplied."""
        self._hidden_type = hidden_type

    def forward(
        self, gates: Tensor, recurrent: Tensor | None, c: Tensor, clip: float | None
    ) -> Tensor:
        """See `Cell.forward`."""
        hidden = torch.empty_like(c, dtype=self._hidden_type)
        _forward[_grid(c)](
            *(gates, gates if recurrent is None else recurrent, c, hidden),
            *(c.size(1), clip or 0.0),
            HAS_RECURRENT=recurrent is not None,
            HAS_CLIP=clip is not None,
            BLOCK=_BLOCK,
        )
        return hidden

    def backward(self, work: Work, by_hidden: Tensor, c: Tensor, clip: float | None) -> None:
        """See `Cell.backward`."""
        _backward[_grid(c)](
            *(work.gates, work.cells_before, work.cells, by_hidden),
            *(work.by_gates, work.hidden, c),
            *(c.size(1), clip or 0.0),
            HAS_CLIP=clip is not None,
            BLOCK=_BLOCK,
        )


def _grid(c: Tensor) -> tuple[int, int]:
    """A program for each row and each block of its cells."""
    return c.size(0), triton.cdiv(c.size(1), _BLOCK)


@triton.jit
def _tanh(x):
    """Within some 1e-7 of tanh, which Triton itself does not have."""
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _gate(gates, recurrent, place, inside, HAS_RECURRENT: tl.constexpr):
    """Loads a gate before its sigmoid or tanh."""
    gate = tl.load(gates + place, mask=inside)
    if HAS_RECURRENT:
        gate += tl.load(recurrent + place, mask=inside).to(tl.float32)
    return gate


@triton.jit
def _forward(
    gates,
    recurrent,
    cells,
    hidden,
    cell_dim,
    clip,
    HAS_RECURRENT: tl.constexpr,
    HAS_CLIP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < cell_dim
    of_cell = row * cell_dim + column
    of_i = 4 * row * cell_dim + column
    of_f, of_g, of_o = of_i + cell_dim, of_i + 2 * cell_dim, of_i + 3 * cell_dim
    i = tl.sigmoid(_gate(gates, recurrent, of_i, inside, HAS_RECURRENT))
    f = tl.sigmoid(_gate(gates, recurrent, of_f, inside, HAS_RECURRENT))
    g = _tanh(_gate(gates, recurrent, of_g, inside, HAS_RECURRENT))
    o = tl.sigmoid(_gate(gates, recurrent, of_o, inside, HAS_RECURRENT))
    cell = f * tl.load(cells + of_cell, mask=inside) + i * g
    if HAS_CLIP:  # by comparisons, which let a NaN be
        cell = tl.where(cell > clip, clip, tl.where(cell < -clip, -clip, cell))
    tl.store(gates + of_i, i, mask=inside)
    tl.store(gates + of_f, f, mask=inside)
    tl.store(gates + of_g, g, mask=inside)
    tl.store(gates + of_o, o, mask=inside)
    tl.store(cells + of_cell, cell, mask=inside)
    tl.store(hidden + of_cell, o * _tanh(cell), mask=inside)


@triton.jit
def _backward(
    gates,
    cells_before,
    cells,
    by_hidden,
    by_gates,
    hidden,
    by_cells,
    cell_dim,
    clip,
    HAS_CLIP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < cell_dim
    of_cell = row * cell_dim + column
    of_i = 4 * row * cell_dim + column
    of_f, of_g, of_o = of_i + cell_dim, of_i + 2 * cell_dim, of_i + 3 * cell_dim
    i, f = tl.load(gates + of_i, mask=inside), tl.load(gates + of_f, mask=inside)
    g, o = tl.load(gates + of_g, mask=inside), tl.load(gates + of_o, mask=inside)
    cell = tl.load(cells + of_cell, mask=inside)
    squashed = _tanh(cell)
    from_output = tl.load(by_hidden + of_cell, mask=inside).to(tl.float32)
    by_cell = tl.load(by_cells + of_cell, mask=inside)
    by_cell += from_output * o * (1 - squashed * squashed)
    if HAS_CLIP:
        by_cell = tl.where(tl.abs(cell) >= clip, 0.0, by_cell)
    before = tl.load(cells_before + of_cell, mask=inside)
    tl.store(by_gates + of_i, by_cell * g * i * (1 - i), mask=inside)
    tl.store(by_gates + of_f, by_cell * before * f * (1 - f), mask=inside)
    tl.store(by_gates + of_g, by_cell * i * (1 - g * g), mask=inside)
    tl.store(by_gates + of_o, from_output * squashed * o * (1 - o), mask=inside)
    tl.store(hidden + of_cell, o * squashed, mask=inside)
    tl.store(by_cells + of_cell, by_cell * f, mask=inside)
