"""Sentence vectors: mean and max of the token vectors of each sentence.

Letters: M token vectors of all sentences end to end, B sentences.
"""

from typing import Literal, cast, get_args

import torch
from torch import Tensor

from elmokit.errors import ConfigError

Pooling = Literal["mean", "max", "mean+max"]
"""How token vectors become one vector: their mean, their maximum, or both side by side."""


def pool(vectors: Tensor, lengths: Tensor, pooling: Pooling) -> Tensor:
    """Pools each sentence's token vectors.

    Args:
        vectors: (..., M, W) sentences end to end.
        lengths: (B,) int64, tokens of each sentence; they sum to M.
        pooling: Which pooling.

    Returns:
        (..., B, W), or (..., B, 2W) for "mean+max"; zeros for a sentence without tokens.

    Raises:
        ConfigError: The pooling is unknown.
    """
    names = check_pooling(pooling).split("+")
    axis = vectors.dim() - 2
    pooled = []
    for name in names:
        # segment_reduce works along its first axis.
        segments = torch.segment_reduce(
            vectors.movedim(axis, 0).contiguous(), name, lengths=lengths, axis=0, unsafe=True
        ).movedim(0, axis)
        pooled.append(torch.where((lengths > 0)[:, None], segments, 0.0))
    return torch.cat(pooled, dim=-1)


def check_pooling(name: str) -> Pooling:
    """Returns the name if there is such a pooling.

    Raises:
        ConfigError: There is none.
    """
    if name not in get_args(Pooling):
        raise ConfigError(f"pooling: {name!r} is not one of {', '.join(get_args(Pooling))}")
    return cast(Pooling, name)
