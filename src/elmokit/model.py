"""BiLM: a network with the alphabet and word lists that lead to it, and its card.

Letters: U word types, B rows, T time, C characters, L layers, D projection width, H cell size.
"""

import copy
import os
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from elmokit import checkpoints
from elmokit.batch import Batch, Types
from elmokit.characters import MAX_CHARACTERS, Alphabet, ByteAlphabet
from elmokit.checkpoints.checkpoint import Checkpoint
from elmokit.config import ActivationRanges, BiLMConfig, Card, CharCNNConfig
from elmokit.errors import ConfigError
from elmokit.nn import BiLMNetwork, LMSoftmax, State
from elmokit.text.tokens import token_lists
from elmokit.vocabulary import InputWords, Vocabulary

_SOFTMAX = "softmax."
"""Prefix of the softmax's tensors in a checkpoint."""


class BiLM(nn.Module):
    """A bidirectional language model: words in, layers out.

    Attributes:
        network: The layers.
        alphabet: How words become character ids; None for a model of word ids only.
        words: How words become word ids; None for a model of characters only.
        softmax: The output layer over the words of the vocabulary, where the source has it.
        vocabulary: Words of the training vocabulary, where the source has them.
        card: What a user must know and no tensor tells.
        activations: What int8 takes its scales from, where it was measured.
    """

    def __init__(
        self,
        network: BiLMNetwork,
        *,
        alphabet: Alphabet | None = None,
        words: InputWords | None = None,
        softmax: LMSoftmax | None = None,
        vocabulary: Vocabulary | None = None,
        card: Card | None = None,
        activations: ActivationRanges | None = None,
    ) -> None:
        """Builds a model from its parts; `from_pretrained` is the usual way.

        Raises:
            ConfigError: The alphabet, a word list or the softmax does not fit the network.
        """
        super().__init__()
        _check_fit(network.config, alphabet, words)
        _check_softmax(network.config, softmax, vocabulary)
        self.network = network
        self.softmax = softmax
        self.alphabet = alphabet
        self.words = words
        self.vocabulary = vocabulary
        self.card = card or Card()
        self.activations = activations

    @classmethod
    def from_pretrained(
        cls,
        source: str | os.PathLike[str] | None = None,
        *,
        options: str | os.PathLike[str] | None = None,
        weights: str | os.PathLike[str] | None = None,
        vocab: str | os.PathLike[str] | None = None,
        token_embeddings: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Loads a checkpoint of any known format, in evaluation mode, on the CPU.

        Args:
            source: A directory, zip or tar file, `hub:owner/name`, "default" or "zh-hant".
            options: `options.json` of a loose AllenNLP or bilm-tf pair, instead of `source`.
            weights: HDF5 weights of such a pair.
            vocab: Word list of such a pair; needed for a word-id model and for `token_embeddings`.
            token_embeddings: HDF5 file of token vectors for the lines of `vocab`; the model then
                reads word ids and its character CNN is left out, as in bilm-tf.

        Raises:
            CheckpointError: The source is missing, damaged, incomplete or of no known format.
        """
        checkpoint = checkpoints.read(
            source, options=options, weights=weights, vocab=vocab, token_embeddings=token_embeddings
        )
        return cls.from_checkpoint(checkpoint)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        """Builds the model that a checkpoint describes; its tensors become the parameters."""
        config, tensors = checkpoint.config, dict(checkpoint.tensors)
        with torch.device("meta"):
            network = BiLMNetwork(config)
            softmax = (
                LMSoftmax(config.softmax_words, config.lstm.projection_dim)
                if config.softmax_words is not None
                else None
            )
        if softmax is not None:
            layers = {name: tensors.pop(f"{_SOFTMAX}{name}") for name in ("weight", "bias")}
            softmax.load_state_dict(layers, assign=True)
        network.load_state_dict(tensors, assign=True)
        return cls(
            network,
            alphabet=checkpoint.alphabet,
            words=checkpoint.words,
            softmax=softmax,
            vocabulary=checkpoint.vocabulary,
            card=checkpoint.card,
            activations=checkpoint.activations,
        ).eval()

    def to_checkpoint(self) -> Checkpoint:
        """Returns the model as plain data, its tensors float32 on the CPU.

        Tensors that are so already are not copied: they share memory with the model.
        """
        tensors = dict(self.network.state_dict())
        if self.softmax is not None:
            tensors |= self.softmax.state_dict(prefix=_SOFTMAX)
        tensors = {
            name: tensor.detach().to("cpu", torch.float32).contiguous()
            for name, tensor in tensors.items()
        }
        return Checkpoint(
            config=self.config,
            tensors=tensors,
            alphabet=self.alphabet,
            words=self.words,
            vocabulary=self.vocabulary,
            card=self.card,
            activations=self.activations,
        )

    def save_pretrained(
        self,
        path: str | os.PathLike[str],
        *,
        format: str = "native",
        dtype: checkpoints.StoredDtype = "float32",
    ) -> None:
        """Writes the model as a directory.

        Args:
            path: The directory to make; it must not exist, or be empty.
            format: "native", or "allennlp" for options.json + weights.hdf5.
            dtype: Number format of the weights in the file; "float16" halves it and rounds them
                (native only).

        Raises:
            CheckpointError: The directory is taken, or the format cannot express the model.
        """
        checkpoints.write(self.to_checkpoint(), Path(path), format=format, dtype=dtype)

    @property
    def config(self) -> BiLMConfig:
        """What decides the network's shape."""
        return self.network.config

    @property
    def initial_state(self) -> State:
        """State before a sentence: h (L, 2, D) and c (L, 2, H), zeros unless calibrated."""
        return self.network.initial_state

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.network.parameters()).device

    @property
    def boundaries(self) -> tuple[str, str]:
        """The words that stand before and after every sentence.

        The same words in a user's text are read as boundaries too, as in every original program.
        """
        if self.words is not None:
            return self.words.begin, self.words.end
        assert self.alphabet is not None
        return self.alphabet.sentence_marks

    def encode_words(self, words: Sequence[str]) -> Types:
        """Turns word types into ids, on the CPU; `encode_types` takes them from there.

        Args:
            words: U surface forms.
        """
        char_ids = word_ids = None
        if self.alphabet is not None:
            char_ids = pad_words(words, self.alphabet)
        if self.words is not None:
            word_ids = torch.tensor([self.words.encode(word) for word in words], dtype=torch.int64)
        return Types(char_ids=char_ids, word_ids=word_ids)

    def encode(self, sentences: Sequence[Sequence[str]]) -> Batch:
        """Packs sentences with their boundaries, each distinct word type once.

        Args:
            sentences: Token lists; a list may be empty.

        Raises:
            InputError: The input is not a list of token lists, or has no sentence.
        """
        words, indices = index_words(token_lists(sentences), self.boundaries)
        batch = Batch.from_sentences(indices, self.encode_words(words))
        return batch.to(self.device)

    def batch_to_ids(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """Lays sentences out as AllenNLP does, at this model's character limit.

        Returns:
            (B, T, C) int64, zeros where a row has ended; no boundaries.

        Raises:
            ConfigError: The model does not read the byte alphabet.
        """
        if not isinstance(self.alphabet, ByteAlphabet) or self.words is not None:
            raise ConfigError(
                "batch_to_ids: this model does not read the byte alphabet; use encode(sentences)"
            )
        return batch_to_ids(sentences, max_characters=self.alphabet.max_characters)

    def count_unknown(self, word: str) -> int:
        """Counts the word's characters that the model cannot know.

        These are characters without an id; for the byte alphabet, which has an id for every byte,
        characters that occur in no word of the training vocabulary, if the model came with one.
        """
        if self.alphabet is None:
            return 0
        has_bytes = isinstance(self.alphabet, ByteAlphabet)
        if not has_bytes or self.vocabulary is None or word in self.boundaries:
            return self.alphabet.count_unknown(word)
        known = self.vocabulary.characters
        return sum(character not in known for character in word)

    @property
    def knows_characters(self) -> bool:
        """Whether `count_unknown` can tell: bytes need the training vocabulary for that."""
        return not isinstance(self.alphabet, ByteAlphabet) or self.vocabulary is not None

    @property
    def title(self) -> str:
        """The model's name, or its widths where it has none."""
        lstm = self.config.lstm
        widths = f"{lstm.num_layers} layers, cell {lstm.cell_dim}, projection {lstm.projection_dim}"
        return self.card.name or f"{widths}, no name recorded"

    def frozen(self) -> Self:
        """Returns a model that shares this one's tensors and whose parameters take no gradient."""
        shared: dict[int, object] = {
            id(parameter): nn.Parameter(parameter.detach(), requires_grad=False)
            for parameter in self.parameters()
        }
        # The initial state is not shared: each copy may be calibrated by itself.
        unchanging = (self.alphabet, self.words, self.vocabulary)
        shared.update((id(part), part) for part in unchanging)
        return copy.deepcopy(self, shared).eval()

    def with_card(self, **changes: object) -> Self:
        """Returns this model with some fields of its card changed; the network is shared.

        Raises:
            ConfigError: The card has no such field, or a value does not fit.
        """
        other = copy.copy(self)
        other.card = Card.from_dict(self.card.to_dict() | changes, where="card")
        return other


def batch_to_ids(
    sentences: Sequence[Sequence[str]], max_characters: int = MAX_CHARACTERS
) -> Tensor:
    """Turns sentences into character ids of the paper's byte alphabet, as AllenNLP's function does.

    Args:
        sentences: Token lists; a list may be empty.
        max_characters: The model's limit of characters per token.

    Returns:
        (B, T, C) int64 with T the longest sentence, zeros where a row has ended; no boundaries.

    Raises:
        InputError: The input is not a list of token lists.
        ConfigError: The limit leaves no room for a character.
    """
    rows = list(token_lists(sentences))
    alphabet = ByteAlphabet(max_characters=max_characters)
    longest = max(map(len, rows), default=0)
    ids = torch.zeros(len(rows), longest, max_characters, dtype=torch.int64)
    for row, tokens in enumerate(rows):
        if tokens:
            ids[row, : len(tokens)] = pad_words(tokens, alphabet)
    return ids


def index_words(
    sentences: Iterable[Sequence[str]], boundaries: tuple[str, str]
) -> tuple[list[str], list[list[int]]]:
    """Finds the distinct words of sentences with their boundaries.

    Args:
        sentences: Token lists.
        boundaries: The words before and after each sentence.

    Returns:
        The distinct words in order of appearance, the boundaries first, and for each sentence the
        places of its words in that list, boundaries included.
    """
    places = {word: place for place, word in enumerate(dict.fromkeys(boundaries))}
    begin, end = (places[word] for word in boundaries)
    indices = [
        [begin, *(places.setdefault(word, len(places)) for word in sentence), end]
        for sentence in sentences
    ]
    return list(places), indices


def pad_words(words: Sequence[str], alphabet: Alphabet) -> Tensor:
    """U words -> (U, C) int64 character ids, filled up with the alphabet's padding character."""
    limit = alphabet.max_characters
    padding = [alphabet.padding] * limit
    rows = ((alphabet.encode(word) + padding)[:limit] for word in words)
    # Seven times as fast as `torch.tensor` of lists.
    ids = np.fromiter(chain.from_iterable(rows), np.int64, count=len(words) * limit)
    return torch.from_numpy(ids).view(len(words), limit)


def _check_fit(config: BiLMConfig, alphabet: Alphabet | None, words: InputWords | None) -> None:
    """Raises ConfigError if the word lists are not those the network was built for."""
    for name, wanted, given in (
        ("alphabet", config.characters, alphabet),
        ("word list", config.words, words),
    ):
        if (wanted is None) != (given is None):
            problem = (
                "is missing" if given is None else "is given to a network that does not read it"
            )
            raise ConfigError(f"{name}: {problem}")
    if config.characters and alphabet:
        _check_alphabet(config.characters, alphabet)
    if config.words and words and len(words.words) != config.words.num_words:
        raise ConfigError(
            f"word list: {len(words.words)} words, the network's table has {config.words.num_words}"
        )


def _check_softmax(
    config: BiLMConfig, softmax: LMSoftmax | None, vocabulary: Vocabulary | None
) -> None:
    """Raises ConfigError if the softmax is not the one configured, or its words are not known."""
    rows = None if softmax is None else len(softmax.bias)
    if rows != config.softmax_words:
        raise ConfigError(f"softmax: has {rows} words, the configuration {config.softmax_words}")
    if rows is not None and (vocabulary is None or len(vocabulary.words) != rows):
        known = 0 if vocabulary is None else len(vocabulary.words)
        raise ConfigError(f"vocabulary: {known} words, the softmax has {rows}; give its words")


def _check_alphabet(config: CharCNNConfig, alphabet: Alphabet) -> None:
    """Raises ConfigError if words would be cut or numbered otherwise than the network expects."""
    if alphabet.max_characters != config.max_characters:
        raise ConfigError(
            f"alphabet: max_characters is {alphabet.max_characters}, "
            f"the network's is {config.max_characters}"
        )
    if alphabet.num_characters > config.num_characters:  # a table may have rows that no word uses
        raise ConfigError(
            f"alphabet: ids go up to {alphabet.num_characters}, "
            f"the network's table to {config.num_characters}"
        )
