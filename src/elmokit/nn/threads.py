"""How many threads of the CPU torch has."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def threads(number: int | None) -> Iterator[None]:
    """Lets torch have so many CPU threads; as many as it has if None."""
    before = torch.get_num_threads()
    try:
        if number is not None:
            torch.set_num_threads(number)
        yield
    finally:
        torch.set_num_threads(before)
