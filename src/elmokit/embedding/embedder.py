"""Embedder: text in, vectors out, the same for the same sentence.

Letters: N packed positions, U word types, B sentences, T tokens, L layers, D projection width.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, Self, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.batch import Batch, Types
from elmokit.config import StatePolicy
from elmokit.embedding import scoring
from elmokit.embedding.calibration import calibrate
from elmokit.embedding.computing import computing
from elmokit.embedding.devices import Precision, find_device, prepare
from elmokit.embedding.fetching import fetched
from elmokit.embedding.schedule import cut_parts, plan
from elmokit.embedding.scoring import Perplexity, Prediction
from elmokit.embedding.selection import LayerChoice, Selection
from elmokit.embedding.type_cache import TypeCache
from elmokit.errors import ConfigError
from elmokit.model import BiLM, index_words
from elmokit.nn import CarriedState
from elmokit.nn.network import Layers
from elmokit.nn.pooling import Pooling, check_pooling, pool
from elmokit.text.tokens import token_lists

Array = NDArray[np.float32]
_Row = TypeVar("_Row")

BATCH_TOKENS = 8192
"""Tokens that run together unless said otherwise, boundaries included."""
PART_ROWS = 5_000
"""Rows that `stream` reads ahead and sorts."""
PART_BYTES = 1 << 28
"""A part ends early once its results take this many bytes."""


class Embedder:
    """Contextual vectors from a biLM.

    With `state="fresh"` a sentence's vectors depend on nothing but the sentence. One embedder may
    serve several threads then, and be sent to spawned processes.

    Attributes:
        bilm: The model in use; it shares tensors with the one given where it can.
        precision: As given.
        carried: The state after each row's last sentence, with state "carry".
    """

    def __init__(
        self,
        bilm: BiLM,
        *,
        device: str | torch.device = "auto",
        precision: Precision = "fp32",
        state: StatePolicy = "fresh",
        batch_tokens: int = BATCH_TOKENS,
        cache_words: int = 32_768,
    ) -> None:
        """Prepares a model for embedding.

        Args:
            bilm: The model.
            device: A torch device, or "auto": a CUDA device if there is one, else the CPU.
            precision: See `Precision`.
            state: "fresh" starts every sentence from the model's initial state. "carry" makes the
                list of one `embed` call one batch whose row r continues row r of the call before,
                as AllenNLP and bilm-tf do.
            batch_tokens: Tokens that run together, boundaries included (with state "fresh").
            cache_words: Word types whose vectors are kept.

        Raises:
            ConfigError: The device is unknown or absent, or an argument is out of its range.
        """
        if state not in get_args(StatePolicy):
            raise ConfigError(f"state: {state!r} is not one of {', '.join(get_args(StatePolicy))}")
        if batch_tokens < 1 or cache_words < 0:
            raise ConfigError(
                f"batch_tokens ({batch_tokens}) must be 1 or more, "
                f"cache_words ({cache_words}) 0 or more"
            )
        self.bilm = prepare(bilm, find_device(device), precision)
        self.precision, self.state = precision, state
        self.batch_tokens = batch_tokens
        self._cache = TypeCache(
            cache_words, bilm.config.lstm.projection_dim, self.bilm.device, torch.float32
        )
        self.carried = CarriedState()

    @classmethod
    def from_pretrained(
        cls,
        source: str | os.PathLike[str] | None = None,
        *,
        options: str | os.PathLike[str] | None = None,
        weights: str | os.PathLike[str] | None = None,
        vocab: str | os.PathLike[str] | None = None,
        token_embeddings: str | os.PathLike[str] | None = None,
        **settings: Any,
    ) -> Self:
        """Loads a checkpoint and prepares it.

        The sources are those of `BiLM.from_pretrained`, the settings those of `Embedder`.
        """
        bilm = BiLM.from_pretrained(
            source, options=options, weights=weights, vocab=vocab, token_embeddings=token_embeddings
        )
        return cls(bilm, **settings)

    @property
    def dim(self) -> int:
        """2D, the width of a token's vector."""
        return self.bilm.config.dim

    @property
    def num_outputs(self) -> int:
        """L + 1, the layers that "all" gives (1 for a stacked LSTM)."""
        return self.bilm.config.num_outputs

    def embed(
        self,
        sentences: Sequence[Sequence[str]],
        layers: LayerChoice = "all",
        *,
        weights: Sequence[float] | None = None,
        boundaries: bool = False,
        return_tensors: Literal["np", "pt"] = "np",
    ) -> list[Any]:
        """Embeds every token of every sentence.

        Args:
            sentences: Token lists; a list may be empty.
            layers: "all", "mean", "top", one layer by number, or several; 0 is the token layer.
            weights: Final weights, one per layer, used as given; exclusive with `layers`.
            boundaries: Whether the vectors of `<S>` and `</S>` are kept, first and last.
            return_tensors: "np" for numpy arrays, "pt" for tensors on the model's device.

        Returns:
            For each sentence in order a float32 array (L+1, T, 2D) for "all", (K, T, 2D) for K
            layers by number, else (T, 2D). T counts the boundaries if they are kept.

        Raises:
            InputError: The input is not a list of token lists.
            ConfigError: A layer does not exist, or weights do not fit.
        """
        if return_tensors not in ("np", "pt"):
            raise ConfigError(f"return_tensors: {return_tensors!r} is neither 'np' nor 'pt'")
        selection = Selection.parse(layers, weights, self.num_outputs)
        compute = self._arrays if return_tensors == "np" else self.embed_part
        return compute(list(token_lists(sentences)), selection, boundaries=boundaries)

    def embed_sentences(
        self,
        sentences: Sequence[str] | Sequence[Sequence[str]],
        *,
        pooling: Pooling = "mean",
        layers: LayerChoice = "mean",
        weights: Sequence[float] | None = None,
    ) -> Array:
        """Embeds every sentence as one vector, pooled over its tokens (boundaries left out).

        Args:
            sentences: Token lists, or texts to be split at white space.
            pooling: "mean", "max", or "mean+max" for both side by side.
            layers: As in `embed`.
            weights: As in `embed`, instead of the mean.

        Returns:
            (B, 2D) float32, or (B, K, 2D) for layers that keep their axis; twice as wide for
            "mean+max". An empty sentence gives zeros.

        Raises:
            InputError: The input is not a list of texts or token lists.
            ConfigError: The pooling or a layer does not exist.
        """
        if isinstance(sentences, Iterable) and not isinstance(sentences, str):
            sentences = [text.split() if isinstance(text, str) else text for text in sentences]
        rows = list(token_lists(sentences))
        layers = "all" if weights is not None and layers == "mean" else layers
        selection = Selection.parse(layers, weights, self.num_outputs)
        pooled = self._arrays(rows, selection, pooling=check_pooling(pooling))
        width = self.dim * (1 + ("+" in pooling))
        shape = (len(selection.layers), width) if selection.keep_axis else (width,)
        return np.stack(pooled) if pooled else np.zeros((0, *shape), dtype=np.float32)

    def stream(
        self,
        sentences: Iterable[Sequence[str]],
        layers: LayerChoice = "all",
        *,
        weights: Sequence[float] | None = None,
        boundaries: bool = False,
        batch_size: int = 64,
    ) -> Iterator[Array]:
        """Embeds any number of sentences in bounded memory.

        Sentences are read ahead in parts (`PART_ROWS` rows, or fewer if their results would exceed
        `PART_BYTES`), sorted by length inside a part, and given back in input order.

        Args:
            sentences: Token lists, from any iterable.
            layers: As in `embed`.
            weights: As in `embed`.
            boundaries: As in `embed`.
            batch_size: Rows per batch with state "carry", where a part is one batch.

        Yields:
            One array per sentence, as `embed` returns it.
        """
        selection = Selection.parse(layers, weights, self.num_outputs)
        for part in self.cut_parts(token_lists(sentences), selection, batch_size=batch_size):
            yield from self._arrays(part, selection, boundaries=boundaries)

    def cut_parts(
        self,
        rows: Iterable[_Row],
        selection: Selection,
        *,
        batch_size: int,
        part_rows: int = PART_ROWS,
        length: Callable[[Any], int] = len,
    ) -> Iterator[list[_Row]]:
        """Cuts rows into the parts that `stream` holds in memory; `length` gives a row's tokens."""
        if batch_size < 1 or part_rows < 1:
            raise ConfigError(f"batch_size ({batch_size}), part_rows ({part_rows}): 1 or more")
        if self.state == "carry":
            return cut_parts(rows, max_rows=batch_size, max_tokens=sys.maxsize, length=length)
        kept_layers = len(selection.layers) if selection.keep_axis else 1
        max_tokens = PART_BYTES // (4 * self.dim * kept_layers)
        return cut_parts(rows, max_rows=part_rows, max_tokens=max_tokens, length=length)

    def embed_part(
        self,
        sentences: Sequence[Sequence[str]],
        selection: Selection,
        *,
        boundaries: bool = False,
        pooling: Pooling | None = None,
        to_cpu: bool = False,
        on_batch: Callable[[int], object] | None = None,
    ) -> list[Tensor]:
        """Embeds sentences that were checked before; `embed` and `stream` are made of this.

        Args:
            sentences: Token lists.
            selection: The layers.
            boundaries: As in `embed`.
            pooling: How token vectors become one; None keeps them.
            to_cpu: Whether results are brought to the CPU, or stay on the model's device.
            on_batch: Called with the number of tokens after each batch.

        Returns:
            One float32 tensor per sentence, each with memory of its own: (K, T, 2D) or (T, 2D), and
            without T if pooled.
        """
        results: list[Tensor] = [torch.empty(0)] * len(sentences)
        batches = self._batches(sentences, selection, boundaries, pooling)
        for places, vectors in fetched(batches, self.bilm.device) if to_cpu else batches:
            lengths = [len(sentences[place]) + 2 * boundaries for place in places]
            pieces = vectors.unbind(-2) if pooling else torch.split(vectors, lengths, dim=-2)
            for place, piece in zip(places, pieces, strict=True):
                # A copy, so that keeping one sentence does not keep its batch.
                results[place] = piece.clone(memory_format=torch.contiguous_format)
            del vectors, pieces, piece  # or they would be held while the next batch runs
            if on_batch is not None:
                on_batch(sum(len(sentences[place]) for place in places))
        return results

    def warm(self, words: Iterable[str]) -> None:
        """Encodes word types ahead of their use, as far as the cache holds them."""
        distinct = list(dict.fromkeys(next(token_lists([words]))))
        with computing(self.bilm.device):
            for start in range(0, len(distinct), 4096):
                self.type_vectors(distinct[start : start + 4096])

    def clear_cache(self) -> None:
        """Forgets all encoded word types."""
        self._cache.clear()

    def log_probs(self, tokens: Sequence[str]) -> tuple[Array, Array]:
        """Scores a sentence with the language model, from the model's initial state.

        Args:
            tokens: T tokens; words outside the vocabulary count as `<UNK>`.

        Returns:
            Forward and backward (T+1,) float32 natural log-probabilities: forward[t] is that of
            token t+1 (the last of `</S>`), backward[t] that of token t (the first of `<S>`).

        Raises:
            ConfigError: The model has no softmax.
        """
        return scoring.log_probs(self, next(token_lists([tokens])))

    def perplexity(
        self, sentences: Sequence[Sequence[str]], *, state: StatePolicy = "fresh"
    ) -> Perplexity:
        """Measures how well the language model foretells text, over its whole vocabulary.

        Args:
            sentences: Token lists.
            state: "fresh" starts every sentence from the model's initial state; "carry" runs on
                from one sentence to the next, from a state of zeros, as bilm-tf's test does.

        Raises:
            ConfigError: The model has no softmax, or the state policy is unknown.
            InputError: There is no sentence, or the input is not a list of token lists.
        """
        return scoring.perplexity(self, list(token_lists(sentences)), state)

    def predict(self, tokens: Sequence[str], k: int = 10) -> list[Prediction]:
        """Names the k words that the language model expects at each position.

        Returns:
            One prediction per token, which does not see the token itself.

        Raises:
            ConfigError: The model has no softmax, or k is out of range.
        """
        return scoring.predict(self, next(token_lists([tokens])), k)

    def calibrate(self, sentences: Sequence[Sequence[str]]) -> None:
        """Makes the mean state after a sentence the model's initial state.

        The sentences run once as one carried row, from a state of zeros. Every later sentence then
        starts from a state as in running text, and still from the same one. Saved in the native
        format only.

        Args:
            sentences: Token lists of running text, in order.

        Raises:
            InputError: There is no sentence, or the input is not a list of token lists.
            ConfigError: The model has no state to carry (a stacked LSTM).
        """
        calibrate(self, list(token_lists(sentences)))

    def reset(self) -> None:
        """Forgets the carried state of every row."""
        self.carried.reset()

    def _arrays(self, rows: list[Any], selection: Selection, **settings: Any) -> list[Array]:
        """Returns what `embed_part` does, as arrays."""
        return [row.numpy() for row in self.embed_part(rows, selection, to_cpu=True, **settings)]

    def _batches(
        self, rows: Sequence[Any], selection: Selection, boundaries: bool, pooling: Pooling | None
    ) -> Iterator[tuple[list[int], Tensor]]:
        """Yields the places of a batch's sentences, and their vectors end to end or pooled.

        Nothing here waits for a GPU, so that it computes a batch while the next one is packed.
        """
        batch_tokens = sys.maxsize if self.state == "carry" else self.batch_tokens
        for places in plan([len(row) for row in rows], batch_tokens):
            with computing(self.bilm.device):
                batch, vectors = self.pack([rows[place] for place in places], places)
                positions, lengths = batch.unpacked(boundaries=boundaries)
                vectors = selection.apply(self._run(batch, vectors), batch.flipped(), positions)
                vectors = pool(vectors, lengths, pooling) if pooling else vectors
            yield places, vectors  # the longest first, as they are packed
            del vectors

    def pack(
        self, sentences: Sequence[Sequence[str]], places: Sequence[int] | None = None
    ) -> tuple[Batch, Tensor]:
        """Packs sentences; returns the batch and its types' vectors (U, D), from the cache."""
        words, indices = index_words(sentences, self.bilm.boundaries)
        batch = Batch.from_sentences(indices, Types(), rows=places).to(self.bilm.device)
        return batch, self.type_vectors(words)

    def type_vectors(self, words: Sequence[str]) -> Tensor:
        """Returns the context-free vectors of distinct words, from the cache where it has them.

        Args:
            words: U distinct words; the boundary words are words like others.

        Returns:
            (U, D).
        """
        network = self.bilm.network
        return self._cache.vectors(
            words, lambda missing: network.encode_types(self.bilm.encode_words(missing))
        )

    def _run(self, batch: Batch, vectors: Tensor) -> Layers:
        network = self.bilm.network
        if self.state == "fresh" or not network.has_state:
            return network.run(vectors, batch)[0]
        state = self.carried.take(batch.rows, network.initial_state)
        layers, after = network.run(vectors, batch, state)
        assert after is not None
        self.carried.put(batch.rows, after)
        return layers
