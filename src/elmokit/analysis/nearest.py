"""Exact nearest neighbours by cosine in a table of unit vectors, mapped from disk.

Two passes. The first reads the table in int8, a quarter of float32, and finds every product within
a known error. Only rows that can still be among the nearest are read in float16 and compared.

Letters: N rows, W width.
"""

import errno
import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.analysis.examples import Array, unit

_LEVELS = 127
_ROWS = 65_536
"""Rows in memory at once."""


_FILES = {"float16": np.float16, "int8": np.int8, "steps": np.float32}
"""The files of a table, by the end of their names, and their types."""


def is_table(folder: Path, name: str, shape: tuple[int, int]) -> bool:
    """Tells whether a folder holds the files of a table of this shape, all of their bytes."""
    for kind, dtype in _FILES.items():
        try:
            found = np.load(folder / f"{name}.{kind}.npy", mmap_mode="r")
        except (OSError, EOFError, ValueError):
            return False
        if found.dtype != dtype or found.shape != shape[: found.ndim] or not found.ndim:
            return False
    return True


class TableWriter:
    """Writes a table of a size known before, some rows after another."""

    def __init__(
        self, folder: Path, name: str, shape: tuple[int, int], done: int = 0, error: float = 0.0
    ) -> None:
        """Makes the table, or opens it again; its whole space on the disk is taken now.

        Args:
            folder: Where its files are.
            name: What they are called.
            shape: (N, W)
            done: Rows that are in it, from an earlier writer.
            error: What that writer's `flush` returned with them.

        Raises:
            OSError: The disk is full or refuses.
        """
        self._exact = mapped(folder / f"{name}.float16.npy", np.float16, shape, anew=not done)
        self._codes = mapped(folder / f"{name}.int8.npy", np.int8, shape, anew=not done)
        self._steps = mapped(folder / f"{name}.steps.npy", np.float32, shape[:1], anew=not done)
        self._done = done
        self._error = error

    def add(self, vectors: Array) -> None:
        """Adds unit vectors, (n, W)."""
        place = slice(self._done, self._done + len(vectors))
        self._done += len(vectors)
        rounded = vectors.astype(np.float16)
        self._exact[place] = rounded
        codes, steps = _coded(rounded.astype(np.float32))
        self._codes[place], self._steps[place] = codes, steps
        lost = rounded - codes * steps[:, None]
        if len(lost):
            self._error = max(self._error, float(np.linalg.norm(lost, axis=1).max()))

    def flush(self) -> float:
        """Brings what was added to disk; returns the greatest distance of a row to its codes."""
        for table in (self._exact, self._codes, self._steps):
            assert isinstance(table, np.memmap)
            table.flush()
        return self._error

    def close(self) -> float:
        """The same once all rows were added."""
        assert self._done == len(self._steps)
        return self.flush()


class Table:
    """A table that was written."""

    def __init__(self, folder: Path, name: str, error: float) -> None:
        """Maps the table.

        Args:
            folder: Where it is.
            name: Its name.
            error: What `TableWriter.close` returned.
        """
        self._exact: NDArray[np.float16] = np.load(folder / f"{name}.float16.npy", mmap_mode="r")
        # Copy on write: torch wants memory that could be written to.
        self._codes = torch.from_numpy(np.load(folder / f"{name}.int8.npy", mmap_mode="c"))
        self._steps = torch.from_numpy(np.load(folder / f"{name}.steps.npy"))
        self._error = float(error)
        if not self._exact.shape == self._codes.shape == (len(self._steps), self.width):
            raise ValueError(f"the files of {name} are not of one size")

    def __len__(self) -> int:
        return len(self._exact)

    @property
    def width(self) -> int:
        """W."""
        return int(self._exact.shape[1])

    def nearest(self, vector: Array, k: int) -> list[tuple[int, float]]:
        """Finds the k rows of the greatest cosine to a vector (W,), equal ones in their order.

        Returns:
            Rows and cosines, the nearest first; fewer than k where the table is shorter.
        """
        asked = unit(vector)
        k = min(k, len(self))
        about, margin = self._scan(asked)
        least = float(torch.topk(about, k).values[-1]) - margin
        rows = torch.nonzero(about >= least).flatten().numpy()
        cosines = np.concatenate(
            [
                unit(self._exact[rows[start : start + _ROWS]].astype(np.float32)) @ asked
                for start in range(0, len(rows), _ROWS)
            ]
        )
        first = np.lexsort((rows, -cosines))[:k]
        return [(int(rows[i]), float(cosines[i])) for i in first]

    def _scan(self, asked: Array) -> tuple[torch.Tensor, float]:
        """Returns about what each row's product is, (N,), and twice the error that it can have.

        With x the row, q the vector and x', q' their codes, |qx - q'x'| is at most
        |q - q'| |x| + |x - x'| |q'|. The length of x is 1 within the rounding of float16.
        """
        codes, step = _coded(asked[None])
        column = torch.from_numpy(np.ascontiguousarray(codes.T))  # (W, 1)
        about = torch.empty(len(self))
        for start in range(0, len(self), _ROWS):
            place = slice(start, start + _ROWS)
            sums = torch._int_mm(self._codes[place], column)[:, 0]
            torch.mul(sums, self._steps[place], out=about[place])
        about *= float(step[0])
        near = codes[0] * step[0]
        error = np.linalg.norm(asked - near) * 1.001 + self._error * np.linalg.norm(near)
        return about, 2 * (float(error) + 1e-3)


def _coded(vectors: Array) -> tuple[NDArray[np.int8], Array]:
    """Rounds rows to whole numbers from -127 to 127 with a step each."""
    steps = np.abs(vectors).max(axis=1) / _LEVELS
    steps = np.where(steps > 0, steps, 1).astype(np.float32)
    return np.rint(vectors / steps[:, None]).astype(np.int8), steps


def mapped(path: Path, dtype: type, shape: tuple[int, ...], *, anew: bool = True) -> NDArray[Any]:
    """Makes a `.npy` file, or opens one, whose array is written in place.

    Raises:
        OSError: The disk is full or refuses; writing into the array raises none.
    """
    mode: Literal["w+", "r+"] = "w+" if anew else "r+"
    table = np.lib.format.open_memmap(path, mode=mode, dtype=dtype, shape=shape)
    _reserve(path)
    return table


def _reserve(path: Path) -> None:
    """Takes the space of a file that has holes.

    Where a mapped file has one and the disk is full, writing ends the process, without an error
    that could be told.
    """
    if not hasattr(os, "posix_fallocate"):
        return
    with path.open("rb+") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # this file system cannot
                raise
