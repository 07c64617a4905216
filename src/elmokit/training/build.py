"""The model that a run begins from: a new one, or a trained one with its softmax or a new one."""

import dataclasses

import numpy as np
import torch

from elmokit.characters import Alphabet, ByteAlphabet, UnicodeAlphabet
from elmokit.config import BiLMConfig, Card, CharCNNConfig, LSTMConfig, WordEmbeddingConfig
from elmokit.errors import ConfigError
from elmokit.model import BiLM
from elmokit.nn import BiLMNetwork, LMSoftmax
from elmokit.training.config import ModelSection, TrainConfig
from elmokit.training.corpus import Corpus
from elmokit.training.initialize import initialize, initialize_softmax
from elmokit.vocabulary import BEGIN, END, InputWords, Vocabulary

_FORGET_BIAS = 1.0
"""As in bilm-tf, so that a trained model can be written in its format."""


def build(config: TrainConfig, corpus: Corpus, source: BiLM | None) -> BiLM:
    """Makes the model of a run, the same one for the same seed.

    Args:
        config: The run.
        corpus: Its text; a new softmax starts from its word frequencies, an alphabet of Unicode
            characters is taken from its words.
        source: The trained model of `config.start`, which is copied and left as it is.

    Raises:
        ConfigError: The sections contradict each other.
    """
    torch.manual_seed(config.seed)
    if source is None:
        return _new_model(config, corpus)
    if config.start is not None and config.start.softmax == "keep":
        return BiLM.from_checkpoint(source.to_checkpoint()).train()
    network = BiLM.from_checkpoint(source.to_checkpoint()).network
    return _with_softmax(network, config, corpus, source.alphabet, source.words, source.card)


def vocabulary_of(config: TrainConfig, source: BiLM | None) -> Vocabulary | None:
    """Returns the words that a trained model goes on to predict; None if the run has its own list.

    Raises:
        ConfigError: The model has no softmax to keep.
    """
    if source is None or config.start is None or config.start.softmax == "new":
        return None
    if source.softmax is None:
        raise ConfigError(
            f"start.softmax: {config.start.model} has no softmax to keep; set it to new, and "
            "data.vocabulary to a word list"
        )
    return source.vocabulary


def _new_model(config: TrainConfig, corpus: Corpus) -> BiLM:
    model = config.model
    alphabet = _alphabet(model, corpus)
    words = InputWords(words=tuple(corpus.vocabulary.words)) if model.input == "words" else None
    characters = (
        CharCNNConfig(
            num_characters=alphabet.num_characters,
            max_characters=alphabet.max_characters,
            embedding_dim=model.character_dim,
            filters=model.filters,
            activation=model.activation,
            num_highway=model.num_highway,
        )
        if alphabet
        else None
    )
    network = BiLMNetwork(
        BiLMConfig(
            lstm=LSTMConfig(
                num_layers=model.num_layers,
                cell_dim=model.cell_dim,
                projection_dim=model.projection_dim,
                cell_clip=model.cell_clip,
                projection_clip=model.projection_clip,
                skip_connections=model.skip_connections,
                recurrent_projection=model.cell_dim != model.projection_dim,
                forget_bias=_FORGET_BIAS,
            ),
            characters=characters,
            words=WordEmbeddingConfig(
                num_words=len(words.words), embedding_dim=model.projection_dim
            )
            if words
            else None,
            # bilm-tf leaves the projection out where it would change no width.
            token_projection=characters is not None
            and characters.num_filters != model.projection_dim,
        )
    )
    initialize(network)
    card = Card(
        tokenizer="white space, in text that was cut into tokens before",
        provenance=f"trained on {corpus.describe()}",
    )
    return _with_softmax(network, config, corpus, alphabet, words, card)


def _with_softmax(
    network: BiLMNetwork,
    config: TrainConfig,
    corpus: Corpus,
    alphabet: Alphabet | None,
    words: InputWords | None,
    card: Card,
) -> BiLM:
    num_words = len(corpus.vocabulary.words)
    network.config = dataclasses.replace(network.config, softmax_words=num_words)
    softmax = LMSoftmax(num_words, network.config.lstm.projection_dim)
    frequencies = config.objective.softmax_init == "frequency"
    initialize_softmax(softmax, torch.from_numpy(corpus.counts) if frequencies else None)
    return BiLM(
        network,
        alphabet=alphabet,
        words=words,
        softmax=softmax,
        vocabulary=corpus.vocabulary,
        card=card,
    ).train()


def _alphabet(model: ModelSection, corpus: Corpus) -> Alphabet | None:
    if model.input == "words":
        return None
    if model.input == "bytes":
        return ByteAlphabet(max_characters=model.max_characters)
    return _unicode_alphabet(model, corpus)


def _unicode_alphabet(model: ModelSection, corpus: Corpus) -> UnicodeAlphabet:
    """Lists the characters of a text that are frequent enough, the most frequent first."""
    counts: dict[str, int] = {}
    for word, count in zip(corpus.types, np.asarray(corpus.type_counts).tolist(), strict=True):
        if word not in (BEGIN, END):
            for character in word:
                counts[character] = counts.get(character, 0) + count
    kept = [c for c, n in counts.items() if n >= model.min_character_count]
    if not kept:
        raise ConfigError(
            f"model.min_character_count: no character occurs {model.min_character_count} times; "
            "lower it"
        )
    kept.sort(key=lambda character: (-counts[character], character))
    marks = ("padding", "begin_word", "end_word", "unknown", BEGIN, END)
    ids = {name: number for number, name in enumerate(marks, start=1)}
    first = len(ids) + 1
    return UnicodeAlphabet(
        characters={character: number for number, character in enumerate(kept, start=first)},
        begin_word=ids["begin_word"],
        end_word=ids["end_word"],
        unknown=ids["unknown"],
        padding=ids["padding"],
        boundaries={BEGIN: ids[BEGIN], END: ids[END]},
        num_characters=len(ids) + len(kept),
        max_characters=model.max_characters,
    )
