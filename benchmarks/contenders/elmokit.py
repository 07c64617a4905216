"""elmokit's Embedder, which sorts and batches by itself and keeps the word types it has met."""

from typing import TYPE_CHECKING

import torch

from contenders import RefusedError, Sentences, Setup
from elmokit import Embedder
from elmokit.errors import ConfigError

if TYPE_CHECKING:
    from contenders import Vectors


class Elmokit:
    """`Embedder.embed` of the whole list."""

    packages = ("elmokit", "torch", "numpy")
    keeps_words = True

    def __init__(self, setup: Setup) -> None:
        torch.set_num_threads(setup.num_threads)
        try:
            self._embedder = Embedder.from_pretrained(
                setup.directory, device="cpu", precision=setup.precision
            )
        except ConfigError as error:
            if "precision" in str(error):
                raise RefusedError(str(error)) from None
            raise

    def forget(self) -> None:
        """Forget every word type."""
        self._embedder.clear_cache()

    def embed(self, sentences: Sentences) -> "Vectors":
        """See `Contender`."""
        return self._embedder.embed(sentences)
