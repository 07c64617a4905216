"""One batch layout for every path: packed, time-major positions over distinct word types.

Letters: N packed positions, U word types, B rows, T time, C characters.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from elmokit.errors import InputError


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Returns a tensor on `device`; what goes to a GPU is queued there, and nothing waits for it.

    torch keeps the pinned copy until the GPU has read it.
    """
    if device.type == "cuda" and not tensor.is_cuda:
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Types:
    """The U distinct word types of a batch; both absent where their vectors come from a cache."""

    char_ids: Tensor | None = None
    """(U, C) int64, for models with a character CNN."""
    word_ids: Tensor | None = None
    """(U,) int64, for models with a word table."""

    def __len__(self) -> int:
        """U."""
        ids = self.word_ids if self.char_ids is None else self.char_ids
        return 0 if ids is None else len(ids)

    def __getitem__(self, places: Tensor) -> Self:
        """Returns the types at (K,) places, which may repeat."""
        return replace(
            self,
            char_ids=None if self.char_ids is None else self.char_ids[places],
            word_ids=None if self.word_ids is None else self.word_ids[places],
        )

    def to(self, device: torch.device) -> Self:
        """Returns the types on `device`."""
        return replace(
            self,
            char_ids=None if self.char_ids is None else send(self.char_ids, device),
            word_ids=None if self.word_ids is None else send(self.word_ids, device),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Sentences with their boundaries as packed positions, longest row first.

    Position n of step t belongs to packed row n - offset(t); a step holds the rows still active,
    so no position is padding. Both readings have the same layout: the backward one reads each row
    from its last position to its first.
    """

    types: Types
    """What the types are."""
    forward: Tensor
    """(N,) int64, type read at each position, left to right."""
    backward: Tensor
    """(N,) int64, the same for the right-to-left reading."""
    batch_sizes: tuple[int, ...]
    """Active rows of each step; never rises."""
    rows: Tensor
    """(B,) int64, packed row -> caller's row (also the row of its carried state)."""
    lengths: Tensor
    """(B,) int64, positions of each packed row, boundaries included: an empty sentence has 2."""

    @classmethod
    def from_sentences(
        cls, sentences: Sequence[Sequence[int]], types: Types, *, rows: Sequence[int] | None = None
    ) -> Self:
        """Packs sentences of type indices.

        Args:
            sentences: For each sentence the types read, boundaries included (at least one).
            types: The types that the indices point to.
            rows: The caller's row of each sentence; by default its place in the list.

        Raises:
            InputError: There is no sentence, or one has no position.
        """
        if not sentences or not all(len(sentence) for sentence in sentences):
            raise InputError("a batch needs at least one sentence, each with its boundaries")
        lengths = torch.tensor([len(sentence) for sentence in sentences])
        read = np.fromiter(itertools.chain.from_iterable(sentences), np.int64, int(lengths.sum()))
        flat = torch.from_numpy(read)
        caller_rows = torch.arange(len(sentences)) if rows is None else torch.tensor(rows)
        return cls._pack(flat, lengths, caller_rows, types)

    @classmethod
    def from_ids(cls, char_ids: Tensor, begin: Tensor, end: Tensor) -> Self:
        """Packs character ids as AllenNLP's `batch_to_ids` lays them out.

        Args:
            char_ids: (B, T, C) int64; a token of zeros only is padding.
            begin: (C,) int64, ids of the begin-of-sentence word, which is added before each row.
            end: (C,) int64, ids of the end-of-sentence word, added after each row's last token.

        Raises:
            InputError: The shape is wrong or a row has padding before its last token.
        """
        if char_ids.dim() != 3 or char_ids.size(2) != begin.numel() or not char_ids.size(0):
            raise InputError(
                f"character ids: expected shape (B, T, {begin.numel()}), "
                f"found {tuple(char_ids.shape)}; "
                f"make them with batch_to_ids(sentences, max_characters={begin.numel()})"
            )
        mask = (char_ids != 0).any(dim=2)
        lengths = mask.sum(dim=1)
        if not torch.equal(mask, torch.arange(mask.size(1), device=mask.device) < lengths[:, None]):
            raise InputError(
                "character ids: a token of zeros stands before the last token of its row"
            )
        boundaries = torch.stack([begin, end]).to(char_ids)
        distinct, inverse = torch.unique(
            torch.cat([boundaries, char_ids[mask]]), dim=0, return_inverse=True
        )
        # Lay the rows end to end with a boundary on each side of every row.
        ends = torch.cumsum(lengths + 2, dim=0)
        flat = torch.empty(int(ends[-1]), dtype=torch.int64, device=char_ids.device)
        inner = torch.ones_like(flat, dtype=torch.bool)
        inner[ends - lengths - 2] = False
        inner[ends - 1] = False
        flat[ends - lengths - 2] = inverse[0]
        flat[ends - 1] = inverse[1]
        flat[inner] = inverse[2:]
        rows = torch.arange(len(lengths), device=char_ids.device)
        return cls._pack(flat, lengths + 2, rows, Types(char_ids=distinct))

    @classmethod
    def from_windows(cls, forward: Tensor, backward: Tensor, types: Types) -> Self:
        """Packs windows of running text, where the two readings need not be of the same sentences.

        Args:
            forward: (B, T) int64 types read left to right.
            backward: (B, T) int64 types read right to left, in reading order.
            types: The types that the indices point to.
        """
        num_rows, num_steps = forward.shape
        return cls(
            types=types,
            forward=forward.t().reshape(-1),
            backward=backward.t().reshape(-1),
            batch_sizes=(num_rows,) * num_steps,
            rows=torch.arange(num_rows, device=forward.device),
            lengths=torch.full((num_rows,), num_steps, device=forward.device),
        )

    @classmethod
    def _pack(cls, flat: Tensor, lengths: Tensor, rows: Tensor, types: Types) -> Self:
        """Packs rows that lie end to end in `flat`, in the caller's order."""
        starts = torch.cumsum(lengths, dim=0) - lengths
        lengths, order = torch.sort(lengths, descending=True, stable=True)
        starts = starts[order]
        batch_sizes = _sizes(lengths)
        time, row = _coordinates(batch_sizes, len(flat))
        return cls(
            types=types,
            forward=flat[starts[row] + time],
            backward=flat[starts[row] + lengths[row] - 1 - time],
            batch_sizes=tuple(batch_sizes.tolist()),
            rows=rows[order],
            lengths=lengths,
        )

    @property
    def num_positions(self) -> int:
        """N, boundaries included."""
        return len(self.forward)

    def flipped(self) -> Tensor:
        """(N,) int64: for each position of one reading, the same token's position in the other."""
        sizes, offsets = self._steps()
        time, row = _coordinates(sizes, self.num_positions)
        return offsets[self.lengths[row] - 1 - time] + row

    def unpacked(self, *, boundaries: bool = False) -> tuple[Tensor, Tensor]:
        """Tells how to lay the packed positions out sentence by sentence, in packed row order.

        Args:
            boundaries: Whether the two boundary positions of each row are kept.

        Returns:
            (M,) int64 packed positions in sentence order, and (B,) int64 the rows' lengths therein.
        """
        skip = 0 if boundaries else 1
        kept = self.lengths - 2 * skip
        _, offsets = self._steps()
        num_kept = self.num_positions - 2 * skip * len(kept)
        row = torch.repeat_interleave(kept, output_size=num_kept)
        time = torch.arange(len(row), device=row.device) - (torch.cumsum(kept, dim=0) - kept)[row]
        return offsets[time + skip] + row, kept

    def last_positions(self) -> Tensor:
        """(B,) int64: the position of each packed row's last step."""
        _, offsets = self._steps()
        return offsets[self.lengths - 1] + torch.arange(len(self.lengths), device=offsets.device)

    def _steps(self) -> tuple[Tensor, Tensor]:
        """Returns (T,) active rows of each step, and (T,) the position where it begins."""
        sizes = send(torch.tensor(self.batch_sizes), self.forward.device)
        return sizes, torch.cumsum(sizes, dim=0) - sizes

    def to(self, device: torch.device) -> Self:
        """Returns the batch on `device`."""
        return replace(
            self,
            types=self.types.to(device),
            forward=send(self.forward, device),
            backward=send(self.backward, device),
            rows=send(self.rows, device),
            lengths=send(self.lengths, device),
        )


def _sizes(lengths: Tensor) -> Tensor:
    """(T,) active rows of each step, from (B,) lengths in falling order."""
    ended = torch.bincount(lengths, minlength=int(lengths[0]) + 1)[:-1]
    return len(lengths) - torch.cumsum(ended, dim=0)


def _coordinates(sizes: Tensor, num_positions: int) -> tuple[Tensor, Tensor]:
    """(N,) step and (N,) packed row of each position, from (T,) active rows that sum to N."""
    time = torch.repeat_interleave(sizes, output_size=num_positions)
    offsets = torch.cumsum(sizes, dim=0) - sizes
    return time, torch.arange(len(time), device=sizes.device) - offsets[time]
