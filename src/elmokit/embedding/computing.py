"""The conditions under which models compute."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def computing(device: torch.device) -> Iterator[None]:
    """Builds no graph, and stays in float32 whatever autocast the caller has on."""
    with torch.inference_mode(), torch.autocast(device.type, enabled=False):
        yield
