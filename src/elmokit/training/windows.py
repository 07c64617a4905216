"""From windows of word types to what the network reads.

Letters: U word types of a corpus, K types of a window, B rows, W window, C characters.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.batch import Batch, Types
from elmokit.model import BiLM
from elmokit.training.objective import Targets
from elmokit.training.streams import Window

_CHUNK = 10_000
"""Types that are turned into ids at a time."""


class TypeTable:
    """The ids of all word types of a corpus, made once."""

    def __init__(self, words: Sequence[str], bilm: BiLM) -> None:
        """Turns words into ids; characters take two bytes each, or four in a large alphabet.

        Args:
            words: The U types of a corpus; the first two, `<S>` and `</S>`, stand for the
                boundaries of the model, whatever these are called there.
            bilm: The model.
        """
        words = [*bilm.boundaries, *words[2:]]
        kind = np.int16 if bilm.alphabet and bilm.alphabet.num_characters < 2**15 else np.int32
        chunks = [bilm.encode_words(words[i : i + _CHUNK]) for i in range(0, len(words), _CHUNK)]
        self._char_ids = _join([types.char_ids for types in chunks], kind)
        self._word_ids = _join([types.word_ids for types in chunks], np.int64)

    def select(self, numbers: NDArray[np.int64]) -> Types:
        """Returns the types with (K,) numbers."""
        return Types(
            char_ids=None if self._char_ids is None else _look_up(self._char_ids, numbers),
            word_ids=None if self._word_ids is None else _look_up(self._word_ids, numbers),
        )


class Step(NamedTuple):
    """A window as tensors."""

    batch: Batch
    targets: Targets
    mask: Tensor | None
    """(W * B,) bool, predictions that count; None if all do."""


def as_step(window: Window, table: TypeTable, device: torch.device) -> Step:
    """Encodes each distinct type of a window once, for both directions together.

    Args:
        window: (B, W) types and words of both directions.
        table: The corpus's types.
        device: Where the network is.
    """
    read = np.stack([window.forward.types, window.backward.types])
    distinct, places = np.unique(read, return_inverse=True)
    forward, backward = torch.from_numpy(places.reshape(read.shape))
    batch = Batch.from_windows(forward, backward, table.select(distinct))
    targets = Targets(
        _time_major(window.forward.targets, device), _time_major(window.backward.targets, device)
    )
    mask = None if window.mask is None else _time_major(window.mask, device)
    return Step(batch.to(device), targets, mask)


def _time_major(values: NDArray[np.generic], device: torch.device) -> Tensor:
    """(B, W) -> (W * B,), as positions are packed."""
    return torch.from_numpy(np.ascontiguousarray(values.T).reshape(-1)).to(device)


def _join(
    parts: list[Tensor | None], kind: type[np.signedinteger]
) -> NDArray[np.signedinteger] | None:
    arrays = [part.cpu().numpy().astype(kind) for part in parts if part is not None]
    return np.concatenate(arrays) if arrays else None


def _look_up(table: NDArray[np.signedinteger], numbers: NDArray[np.int64]) -> Tensor:
    return torch.from_numpy(table[numbers].astype(np.int64))
