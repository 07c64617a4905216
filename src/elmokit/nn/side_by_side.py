"""Independent computations at once: on a CPU each has a thread and a share of the cores."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

_T = TypeVar("_T")

_FEW_PRODUCTS = 2**19
"""Multiplications of a step below which threads cost more than they save: that of 8 rows with a
cell of 512 and a projection of 128, or of 4 with 1024 and 128. The paper's size has more in a row.
"""


def side_by_side(
    computations: Sequence[Callable[[], _T]], device: torch.device, num_products: int
) -> list[_T]:
    """Runs computations that need no graph, and returns their results in order.

    A step of an LSTM is many small operations. Shared among all cores, each ends with a wait for
    the slowest of them; a direction per core waits once, at the end. With one thread, or away from
    the CPU, the computations run one after another. So do those of few rows, and on one thread:
    their operations are so short that threads would mostly wait for Python's lock and each other.

    Args:
        computations: Functions that do not depend on each other.
        device: Where they compute.
        num_products: Multiplications that the largest step of one of them takes in its recurrence:
            rows * cell size * output width, to a factor.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads < len(computations):
        return [compute() for compute in computations]
    if num_products < _FEW_PRODUCTS:
        return _one_after_another(computations, threads)
    share = threads // len(computations)
    inference = torch.is_inference_mode_enabled()

    def run(compute: Callable[[], _T]) -> _T:
        torch.set_num_threads(share)
        with torch.inference_mode(inference), torch.no_grad():
            return compute()

    try:
        with ThreadPoolExecutor(len(computations)) as pool:
            return list(pool.map(run, computations))
    finally:
        torch.set_num_threads(threads)


def _one_after_another(computations: Sequence[Callable[[], _T]], threads: int) -> list[_T]:
    """Runs computations on this thread alone; then there are as many threads as before."""
    torch.set_num_threads(1)
    try:
        return [compute() for compute in computations]
    finally:
        torch.set_num_threads(threads)
