"""Several processes, one model: torchrun's variables, and what the processes tell each other."""

import datetime
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from elmokit.embedding.devices import find_device

_PATIENCE = datetime.timedelta(days=1)
"""How long a process waits for another, which may be preparing a large corpus or measuring."""


@dataclass(frozen=True, slots=True)
class Processes:
    """This process among those of the run."""

    rank: int
    world_size: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.rank == 0

    def wait(self) -> None:
        """Waits until every process is here."""
        if self.world_size > 1:
            dist.barrier()

    def gather(self, value: Any) -> list[Any]:
        """Returns the values of all processes in the first process, nothing elsewhere."""
        if self.world_size == 1:
            return [value]
        values: list[Any] = [None] * self.world_size
        dist.gather_object(value, values if self.is_first else None)
        return values if self.is_first else []

    def share(self, value: Any) -> Any:
        """Returns the first process's value everywhere."""
        if self.world_size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box)
        return box[0]

    def any(self, flag: bool) -> bool:
        """Tells whether the flag is set in any process."""
        return self.mean([float(flag)])[0] > 0

    def mean(self, values: Sequence[float]) -> list[float]:
        """Returns the means of the values over all processes, everywhere."""
        if self.world_size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return (total / self.world_size).tolist()

    def mean_rows(self, gradient: Tensor) -> Tensor:
        """Returns the mean of a sparse gradient over all processes, everywhere the same bits.

        The rows of all processes are laid end to end, since NCCL adds dense tensors only.
        """
        if self.world_size == 1:
            return gradient
        indices, values = gradient._indices()[0], gradient._values() / self.world_size
        most = torch.tensor(len(indices), device=self.device)
        dist.all_reduce(most, dist.ReduceOp.MAX)
        missing = int(most) - len(indices)  # filled up with zeros for a row that is there anyway
        indices = torch.cat([indices, indices[:1].expand(missing)])
        values = torch.cat([values, values.new_zeros(missing, values.size(1))])
        indices, values = (self._join(part) for part in (indices, values))
        return torch.sparse_coo_tensor(
            indices[None], values, gradient.shape, check_invariants=False
        )

    def _join(self, part: Tensor) -> Tensor:
        parts = [torch.empty_like(part) for _ in range(self.world_size)]
        dist.all_gather(parts, part)
        return torch.cat(parts)


@contextmanager
def joined(device: str) -> Iterator[Processes]:
    """Joins the other processes of a run under torchrun; alone otherwise.

    Args:
        device: A device name, or "auto"; under torchrun a plain "cuda" becomes this process's own.

    Raises:
        ConfigError: The device cannot be used.
    """
    found = find_device(device)
    begun = int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized()
    if begun:
        if found.type == "cuda" and found.index is None:
            found = find_device(f"cuda:{os.environ.get('LOCAL_RANK', '0')}")
            torch.cuda.set_device(found)
        dist.init_process_group("nccl" if found.type == "cuda" else "gloo", timeout=_PATIENCE)
    try:
        if dist.is_initialized():
            yield Processes(dist.get_rank(), dist.get_world_size(), found)
        else:
            yield Processes(0, 1, found)
    finally:
        if begun:
            dist.destroy_process_group()
