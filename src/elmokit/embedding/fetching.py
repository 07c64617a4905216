"""Results from a GPU to the CPU, each while the next is computed."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

_T = TypeVar("_T")


def fetched(
    results: Iterable[tuple[_T, Tensor]], device: torch.device
) -> Iterator[tuple[_T, Tensor]]:
    """Brings the tensors of results to the CPU.

    What a GPU computes is queued, not waited for. So once a result is queued, its copy is queued on
    a stream beside, then the next result, and only then is the copy waited for. Elsewhere than on a
    GPU nothing is read ahead.

    Args:
        results: Something, and a tensor on `device`.
        device: Where the tensors are.

    Yields:
        The same in order, the tensors on the CPU.
    """
    if device.type == "cpu":  # a loop of our own would hold a result while the next one is made
        yield from results
        return
    if device.type != "cuda":
        yield from ((rest, tensor.cpu()) for rest, tensor in results)
        return
    beside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch
    begun: tuple[_T, Tensor, torch.cuda.Event] | None = None
    for rest, tensor in results:
        host, copied = _copy(tensor, beside)
        if begun is not None:
            begun[2].synchronize()
            yield begun[:2]
        begun = rest, host, copied
    if begun is not None:
        begun[2].synchronize()
        yield begun[:2]


def _copy(tensor: Tensor, beside: torch.cuda.Stream) -> tuple[Tensor, torch.cuda.Event]:
    """Queues a copy to pinned memory; returns it, and the event after which it may be read."""
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    beside.wait_stream(torch.cuda.current_stream(tensor.device))
    with torch.cuda.stream(beside):
        host.copy_(tensor, non_blocking=True)
        copied = beside.record_event()
    tensor.record_stream(beside)
    return host, copied
