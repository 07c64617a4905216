"""Small random models and files for the tests of checkpoint formats."""

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from elmokit.characters import Alphabet, ByteAlphabet, UnicodeAlphabet
from elmokit.checkpoints import Checkpoint, layout, read
from elmokit.config import BiLMConfig, Card, CharCNNConfig, LSTMConfig, WordEmbeddingConfig
from elmokit.errors import CheckpointError
from elmokit.vocabulary import InputWords, Vocabulary

BILM_MODELS = ("A2_bilm_skip", "A2_bilm_noskip", "A3_token_lm")
MANYLANGS_MODELS = (
    "B_efml_char_cnn",
    "B_efml_lstm_encoder",
    "B_efml_word_char_cnn",
    "B_efml_word_only",
)
TENSORFLOW_MODELS = ("E_training_char", "E_training_word")
MODELS = BILM_MODELS + MANYLANGS_MODELS + TENSORFLOW_MODELS
"""Folders of tests/fixtures that hold a model."""

_SMALL = st.integers(1, 4)


@st.composite
def cnn_configs(draw: st.DrawFn, num_characters: st.SearchStrategy[int]) -> CharCNNConfig:
    widths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    return CharCNNConfig(
        num_characters=draw(num_characters),
        max_characters=draw(st.integers(5, 50)),
        embedding_dim=draw(_SMALL),
        filters=tuple((width, draw(_SMALL)) for width in widths),
        activation=draw(st.sampled_from(["relu", "tanh"])),
        num_highway=draw(st.integers(0, 2)),
    )


@st.composite
def lstm_configs(draw: st.DrawFn, forget_bias: st.SearchStrategy[float]) -> LSTMConfig:
    width, projection = draw(_SMALL), draw(st.booleans())
    clips = st.sampled_from([None, 0.5, 3.0])
    return LSTMConfig(
        num_layers=draw(st.integers(1, 3)),
        cell_dim=draw(_SMALL) if projection else width,
        projection_dim=width,
        cell_clip=draw(clips),
        projection_clip=draw(clips),
        skip_connections=draw(st.booleans()),
        recurrent_projection=projection,
        forget_bias=draw(forget_bias),
    )


@st.composite
def bilm_checkpoints(draw: st.DrawFn) -> Checkpoint:
    """Models that bilm-tf's format can express."""
    lstm = draw(lstm_configs(st.just(1.0)))
    if draw(st.booleans()):
        words = WordEmbeddingConfig(
            num_words=draw(st.integers(3, 6)), embedding_dim=lstm.projection_dim
        )
        config = BiLMConfig(lstm=lstm, words=words, token_projection=False)
    else:
        cnn = draw(cnn_configs(st.just(261)))
        projection = cnn.num_filters != lstm.projection_dim or draw(st.booleans())
        config = BiLMConfig(lstm=lstm, characters=cnn, token_projection=projection)
    return random_checkpoint(config, draw(st.integers(0, 9)))


@st.composite
def checkpoints(draw: st.DrawFn) -> Checkpoint:
    """Models of every kind."""
    kinds = draw(st.sampled_from(["characters", "words", "both"]))
    if draw(st.booleans()):
        lstm = draw(lstm_configs(st.sampled_from([0.0, 1.0])))
    else:
        lstm = LSTMConfig(
            kind="stacked", num_layers=2, cell_dim=draw(_SMALL), projection_dim=draw(_SMALL)
        )
    config = BiLMConfig(
        lstm=lstm,
        characters=draw(cnn_configs(st.sampled_from([9, 261]))) if kinds != "words" else None,
        words=WordEmbeddingConfig(num_words=5, embedding_dim=2) if kinds != "characters" else None,
    )
    return random_checkpoint(config, draw(st.integers(0, 9)))


