"""The part of an LSTM step that works on single numbers, forward and back.

Letters: n positions of a chunk, b rows active in a step, D output width, H cell size.
"""

import functools
import logging
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from elmokit.nn.triton_cell import TritonCell

logger = logging.getLogger(__name__)

_sigmoid_backward, _tanh_backward = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward
"""Gradient by the argument, from the gradient by the value and the value."""


class Work(NamedTuple):
    """What the steps back read and write in a chunk of n positions, or in a step."""

    gates: Tensor
    """(n, 4H)"""
    cells_before: Tensor
    """(n, H)"""
    cells: Tensor
    """(n, H)"""
    outputs: Tensor
    """(n, D)"""
    by_gates: Tensor
    """(n, 4H) written: gradient by the gates before sigmoid and tanh."""
    hidden: Tensor
    """(n, H) written: o * tanh(c)."""
    by_outputs: Tensor
    """(n, D) the loss's own gradient by the outputs; becomes that by the values before the clip."""

    def at(self, step: slice) -> "Work":
        """Returns the part of a step."""
        return Work(*(part[step] for part in self))


class Cell:
    """The cell in torch's own operations: any device, any type."""

    def forward(
        self, gates: Tensor, recurrent: Tensor | None, c: Tensor, clip: float | None
    ) -> Tensor:
        """Makes the cell's part of a step.

        Args:
            gates: (b, 4H) before sigmoid and tanh; becomes what they give.
            recurrent: (b, 4H) what is still to be added to the gates, in any type.
            c: (b, H) the cell before; becomes the cell after, clipped.
            clip: The largest absolute value of a cell.

        Returns:
            (b, H) o * tanh(c).
        """
        if recurrent is not None:
            gates += recurrent
        i, f, g, o = gates.chunk(4, dim=1)
        gates[:, : 2 * c.size(1)].sigmoid_()  # i and f
        g.tanh_()
        o.sigmoid_()
        c.mul_(f).addcmul_(i, g)
        if clip is not None:
            c.clamp_(-clip, clip)
        return torch.tanh(c).mul_(o)

    def backward(self, work: Work, by_hidden: Tensor, c: Tensor, clip: float | None) -> None:
        """Carries the gradient through the cell's part of a step.

        Args:
            work: The step's part of the chunk.
            by_hidden: (b, H) gradient by o * tanh(c).
            c: (b, H) gradient by the cell after; becomes that by the cell before.
            clip: No gradient passes a cell of this absolute value or more.
        """
        i, f, g, o = work.gates.chunk(4, dim=1)
        by_i, by_f, by_g, by_o = work.by_gates.chunk(4, dim=1)
        squashed = torch.tanh(work.cells)
        torch.mul(o, squashed, out=work.hidden)
        c.addcmul_(by_hidden, _tanh_backward(o, squashed))
        stop_at_clip(c, work.cells, clip)
        # Each gate's own slope, then what comes back along the cell or the hidden value.
        _sigmoid_backward.grad_input(g, i, grad_input=by_i)
        _sigmoid_backward.grad_input(work.cells_before, f, grad_input=by_f)
        _tanh_backward.grad_input(i, g, grad_input=by_g)
        _sigmoid_backward.grad_input(squashed, o, grad_input=by_o)
        cell_dim = c.size(1)
        work.by_gates[:, : 3 * cell_dim].unflatten(1, (3, cell_dim)).mul_(c[:, None])  # type: ignore[no-untyped-call]  # torch
        by_o.mul_(by_hidden)
        c.mul_(f)


def stop_at_clip(gradient: Tensor, values: Tensor, clip: float | None) -> None:
    """Sets the gradient to zero in place where values are at the clip; None: nowhere."""
    if clip is not None:
        gradient.masked_fill_(values.abs() >= clip, 0)


def cell_for(values: Tensor, hidden_type: torch.dtype) -> Cell:
    """Returns the cell for float32 tensors on a GPU as kernels, if they work there; else torch's.

    Args:
        values: A tensor of the device and type in question.
        hidden_type: In which o * tanh(c) is multiplied, and may be given.
    """
    if values.is_cuda and values.dtype == torch.float32:
        kernels = _kernels(values.device)
        if kernels is not None:
            return kernels(hidden_type)
    return Cell()


@functools.cache
def _kernels(device: torch.device) -> "type[TritonCell] | None":
    """Returns the cell whose kernels were tried out on the device; None if there is none.

    Triton may be absent, lack a C compiler that it calls, or not know an old GPU.
    """
    try:
        from elmokit.nn.triton_cell import TritonCell

        gates, c = torch.zeros(1, 4, device=device), torch.zeros(1, 1, device=device)
        with torch.cuda.device_of(c):  # type: ignore[no-untyped-call]  # torch
            TritonCell(torch.float32).forward(gates, None, c, None).cpu()
    except ImportError:
        return None
    except Exception as error:  # what Triton and the driver raise is their own affair
        reason = str(error).split("\n")[0]
        logger.warning("%s: LSTMs run without Triton's kernels, more slowly: %s", device, reason)
        return None
    return TritonCell
