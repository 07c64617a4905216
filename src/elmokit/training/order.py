"""The order in which an epoch reads its sentences: a pure function of a few numbers."""

import numpy as np
from numpy.typing import NDArray


class SentenceOrder:
    """Sentences in shuffled order, epoch after epoch.

    Attributes:
        epoch: The epoch in progress, from 0.
        cursor: Sentences that have been taken of it.
    """

    def __init__(
        self, num_sentences: int, *, key: tuple[int, ...], rank: int = 0, world_size: int = 1
    ) -> None:
        """Begins at the first sentence of the first epoch.

        Args:
            num_sentences: Sentences in all; at least world_size.
            key: Numbers, 0 or more, that together with the epoch decide the order.
            rank: The share to take: sentences at places rank, rank + world_size, ... of the order.
            world_size: Number of shares.
        """
        self._num_sentences, self._key = num_sentences, key
        self._rank, self._world_size = rank, world_size
        self.go_to(epoch=0, cursor=0)

    def __len__(self) -> int:
        """Sentences of the share in an epoch."""
        return len(self._sentences)

    def take(self) -> int:
        """Returns the next sentence, after the last one of an epoch the first of the next."""
        if self.cursor == len(self._sentences):
            self.go_to(epoch=self.epoch + 1, cursor=0)
        self.cursor += 1
        return int(self._sentences[self.cursor - 1])

    def go_to(self, *, epoch: int, cursor: int) -> None:
        """Goes on after the first `cursor` sentences of an epoch."""
        self.epoch, self.cursor = epoch, cursor
        order = shuffled(self._num_sentences, (*self._key, epoch))
        self._sentences = order[self._rank :: self._world_size].copy()


def shuffled(count: int, key: tuple[int, ...]) -> NDArray[np.unsignedinteger]:
    """Returns (count,) the numbers 0 .. count - 1 in an order that depends on the key alone.

    They are sorted by the raw numbers of PCG64, which every version of NumPy draws alike; what
    `Generator.permutation` makes of them may change from one version to the next.
    """
    bits = np.random.PCG64(np.random.SeedSequence(key))
    order = np.argsort(bits.random_raw(count), kind="stable")
    return order.astype(np.min_scalar_type(count))
