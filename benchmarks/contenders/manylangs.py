"""ELMoForManyLangs, in batches of sentences of like length, fresh state before each batch."""

import logging
from typing import TYPE_CHECKING, Any

import torch
from elmoformanylangs import Embedder

from contenders import Sentences, Setup, batches_by_length

if TYPE_CHECKING:
    from contenders import Vectors


class ManyLangs:
    """`Embedder.sents2elmo` of a batch at a time.

    A call for all sentences would run their batches in a random order and carry the state from one
    to the next. It builds a graph for a gradient too, which is kept from it here, to its favour.
    """

    packages = ("elmoformanylangs", "torch", "numpy")
    keeps_words = False

    def __init__(self, setup: Setup) -> None:
        assert setup.batch_size is not None
        torch.set_num_threads(setup.num_threads)
        logging.getLogger("elmoformanylangs").setLevel(logging.WARNING)
        self._embedder = Embedder(setup.directory, batch_size=setup.batch_size)
        self._batch_size = setup.batch_size

    def forget(self) -> None:
        """Do nothing: no word is kept."""

    def embed(self, sentences: Sentences) -> "Vectors":
        """See `Contender`."""
        vectors: dict[int, Any] = {}
        for places in batches_by_length(sentences, self._batch_size):
            self._embedder.model.encoder.reset_states()
            with torch.no_grad():
                batch = [sentences[place] for place in places]
                layers = self._embedder.sents2elmo(batch, output_layer=-2)
            vectors.update(zip(places, layers, strict=True))
        return [vectors[place] for place in range(len(sentences))]
