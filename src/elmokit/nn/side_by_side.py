"""Independent computations at once: on a CPU each has a thread and a share of the cores."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

_T = TypeVar("_T")


def side_by_side(computations: Sequence[Callable[[], _T]], device: torch.device) -> list[_T]:
    """Runs computations that need no graph, and returns their results in order.

    A step of an LSTM is many small operations. Shared among all cores, each ends with a wait for
    the slowest of them; a direction per core waits once, at the end. With one thread, or away from
    the CPU, the computations run one after another.

    Args:
        computations: Functions that do not depend on each other.
        device: Where they compute.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads < len(computations):
        return [compute() for compute in computations]
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
