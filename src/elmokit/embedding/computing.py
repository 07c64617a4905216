"""The conditions under which models compute."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def threads(number: int | None) -> Iterator[None]:
    """Lets torch have so many CPU threads; as many as it has if None."""
    before = torch.get_num_threads()
    if number is not None:
        torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def computing(device: torch.device) -> Iterator[None]:
    """Builds no graph, and stays in float32 whatever autocast the caller has on."""
    with torch.inference_mode(), torch.autocast(device.type, enabled=False):
        yield
