"""The model that a run begins from: a new one, or a trained one with its softmax or a new one."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from elmokit.characters import Alphabet, ByteAlphabet, UnicodeAlphabet, alphabet_from_dict
from elmokit.checkpoints import Checkpoint
from elmokit.config import BiLMConfig, Card, WordEmbeddingConfig, parse
from elmokit.errors import ConfigError
from elmokit.model import BiLM
from elmokit.nn import BiLMNetwork, LMSoftmax
from elmokit.training.config import ModelSection, TrainConfig
from elmokit.training.corpus import Corpus
from elmokit.training.initialize import initialize, initialize_softmax
from elmokit.vocabulary import BEGIN, END, InputWords, Vocabulary

_MARKS = ("padding", "begin_word", "end_word", "unknown", BEGIN, END)
"""What an alphabet of Unicode characters has before the characters, in the order of the ids."""


def build(config: TrainConfig, corpus: Corpus, source: BiLM | None) -> BiLM:
    """Makes the model of a run, the same one for the same seed.

    Args:
        config: The run.
        corpus: Its text; a new softmax starts from its word frequencies, an alphabet of Unicode
            characters is taken from its words.
        source: The trained model of `config.start`; its layers become those of the run's model.

    Raises:
        ConfigError: The sections contradict each other.
    """
    torch.manual_seed(config.seed)
    if source is None:
        bilm = _new_model(config, corpus)
    elif config.start is not None and config.start.softmax == "keep":
        bilm = source
    else:
        bilm = _with_softmax(
            source.network, config, corpus, source.alphabet, source.words, source.card
        )
    before = f"{bilm.card.provenance}; then " if bilm.card.provenance else ""
    return bilm.with_card(provenance=f"{before}trained on {corpus.describe()}").train()


def check_trainable(name: str, source: BiLM) -> None:
    """Refuses a model to start from that cannot learn.

    Raises:
        ConfigError: Its LSTM is a stacked one, which has read each word from the other side before
            it is asked for it.
    """
    if not source.network.has_state:
        raise ConfigError(
            f"start.model: {name} has a stacked LSTM, which reads both directions in every layer, "
            "so it can embed but neither learn, score nor predict words; start from a model of "
            "kind projected"
        )


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


def structure(bilm: BiLM) -> dict[str, Any]:
    """Returns, as plain values, what makes a model besides its tensors and the words it predicts.

    A checkpoint of a run holds it, so that the run goes on without the model it started from.
    """
    return {
        "config": bilm.config.to_dict(),
        "alphabet": bilm.alphabet.to_dict() if bilm.alphabet else None,
        "words": bilm.words.to_dict() if bilm.words else None,
        "card": bilm.card.to_dict(),
    }


def rebuild(
    values: Mapping[str, Any], tensors: Mapping[str, Tensor], vocabulary: Vocabulary
) -> BiLM:
    """Makes a model from its `structure`, its tensors, and the words it predicts."""
    alphabet, words = values["alphabet"], values["words"]
    return BiLM.from_checkpoint(
        Checkpoint(
            config=BiLMConfig.from_dict(values["config"]),
            tensors={name.removeprefix("network."): tensor for name, tensor in tensors.items()},
            alphabet=alphabet_from_dict(alphabet) if alphabet else None,
            words=parse(InputWords, words, "words") if words else None,
            vocabulary=vocabulary,
            card=Card.from_dict(values["card"]),
        )
    ).train()


def _new_model(config: TrainConfig, corpus: Corpus) -> BiLM:
    model = config.model
    alphabet = _alphabet(model, corpus)
    characters = model.char_cnn(alphabet.num_characters) if alphabet else None
    words, table = None, None
    if model.input == "words":
        words = InputWords(words=tuple(corpus.vocabulary.words))
        table = WordEmbeddingConfig(num_words=len(words.words), embedding_dim=model.projection_dim)
    network = BiLMNetwork(
        BiLMConfig(
            lstm=model.lstm(),
            characters=characters,
            words=table,
            # bilm-tf leaves the projection out where it would change no width.
            token_projection=characters is not None
            and characters.num_filters != model.projection_dim,
        )
    )
    initialize(network)
    card = Card(tokenizer="white space, in text that was cut into tokens before")
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
    )


def _alphabet(model: ModelSection, corpus: Corpus) -> Alphabet | None:
    if model.input == "words":
        return None
    if model.input == "bytes":
        return ByteAlphabet(max_characters=model.max_characters)
    return _unicode_alphabet(model, corpus)


def _unicode_alphabet(model: ModelSection, corpus: Corpus) -> UnicodeAlphabet:
    """Lists the characters of a text that are frequent enough, the most frequent first."""
    counts: Counter[str] = Counter()
    for word, count in zip(corpus.types, corpus.type_counts.tolist(), strict=True):
        if word not in (BEGIN, END):
            for character in word:
                counts[character] += count
    kept = [c for c, count in counts.items() if count >= model.min_character_count]
    if not kept:
        raise ConfigError(
            f"model.min_character_count: no character occurs {model.min_character_count} times, "
            f"the most frequent one does {max(counts.values(), default=0)} times; lower it"
        )
    kept.sort(key=lambda character: (-counts[character], character))
    ids = {name: number for number, name in enumerate(_MARKS, start=1)}
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