def random_checkpoint(config: BiLMConfig, seed: int = 0) -> Checkpoint:
    """A model of random numbers, with an initial state of zeros."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {
        name: torch.randn(shape, generator=generator)
        for name, shape in layout.shapes(config).items()
    }
    for name in (f"{layout.CHARACTERS}.embedding.weight", layout.WORDS):
        if name in tensors:
            tensors[name][0] = 0
    words = word_list(config.words.num_words) if config.words else None
    return Checkpoint(
        config=config,
        tensors=tensors | layout.zero_state(config.lstm),
        alphabet=alphabet_of(config.characters) if config.characters else None,
        words=InputWords(words=words) if words else None,
        vocabulary=Vocabulary(words or word_list(7)),
        card=Card(name="random", language="none"),
    )


def alphabet_of(cnn: CharCNNConfig) -> Alphabet:
    if cnn.num_characters == 261:
        return ByteAlphabet(max_characters=cnn.max_characters)
    return UnicodeAlphabet(
        characters={"\u3000": 1, "é": 2, "\U0001f600": 3},
        begin_word=4,
        end_word=5,
        unknown=6,
        padding=7,
        boundaries={"<bos>": 8, "<eos>": 9},
        num_characters=9,
        max_characters=cnn.max_characters,
    )


def word_list(number: int) -> tuple[str, ...]:
    return ("<S>", "</S>", "<UNK>", *(f"wörd{i}" for i in range(number - 3)))


def small_checkpoint(**changes: Any) -> Checkpoint:
    """A small model of characters that every test may take as a start."""
    cnn = CharCNNConfig(
        num_characters=261, embedding_dim=3, filters=((1, 2), (2, 3)), num_highway=1
    )
    lstm = LSTMConfig(num_layers=2, cell_dim=6, projection_dim=4, forget_bias=1.0)
    return random_checkpoint(BiLMConfig(**{"lstm": lstm, "characters": cnn} | changes))


def copy_model(source: Path, target: Path) -> Path:
    """Copies the files of a fixture's model, without the numbers computed with it."""
    target.mkdir(parents=True, exist_ok=True)
    patterns = ["*.hdf5", "*.pkl", "*.dic", "*.json", "*.txt"]
    if (source / "checkpoint").is_file():
        patterns = ["checkpoint", "model.ckpt-*", "options.json", "vocab.txt"]
    for path in source.iterdir():
        if any(map(path.match, patterns)) and path.name != "ids.json":
            shutil.copyfile(path, target / path.name)
    return target


def edit_json(path: Path, **changes: Any) -> None:
    """Changes fields of a JSON file; `block__field` names a nested one, None removes it."""
    data = json.loads(path.read_text())
    for key, value in changes.items():
        *blocks, name = key.split("__")
        place = data
        for block in blocks:
            place = place[block]
        place.pop(name, None)
        if value is not None:
            place[name] = value
    path.write_text(json.dumps(data))


def hdf5_arrays(path: Path) -> dict[str, np.ndarray]:
    """All datasets of an HDF5 file by their full names."""
    arrays: dict[str, np.ndarray] = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: arrays.update(
                {name: item[()]} if isinstance(item, h5py.Dataset) else {}
            )
        )
    return arrays


def write_hdf5(path: Path, arrays: Mapping[str, Any]) -> None:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array


def edit_hdf5(path: Path, **changes: Any) -> None:
    """Replaces datasets (`__` stands for a slash), or removes those given as None."""
    with h5py.File(path, "r+") as file:
        for key, array in changes.items():
            name = key.replace("__", "/")
            if name in file:
                del file[name]
            if array is not None:
                file[name] = array


def assert_equal(first: Checkpoint, second: Checkpoint, *, vocabulary: bool = True) -> None:
    """Checks two models for equality, their tensors bit by bit."""
    assert first.config == second.config
    assert first.alphabet == second.alphabet
    assert first.words == second.words
    if vocabulary:
        assert first.vocabulary == second.vocabulary
    assert first.tensors.keys() == second.tensors.keys()
    for name, tensor in first.tensors.items():
        assert tensor.dtype == second.tensors[name].dtype == torch.float32
        assert tensor.numpy().tobytes() == second.tensors[name].numpy().tobytes(), name


@contextlib.contextmanager
def one_line(*parts: object) -> Iterator[pytest.ExceptionInfo[CheckpointError]]:
    """Expects a CheckpointError whose message is one line with these parts in it."""
    with pytest.raises(CheckpointError) as caught:
        yield caught
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert str(part) in message


def complaint(directory: Path) -> str:
    """What reading a model complains of; nothing if it can be read."""
    try:
        read(directory)
    except CheckpointError as error:
        return str(error)
    return ""
