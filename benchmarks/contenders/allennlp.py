"""AllenNLP's biLM, in batches of sentences of like length, fresh state before each batch."""

from typing import TYPE_CHECKING, Any

import torch
from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids

from contenders import Sentences, Setup, batches_by_length

if TYPE_CHECKING:
    from contenders import Vectors


class AllenNLP:
    """The network without gradients; its layers without `<S>` and `</S>`."""

    packages = ("allennlp", "torch", "numpy")
    keeps_words = False

    def __init__(self, setup: Setup) -> None:
        assert setup.batch_size is not None
        torch.set_num_threads(setup.num_threads)
        files = (f"{setup.directory}/{name}" for name in ("options.json", "weights.hdf5"))
        self._bilm = _ElmoBiLm(*files).eval()
        self._batch_size = setup.batch_size

    def forget(self) -> None:
        """Do nothing: no word is kept."""

    def embed(self, sentences: Sentences) -> "Vectors":
        """See `Contender`."""
        vectors: dict[int, Any] = {}
        for places in batches_by_length(sentences, self._batch_size):
            batch = [sentences[place] for place in places]
            vectors.update(zip(places, self._embed_batch(batch), strict=True))
        return [vectors[place] for place in range(len(sentences))]

    def _embed_batch(self, sentences: Sentences) -> "Vectors":
        ids = batch_to_ids(sentences)
        self._bilm._elmo_lstm.reset_states()
        with torch.no_grad():
            activations = self._bilm(ids)["activations"]
        layers = torch.stack(activations, dim=1).numpy()  # (B, L+1, T+2, 2D)
        # Views: the padding behind them is not copied, to AllenNLP's favour.
        rows = zip(layers, sentences, strict=True)
        return [row[:, 1 : 1 + len(sentence)] for row, sentence in rows]
