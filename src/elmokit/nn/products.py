"""Products with a fixed matrix: in torch's own way, or in int8 with scales that never change.

Letters: n rows, I input width, O output width.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmokit.nn.fused_steps import kernels

_LEVELS = 127
"""Highest code of an activation: 7 bits. A processor without VNNI adds the products of two
neighbours in 16 bits, and stops at their limit: 2 * 127 * 127 stays below it, 2 * 255 * 127 does
not."""
_RANGE_IN_SPREADS = 12.0
"""Where few values go far beyond the rest, 7 bits are too coarse for the rest: beyond this ratio,
which is an error of 3 %, activations have 14 bits, as two codes."""
_SMALL = 256
"""Values of a result up to which oneDNN takes another way, which rounds otherwise."""


class Activations(NamedTuple):
    """What a matrix is multiplied with."""

    low: float
    """The least value, 0 or below."""
    high: float
    """The greatest value, 0 or above."""
    spread: float
    """Standard deviation."""


class Product(Protocol):
    """Multiplies rows by a matrix (O, I) of its own and adds a bias (O,), if it has one."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """(n, I) -> (n, O) float32."""
        ...

    def add_to(self, total: Tensor, inputs: Tensor) -> Tensor:
        """Adds the product of (n, I), without a bias, to (n, O), in place where it can."""
        ...


MakeProduct = Callable[[str, Tensor, Tensor | None], Product]
"""Makes a product of a matrix's name, the matrix (O, I) and its bias (O,), all detached."""


class Linear(nn.Linear):
    """A linear layer whose product may be made in another way than torch's."""

    product: Product | None = None

    def use_products(self, make: MakeProduct | None, name: str) -> None:
        """Sets how the layer, of that name in its network, multiplies; None: as torch does."""
        self.product = make and make(name, self.weight.detach(), self.bias.detach())

    def forward(self, inputs: Tensor) -> Tensor:
        """(n, I) -> (n, O)."""
        return super().forward(inputs) if self.product is None else self.product(inputs)


