"""A bounded table of word types already encoded.

Letters: U word types, D projection width.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from elmokit.batch import send


class TypeCache:
    """Vectors of the most recently added word types, in one table of fixed size.

    When the table is full the oldest entry gives way. Threads may share a cache.
    """

    def __init__(self, capacity: int, dim: int, device: torch.device, dtype: torch.dtype) -> None:
        """Allocates the table, all of it at once.

        Args:
            capacity: Word types held; 0 for none.
            dim: D.
            device: Where the vectors are.
            dtype: Their type.
        """
        self._table = torch.zeros(capacity, dim, device=device, dtype=dtype)
        self._words: list[str | None] = [None] * capacity
        self._slots: dict[str, int] = {}
        self._next = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._slots)

    def vectors(self, words: Sequence[str], encode: Callable[[Sequence[str]], Tensor]) -> Tensor:
        """Returns the vectors of distinct words; those not held are encoded together, then held.

        Args:
            words: U distinct words.
            encode: Turns words into vectors, (U, D).

        Returns:
            (U, D).
        """
        result = self._table.new_empty(len(words), self._table.size(1))
        with self._lock:
            slots = [self._slots.get(word, -1) for word in words]
            known = [place for place, slot in enumerate(slots) if slot >= 0]
            held = self._table[self._index([slots[place] for place in known])]
            result[self._index(known)] = held
        missing = [place for place, slot in enumerate(slots) if slot < 0]
        if missing:
            new_words = [words[place] for place in missing]
            new_vectors = encode(new_words)
            result[self._index(missing)] = new_vectors
            with self._lock:
                self._insert(new_words, new_vectors)
        return result

    def clear(self) -> None:
        """Forgets every word."""
        with self._lock:
            self._words = [None] * len(self._words)
            self._slots.clear()
            self._next = 0

    def _insert(self, words: Sequence[str], vectors: Tensor) -> None:
        capacity = len(self._words)
        if not capacity:
            return
        slots = []
        for word in words[-capacity:]:
            old = self._words[self._next]
            if old is not None and self._slots.get(old) == self._next:
                del self._slots[old]
            self._words[self._next] = word
            self._slots[word] = self._next
            slots.append(self._next)
            self._next = (self._next + 1) % capacity
        self._table[self._index(slots)] = vectors[-capacity:]

    def _index(self, places: Sequence[int]) -> Tensor:
        """(K,) int64, without waiting for a GPU as a list would."""
        return send(torch.tensor(places, dtype=torch.int64), self._table.device)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.Lock()
