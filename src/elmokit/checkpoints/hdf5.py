"""HDF5 files of tensors, read so that a damaged or foreign file gives one clear line."""

import contextlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import torch
from torch import Tensor

from elmokit.checkpoints.files import reason
from elmokit.checkpoints.table import Stored
from elmokit.errors import CheckpointError

_DAMAGE = (OSError, RuntimeError, KeyError, TypeError, ValueError)
"""What h5py raises on a damaged file."""


@dataclass(frozen=True, slots=True)
class Datasets:
    """The datasets of an open HDF5 file, by full name."""

    path: Path
    items: Mapping[str, h5py.Dataset]
    stored: Mapping[str, Stored]
    """Shape and kind of number of each dataset."""

    def __contains__(self, name: str) -> bool:
        return name in self.items

    def read(self, name: str) -> Tensor:
        """Reads one dataset of floats.

        Raises:
            CheckpointError: The numbers are damaged.
        """
        try:
            array = self.items[name][()]
        except _DAMAGE as error:
            raise CheckpointError(f"{self.path}: {name} is damaged: {reason(error)}") from None
        native = np.float64 if array.dtype.itemsize > 4 else np.float32
        return torch.from_numpy(np.ascontiguousarray(array, dtype=native))


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Datasets]:
    """Opens an HDF5 file.

    Links to other files are not followed: a file speaks for itself alone.

    Raises:
        CheckpointError: The file is missing, no HDF5 or damaged, or keeps numbers in other files.
    """
    try:
        file = h5py.File(path, "r")
    except _DAMAGE as error:
        raise CheckpointError(f"{path}: {_complaint(path, error)}") from None
    with file:
        items: dict[str, h5py.Dataset] = {}

        def visit(name: str | bytes, item: object) -> None:
            if isinstance(item, h5py.Dataset):
                items[name if isinstance(name, str) else repr(name)] = item

        try:
            file.visititems(visit)
            outside = [name for name, item in items.items() if item.external or item.is_virtual]
            stored = {n: Stored(item.shape or (), item.dtype.name) for n, item in items.items()}
        except _DAMAGE as error:
            raise CheckpointError(f"{path}: the file is damaged: {reason(error)}") from None
        if outside:
            raise CheckpointError(f"{path}: {', '.join(outside)}: the numbers lie in another file")
        yield Datasets(path, items, stored)


def write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes tensors as datasets; slashes in their names make groups.

    Raises:
        OSError: The disk is full or refuses.
    """
    content = io.BytesIO()  # on a full disk HDF5 itself fails noisily, or ends the process
    with h5py.File(content, "w") as file:
        for name, tensor in tensors.items():
            file.create_dataset(name, data=tensor.numpy())
    path.write_bytes(content.getbuffer())


def _complaint(path: Path, error: Exception) -> str:
    if not path.is_file():
        return "no such file"
    with path.open("rb") as file:
        start = file.read(40)
    if start.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer instead of the file it stands for; fetch that with git lfs pull"
    if start.startswith(b"\x89HDF"):
        return f"the file is truncated or damaged: {reason(error)}"
    return f"not an HDF5 file; it starts with {start[:20]!r}"