class MeasuringProduct:
    """The product in float32; keeps account of what it is given."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias = weight, bias
        self._low = self._high = self._sum = self._squares = 0.0
        self._count = 0

    @property
    def activations(self) -> Activations:
        """What was seen so far, something at least."""
        mean = self._sum / self._count
        spread = math.sqrt(max(self._squares / self._count - mean**2, 0.0))
        return Activations(self._low, self._high, spread)

    def __call__(self, inputs: Tensor) -> Tensor:
        """As `Product`."""
        least, most = inputs.aminmax()
        self._low, self._high = min(self._low, float(least)), max(self._high, float(most))
        exact = inputs.double()
        self._sum += float(exact.sum())
        self._squares += float(exact.square().sum())
        self._count += inputs.numel()
        return F.linear(inputs, self._weight, self._bias)

    def add_to(self, total: Tensor, inputs: Tensor) -> Tensor:
        """As `Product`."""
        return total.add_(self(inputs))


class _Codes(NamedTuple):
    """Whole numbers for a part of what activations are: step * (values - zero_point)."""

    values: Tensor
    """(n, I) uint8"""
    step: float
    zero_point: int


class Int8Product:
    """The product in whole numbers, with scales fixed once: a row's result depends on it alone.

    The matrix has 8 bits, symmetric, with a scale for each output. Activations have 7 bits, or 14
    where these would be too coarse, with one scale and one zero point, and stop at the ends of
    their range. Sums are exact, so that a row's result has the same bits beside any other rows.

    The operations are those that torch.compile uses: their results are float32, and they know AMX.
    `torch.ops.quantized` needs tensors of quantized types, which torch is to lose.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, activations: Activations) -> None:
        """Rounds the matrix.

        Args:
            weight: (O, I) float32 on the CPU.
            bias: (O,) float32, added as it is.
            activations: What the inputs are like.
        """
        scales = weight.abs().amax(dim=1).div_(127)
        self._scales = torch.where(scales > 0, scales, 1.0)
        self._weight = (weight / self._scales[:, None]).round_().to(torch.int8)
        self._bias = bias
        low, high, spread = activations
        self._is_wide = high - low > _RANGE_IN_SPREADS * spread
        self._most, room = _LEVELS, 1
        if self._is_wide:  # with room for what goes further still
            self._most, room = (_LEVELS + 1) ** 2 - 1, 2
        self._step, self._zero_point = _steps(room * low, room * high, self._most)
        self._pack()

    def _pack(self) -> None:
        self._packed = torch.ops.onednn.qlinear_prepack(self._weight, None)
        self._zero_points = torch.zeros(len(self._weight), dtype=torch.int32)
        self._least_rows = _SMALL // len(self._weight) + 1

    def __call__(self, inputs: Tensor) -> Tensor:
        """As `Product`."""
        lacking = self._least_rows - len(inputs)
        padded = F.pad(inputs, (0, 0, 0, lacking)) if lacking > 0 else inputs
        codes, *others = self._codes(padded)
        total: Tensor = torch.ops.onednn.qlinear_pointwise.default(
            *(*codes, self._packed, self._scales, self._zero_points),
            *(self._bias, 1.0, 0, torch.float32, "none", [], ""),
        )
        return self._add(total, others)[: len(inputs)]

    def add_to(self, total: Tensor, inputs: Tensor) -> Tensor:
        """As `Product`."""
        if self._least_rows > 1:  # some rows would be added in another way than others
            return total.add_(self(inputs))
        return self._add(total, self._codes(inputs))

    def _add(self, total: Tensor, parts: list[_Codes]) -> Tensor:
        for codes in parts:
            total = torch.ops.onednn.qlinear_pointwise.binary(
                *(*codes, self._packed, self._scales, self._zero_points),
                *(total, None, 1.0, 0, torch.float32, 1.0, 0, "sum", 1.0, "none", [], ""),
            )
        return total

    def _codes(self, inputs: Tensor) -> list[_Codes]:
        """(n, I) -> what stands for it, made of operations that round alike at any place."""
        if not self._is_wide:
            return [_Codes(self._whole(inputs)[0], self._step, self._zero_point)]
        upper, lower = self._whole(inputs)
        base = _LEVELS + 1
        zero_points = divmod(self._zero_point, base)
        return [
            _Codes(upper, self._step * base, zero_points[0]),
            _Codes(lower, self._step, zero_points[1]),
        ]

    def _whole(self, inputs: Tensor) -> Sequence[Tensor]:
        """(n, I) -> (n, I) uint8 codes of 7 bits, one or two, the upper first."""
        factor, shift = 1 / self._step, self._zero_point + 0.5
        module = kernels()
        if module is not None:
            return module.codes_of(inputs.float().contiguous(), factor, shift, self._most)  # type: ignore[no-any-return]
        steps = (inputs.float() * factor).add_(shift).clamp_(0, self._most)
        if not self._is_wide:
            return [steps.to(torch.uint8)]
        upper = (steps / (_LEVELS + 1)).floor_()
        lower = steps.sub_(upper * (_LEVELS + 1))
        return [upper.to(torch.uint8), lower.to(torch.uint8)]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # it never changes

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_packed"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._pack()


def _steps(low: float, high: float, most: int) -> tuple[float, int]:
    """Returns a step and the code of 0, such that codes up to `most` reach both ends.

    An end is met, not only neared: clips and tanh put many activations just there.
    """
    if low == high:
        return 1.0, 0
    zero_point = round(-low / (high - low) * most)
    below = -low / zero_point if zero_point else 0.0
    above = high / (most - zero_point) if zero_point < most else 0.0
    return max(below, above), zero_point


@functools.cache
def int8_problem() -> str | None:
    """Tells why int8 products cannot be had here, or None if they can: some are tried."""
    weight = torch.full((512, 512), -1.0)
    weight[:, ::3] = 1.0
    inputs = torch.ones(32, 512)
    right = 2 * inputs @ weight.t()
    try:
        for spread in (1.0, 0.01):
            product = Int8Product(weight, None, Activations(-1.0, 1.0, spread))
            found = product.add_to(product(inputs), inputs)
            if not torch.allclose(found, right, rtol=0.02):
                return "it multiplies wrongly"
    except (RuntimeError, AttributeError, TypeError) as error:  # no oneDNN, another signature
        return str(error).splitlines()[0][:120]
    return None
