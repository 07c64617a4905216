"""Which examples make a step: those of like length, in an order of the seed and the epoch alone."""

from collections.abc import Sequence

import torch

_POOL = 50
"""Batches that are drawn together, sorted by length, and cut."""


def training_batches(
    lengths: Sequence[int], *, batch_size: int, batch_tokens: int, seed: int, epoch: int
) -> list[list[int]]:
    """Draws the steps of an epoch.

    Args:
        lengths: Words of each example.
        batch_size: Examples per step.
        batch_tokens: Words per step at most, padding included; a longer example is alone.
        seed: That of the run.
        epoch: Which one, from 0.

    Returns:
        Places in `lengths`, each once, by step.
    """
    generator = torch.Generator().manual_seed(((seed << 20) + epoch) % 2**64)  # torch has no more
    order = torch.randperm(len(lengths), generator=generator).tolist()
    pool = _POOL * batch_size
    batches: list[list[int]] = []
    for start in range(0, len(order), pool):
        drawn = sorted(order[start : start + pool], key=lengths.__getitem__)
        batches += _cut(drawn, lengths, batch_size, batch_tokens)
    return [batches[place] for place in torch.randperm(len(batches), generator=generator).tolist()]


def prediction_batches(
    lengths: Sequence[int], *, batch_size: int, batch_tokens: int
) -> list[list[int]]:
    """Groups examples by length, the shortest first; as `training_batches`, without chance."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    return _cut(order, lengths, batch_size, batch_tokens)


def _cut(
    order: Sequence[int], lengths: Sequence[int], batch_size: int, batch_tokens: int
) -> list[list[int]]:
    """Cuts places, sorted by length, into runs."""
    batches: list[list[int]] = []
    for place in order:
        padded = lengths[place] * (len(batches[-1]) + 1) if batches else 0
        if not batches or len(batches[-1]) >= batch_size or padded > batch_tokens:
            batches.append([])
        batches[-1].append(place)
    return batches
