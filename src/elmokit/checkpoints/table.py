"""A checkpoint format as a table: native names, foreign names, and how one becomes the other.

Import, export and the accounting of every tensor all come from the same rows.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from elmokit.checkpoints.layout import Shape
from elmokit.errors import CheckpointError

logger = logging.getLogger(__name__)

Tensors = tuple[Tensor, ...]

FLOATS = ("float16", "bfloat16", "float32", "float64")
"""Kinds of number a file may hold; all become float32. Integers are no weights."""

MAX_PROBLEMS = 100
"""Most tensors that one message names; a wrong number of layers can give thousands."""


@dataclass(frozen=True, slots=True)
class Transform:
    """A change of layout and its inverse; both are exact to the bit."""

    read: Callable[[Tensors], Tensors]
    """Foreign tensors -> native tensors."""
    write: Callable[[Tensors], Tensors]
    """Native tensors -> foreign tensors."""


@dataclass(frozen=True, slots=True)
class Row:
    """Native tensors and the foreign tensors that hold the same numbers."""

    native: tuple[str, ...]
    foreign: Mapping[str, Shape]
    transform: Transform


class Stored(NamedTuple):
    """What a file says of a tensor before it is read."""

    shape: Shape
    dtype: str


SAME = Transform(read=lambda tensors: tensors, write=lambda tensors: tensors)

TRANSPOSE = Transform(
    read=lambda tensors: (tensors[0].t(),),
    write=lambda tensors: (tensors[0].t(),),
)

ZERO_ROW = Transform(
    # Native tables have a row for id 0, which means nothing: row i of a file is id i + 1.
    read=lambda tensors: (F.pad(tensors[0], (0, 0, 1, 0)),),
    write=lambda tensors: (tensors[0][1:],),
)


def row(native: str, foreign: str, shape: Shape, transform: Transform = SAME) -> Row:
    """Returns the row of a tensor that has one name on each side."""
    return Row((native,), {foreign: shape}, transform)


def expected(rows: Iterable[Row]) -> dict[str, Shape]:
    """Returns the name and shape of every foreign tensor of a table."""
    return {name: shape for row in rows for name, shape in row.foreign.items()}


def stored(tensors: Mapping[str, Tensor]) -> dict[str, Stored]:
    """Describes tensors in memory as `account` wants them."""
    return {
        name: Stored(
            tuple(tensor.shape),
            str(tensor.dtype if tensor.layout == torch.strided else tensor.layout).removeprefix(
                "torch."
            ),
        )
        for name, tensor in tensors.items()
    }


def account(
    wanted: Mapping[str, Shape],
    found: Mapping[str, Stored],
    *,
    where: str,
    reason: str,
    dropped: re.Pattern[str] | None = None,
) -> None:
    """Compares all tensors of a file with those a configuration asks for.

    Args:
        wanted: Name and shape of each tensor that must be there.
        found: What the file holds.
        where: The file, for the message.
        reason: What decided `wanted`, for the message.
        dropped: Whole names that may be there and are left out on purpose.

    Raises:
        CheckpointError: Any tensor is missing, unexpected, or of a wrong shape or kind of number;
            one sorted message names them all, up to `MAX_PROBLEMS`.
    """
    problems = []
    for name in sorted({*wanted, *found}):
        if name not in found:
            problems.append(f"{name} {wanted[name]} is missing")
        elif name not in wanted:
            if dropped is None or not dropped.fullmatch(name):
                problems.append(f"{name} {found[name].shape} is unexpected")
        else:
            shape, dtype = found[name]
            if shape != wanted[name]:
                problems.append(f"{name} has shape {shape} instead of {wanted[name]}")
            if dtype not in FLOATS:
                problems.append(f"{name} holds {dtype} instead of float32")
    if len(problems) > MAX_PROBLEMS:
        problems[MAX_PROBLEMS:] = [f"and {len(problems) - MAX_PROBLEMS:,} more"]
    if problems:
        raise CheckpointError(f"{where}: its tensors do not fit {reason}: {'; '.join(problems)}")


def import_tensors(
    rows: Iterable[Row], load: Callable[[str], Tensor], *, where: str
) -> dict[str, Tensor]:
    """Reads the native tensors of a table, as float32 that owns its memory.

    Args:
        rows: The table; `account` has passed.
        load: Foreign name -> tensor.
        where: The file, for the log: numbers that are not finite, or were rounded, are told there.
    """
    tensors: dict[str, Tensor] = {}
    rounded, broken = [], []
    for row in rows:
        foreign = tuple(load(name) for name in row.foreign)
        rounded += [
            n for n, t in zip(row.foreign, foreign, strict=True) if t.dtype == torch.float64
        ]
        native = row.transform.read(tuple(_float32(tensor) for tensor in foreign))
        for name, tensor in zip(row.native, native, strict=True):
            tensors[name] = tensor.clone(memory_format=torch.contiguous_format)
            if not tensor.isfinite().all():
                broken.append(name)
    if rounded:
        logger.warning("%s: rounded from float64 to float32: %s", where, ", ".join(rounded))
    if broken:
        logger.warning("%s: not all numbers are finite in %s", where, ", ".join(broken))
    return tensors


def export_tensors(rows: Iterable[Row], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the foreign tensors of a table as contiguous float32 on the CPU."""
    exported: dict[str, Tensor] = {}
    for row in rows:
        foreign = row.transform.write(tuple(_float32(tensors[name]) for name in row.native))
        for name, tensor in zip(row.foreign, foreign, strict=True):
            exported[name] = tensor.contiguous()
    return exported


def _float32(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", torch.float32)
