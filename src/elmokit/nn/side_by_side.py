"""Independent computations at once: on threads of a CPU, or on streams of a GPU."""

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

import torch
from torch import Tensor

from elmokit.nn.threads import threads

_T = TypeVar("_T")

_FEW_PRODUCTS = 2**19
"""Multiplications of a step below which threads cost more than they save: that of 8 rows with a
cell of 512 and a projection of 128, or of 4 with 1024 and 128. The paper's size has more in a row.
"""


def side_by_side(
    computations: Sequence[Callable[[], _T]],
    device: torch.device,
    num_products: int,
    num_threads: int,
) -> list[_T]:
    """Runs computations that need no graph, and returns their results in order.

    A step of an LSTM is many small operations. On a CPU, shared among all cores, each ends with a
    wait for the slowest of them; a direction per core waits once, at the end. With one thread the
    computations run one after another. So do those of few rows, and on one thread: their operations
    are so short that threads would mostly wait for Python's lock and each other. On a GPU each has
    a stream of its own.

    Args:
        computations: Functions that do not depend on each other.
        device: Where they compute.
        num_products: Multiplications that the largest step of one of them takes in its recurrence:
            rows * cell size * output width, to a factor.
        num_threads: Threads of the CPU that they share.
    """
    if device.type == "cuda":
        return _on_streams(computations, device)
    with threads(num_threads), torch.autocast(device.type, enabled=False):
        if device.type != "cpu" or num_threads < len(computations):
            return [compute() for compute in computations]
        if num_products < _FEW_PRODUCTS:
            torch.set_num_threads(1)
            return [compute() for compute in computations]
        return _on_threads(computations, num_threads // len(computations))


def _on_threads(computations: Sequence[Callable[[], _T]], share: int) -> list[_T]:
    """Runs the first computation on this thread, each other one on a thread beside it."""
    inference = torch.is_inference_mode_enabled()

    def run(compute: Callable[[], _T]) -> _T:
        torch.set_num_threads(share)
        with torch.inference_mode(inference), torch.no_grad():
            return compute()

    first, *others = computations
    beside = [_workers(os.getpid()).submit(run, compute) for compute in others]
    try:
        results = [run(first)]
    finally:
        wait(beside)
    return results + [future.result() for future in beside]


@functools.cache
def _workers(process: int) -> ThreadPoolExecutor:
    """Returns the threads of a process: a forked one has none of its parent's.

    They last, for a new one would first have to find memory of its own; there are more of them only
    where several threads of the caller's compute at once.
    """
    return ThreadPoolExecutor(thread_name_prefix="elmokit")


def _on_streams(computations: Sequence[Callable[[], _T]], device: torch.device) -> list[_T]:
    """Runs the first computation on the current stream, each other one on a stream beside it.

    What they read was made on the current stream, for which the others wait first. It is held by
    the computations until the current stream waits for the others, so its memory cannot be used
    anew too early. Results of the others are marked as in use on the current stream.
    """
    here = torch.cuda.current_stream(device)
    beside = [_stream(device, number) for number in range(1, len(computations))]
    for stream in beside:
        stream.wait_stream(here)
    results = []
    try:
        for compute, stream in zip(computations, [here, *beside], strict=True):
            with torch.cuda.stream(stream):  # makes its device the current one too
                results.append(compute())
    finally:
        for stream in beside:
            here.wait_stream(stream)
    for tensor in _tensors(results[1:]):
        tensor.record_stream(here)
    return results


@functools.cache
def _stream(device: torch.device, number: int) -> torch.cuda.Stream:
    """Returns the same stream each time: memory is kept by stream, and so can be used again."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch


def _tensors(result: Any) -> Iterator[Tensor]:
    """Yields the tensors in lists and tuples."""
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, list | tuple):
        for part in result:
            yield from _tensors(part)
