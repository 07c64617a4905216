"""LSTM state, and its keeping by caller row from one batch to the next.

Letters: L layers, B rows, D projection width, H cell size; 2 is the direction, forward first.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class State(NamedTuple):
    """Output and cell of every layer and direction."""

    h: Tensor
    """(L, 2, B, D); (L, 2, D) where it is the initial state of any row."""
    c: Tensor
    """(L, 2, B, H); (L, 2, H) where it is the initial state of any row."""

    def expand(self, num_rows: int) -> "State":
        """Repeats an initial state for `num_rows` rows, as a copy of its own."""
        return State(*(part.unsqueeze(2).repeat(1, 1, num_rows, 1) for part in self))


@dataclass(slots=True)
class CarriedState:
    """The state after each caller row's last sentence, for `state="carry"`.

    Row r of a batch continues row r of the batch before. A row never seen starts from the initial
    state; a row that a batch does not use keeps its state (bilm-tf and AllenNLP do the same).
    """

    state: State | None = None
    """Rows 0, 1, ... in the caller's order; None before the first batch."""

    def take(self, rows: Tensor, initial: State) -> State:
        """Returns the state of the given caller rows.

        Args:
            rows: (B,) int64 caller rows.
            initial: State of a row never seen, (L, 2, D) and (L, 2, H).
        """
        if self.state is not None:  # the model may have been moved or cast since
            self.state = State(*(old.to(new) for old, new in zip(self.state, initial, strict=True)))
        missing = int(rows.max()) + 1 - (0 if self.state is None else self.state.h.size(2))
        if self.state is None:
            self.state = initial.expand(missing)
        elif missing > 0:
            fresh = initial.expand(missing)
            self.state = State(
                *(torch.cat([old, new], dim=2) for old, new in zip(self.state, fresh, strict=True))
            )
        return State(*(part[:, :, rows] for part in self.state))

    def put(self, rows: Tensor, state: State) -> None:
        """Stores the state after a batch, without its graph; `rows` were taken before."""
        assert self.state is not None
        kept = State(*(part.clone() for part in self.state))
        for old, new in zip(kept, state, strict=True):
            old[:, :, rows] = new.detach()
        self.state = kept

    def reset(self) -> None:
        """Forgets every row."""
        self.state = None
