"""simple-elmo on TensorFlow, in batches of sentences of like length, fresh state before each."""

import logging
import os
from typing import TYPE_CHECKING, Any

from contenders import Sentences, Setup, batches_by_length

if TYPE_CHECKING:
    from contenders import Vectors


class SimpleElmo:
    """`ElmoModel.get_elmo_vectors` of a batch at a time, in one session.

    A call for all sentences would give one array as long as the longest of them, and carry the
    state from batch to batch. A batch at a time is faster, and gives the vectors that others give.
    """

    packages = ("simple-elmo", "tensorflow-cpu", "numpy")
    keeps_words = False

    def __init__(self, setup: Setup) -> None:
        assert setup.batch_size is not None
        threads = str(setup.num_threads)
        os.environ |= {
            "TF_NUM_INTRAOP_THREADS": threads,
            "TF_NUM_INTEROP_THREADS": threads,
            "TF_CPP_MIN_LOG_LEVEL": "2",
        }
        import tensorflow as tf
        from simple_elmo import ElmoModel
        from simple_elmo.elmo import weight_layers

        self._model = ElmoModel()
        logging.getLogger().setLevel(logging.WARNING)  # it tells of every batch
        self._batch_size = setup.batch_size
        self._model.load(setup.directory, max_batch_size=setup.batch_size)
        # What get_elmo_vectors does when it has no session, done once here.
        self._model.elmo_sentence_input = weight_layers(
            "input", self._model.sentence_embeddings_op, use_layers="all"
        )
        self._session = tf.compat.v1.Session()
        self._session.run(tf.compat.v1.global_variables_initializer())
        variables = tf.compat.v1.global_variables()
        states = [v for v in variables if v.op.name.rpartition("/")[2].startswith("Variable")]
        assert len(states) > 0
        self._reset = tf.compat.v1.variables_initializer(states)

    def forget(self) -> None:
        """Do nothing: no word is kept."""

    def embed(self, sentences: Sentences) -> "Vectors":
        """See `Contender`; its arrays are float64."""
        vectors: dict[int, Any] = {}
        for places in batches_by_length(sentences, self._batch_size):
            batch = [sentences[place] for place in places]
            self._session.run(self._reset)
            padded = self._model.get_elmo_vectors(
                batch, warmup=False, layers="all", session=self._session
            )  # (B, L+1, T, 2D)
            for place, sentence, row in zip(places, batch, padded, strict=True):
                vectors[place] = row[:, : len(sentence)]
        return [vectors[place] for place in range(len(sentences))]
