"""Several processes, one model: torchrun's variables, and what the processes tell each other."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from elmokit.embedding.devices import find_device


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

    @property
    def has_sparse_reduce(self) -> bool:
        """Whether sparse gradients can be summed over the processes; NCCL cannot."""
        return self.world_size == 1 or dist.get_backend() == "gloo"

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
        if self.world_size == 1:
            return flag
        total = torch.tensor(float(flag), device=self.device)
        dist.all_reduce(total)
        return bool(total)


@contextmanager
def joined(device: str) -> Iterator[Processes]:
    """Joins the other processes of a run under torchrun; alone otherwise.

    Args:
        device: A device name, or "auto"; under torchrun a plain "cuda" becomes this process's own.

    Raises:
        ConfigError: The device cannot be used.
    """
    begun = False
    found = find_device(device)
    if not dist.is_initialized() and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        if found.type == "cuda" and found.index is None:
            found = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(found)
        dist.init_process_group("nccl" if found.type == "cuda" else "gloo")
        begun = True
    try:
        if dist.is_initialized():
            yield Processes(dist.get_rank(), dist.get_world_size(), found)
        else:
            yield Processes(0, 1, found)
    finally:
        if begun:
            dist.destroy_process_group()
