"""Which steps of padded rows belong to them."""

import torch
from torch import Tensor


def inside(lengths: Tensor, num_steps: int) -> Tensor:
    """Returns where rows have not ended.

    Args:
        lengths: (B,) int64 steps of each row.
        num_steps: T, padding included.

    Returns:
        (B, T) bool, False behind a row's end.
    """
    return torch.arange(num_steps, device=lengths.device) < lengths[:, None]


def reversal(lengths: Tensor, num_steps: int) -> Tensor:
    """Returns which step to read to read rows backwards, their padding left where it is.

    Args:
        lengths: (B,) int64 steps of each row.
        num_steps: T, padding included.

    Returns:
        (B, T) int64, its own inverse.
    """
    steps = torch.arange(num_steps, device=lengths.device)
    return torch.where(inside(lengths, num_steps), lengths[:, None] - 1 - steps, steps)
