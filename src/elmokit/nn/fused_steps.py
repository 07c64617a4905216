"""The steps of an LSTM in C++, where the distribution `elmokit-kernels` is installed and works.

The numbers are those of `lstm_steps`, within the rounding of float32. A chunk of steps is one call
that lets go of Python's lock, and all that is not a matrix product is made in one pass.
"""

import functools
import importlib
import importlib.util
import logging
import math
from types import ModuleType

import torch
from torch import Tensor

from elmokit.config import LSTMConfig
from elmokit.nn.cell import Work
from elmokit.nn.lstm_steps import Reading, Steps, Weights

_log = logging.getLogger(__name__)
_NO_CLIP = math.inf


class FusedSteps(Steps):
    """The arithmetic of one layer in one direction, in C++: float32 on the CPU only."""

    def __init__(self, config: LSTMConfig, weights: Weights, module: ModuleType) -> None:
        """As `Steps`, with the module that has the steps."""
        super().__init__(config, weights, torch.float32)
        self._module = module

    def _run(
        self,
        steps: list[slice],
        gates: Tensor,
        h: Tensor,
        c: Tensor,
        outputs: Tensor,
        cells: Tensor | None,
    ) -> Tensor:
        self._module.forward(
            *(gates, h, c, outputs, cells, _sizes(steps)),
            *(self._weights.recurrent, self._weights.projection),
            *(self._cell_clip or _NO_CLIP, self._projection_clip or _NO_CLIP),
        )
        return outputs[steps[-1]]

    def _run_back(
        self,
        steps: list[slice],
        work: Work,
        clips: tuple[float | None, float | None],
        h: Tensor,
        c: Tensor,
    ) -> None:
        self._module.backward(
            *(*work, h, c, _sizes(steps)),
            *(self._weights.recurrent, self._weights.projection),
            *(clip or _NO_CLIP for clip in clips),
        )


def make_steps(config: LSTMConfig, weights: Weights, product_type: torch.dtype) -> Steps:
    """Returns the steps of a layer: in C++ if they can be had for these weights, else torch's."""
    kinds = {(weight.device.type, weight.dtype) for weight in weights if weight is not None}
    if product_type == torch.float32 and kinds == {("cpu", torch.float32)}:
        module = kernels()
        if module is not None:
            return FusedSteps(config, weights, module)
    return Steps(config, weights, product_type)


@functools.cache
def kernels() -> ModuleType | None:
    """Returns `elmokit_kernels`; None if it is absent or, which is logged once, does not work."""
    if importlib.util.find_spec("elmokit_kernels") is None:
        return None
    try:
        module = importlib.import_module("elmokit_kernels")
        _try_out(module)
    except Exception as error:  # whatever a build for another torch does
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        _log.warning("elmokit-kernels is not used, build it again for this torch: %s", reason)
        return None
    return module


@torch.no_grad()
def _try_out(module: ModuleType) -> None:
    """Raises ArithmeticError if small steps, their gradient or codes are not those of torch."""
    config = LSTMConfig(cell_dim=20, projection_dim=3, cell_clip=0.5, projection_clip=0.5)
    shapes = (80, 3), (80, 3), (80,), (3, 20), (5, 3), (3, 3), (3, 20), (5, 3), (3, 20)
    values = [torch.linspace(-2, 2, math.prod(shape)).sin().view(shape) for shape in shapes]
    weights, (inputs, h, c) = Weights(*values[:4]), values[4:7]
    reading, results = Reading(inputs, (3, 2), h, c), []
    for steps in (Steps(config, weights, torch.float32), FusedSteps(config, weights, module)):
        trace, last = steps.forward(reading, for_gradient=True)
        gradients = steps.backward(reading, trace, *values[7:])
        results.append([trace.outputs, last, *(x for x in gradients if x is not None)])
    gates, cell = values[0].view(4, 3, 20), values[6].clone()
    i, f, o = (torch.sigmoid(2 * gates[place]) for place in (0, 1, 3))
    after = (f * cell + i * gates[2].tanh()).clamp(-0.5, 0.5)
    results[0] += [
        2 * o * after.tanh(),
        after,
        torch.tensor([[0.0, 7], [27, 127]]).repeat(1, 20)[:, None],
    ]
    rows, codes = gates.transpose(0, 1).reshape(3, 80), torch.tensor([[-1.0, 9.0] * 20])
    results[1] += [module.cell_of_halves(rows, cell, 0.5), cell]
    results[1] += [module.codes_of(codes, 100.0, 127.5, 1023.0).float()]
    results[0] += [torch.tensor([[[27.0, 127.0] * 20]])]
    results[1] += [module.codes_of(codes, 100.0, 127.5, 127.0).float()]
    for right, found in zip(*results, strict=True):
        if not torch.allclose(right, found, rtol=1e-4, atol=1e-4):
            raise ArithmeticError("its numbers are wrong")


def _sizes(steps: list[slice]) -> list[int]:
    return [step.stop - step.start for step in steps]
