import dataclasses
import json
import tempfile
from pathlib import Path

import pytest
import safetensors.torch
import torch
from checkpoint_samples import (
    alphabet_of,
    assert_equal,
    checkpoints,
    edit_json,
    one_line,
    small_checkpoint,
    word_list,
)
from hypothesis import given, settings

from elmokit.checkpoints import read, write
from elmokit.config import ActivationRanges, Card, CharCNNConfig, LSTMConfig, WordEmbeddingConfig
from elmokit.errors import CheckpointError, ConfigError
from elmokit.vocabulary import InputWords, Vocabulary


@pytest.fixture
def saved(tmp_path):
    write(small_checkpoint(), tmp_path / "model")
    return tmp_path / "model"


def edit_tensors(directory, **changes):
    """Replaces tensors by the last part of their name, or removes those given as None."""
    path = directory / "model.safetensors"
    tensors = safetensors.torch.load(path.read_bytes())
    for name, tensor in changes.items():
        (full,) = [key for key in tensors if key.endswith(name)] or [name]
        tensors.pop(full, None)
        if tensor is not None:
            tensors[full] = tensor
    safetensors.torch.save_file(tensors, path)


@settings(max_examples=25)
@given(checkpoint=checkpoints())
def test_round_trip_is_exact(checkpoint):
    with tempfile.TemporaryDirectory() as place:
        write(checkpoint, Path(place, "model"))
        copy = read(Path(place, "model"))
    assert_equal(checkpoint, copy)
    assert copy.card == checkpoint.card


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"words": WordEmbeddingConfig(num_words=7, embedding_dim=2)},
        {"lstm": LSTMConfig(kind="stacked", cell_dim=3, projection_dim=4)},
    ],
)
def test_softmax_is_kept_to_the_bit(tmp_path, changes):
    checkpoint = small_checkpoint(softmax_words=7, **changes)
    assert checkpoint.tensors["softmax.weight"].shape == (7, 4)
    write(checkpoint, tmp_path / "model")
    assert_equal(checkpoint, read(tmp_path / "model"))


@pytest.mark.parametrize(("words", "found"), [(None, 0), (word_list(6), 6), (word_list(8), 8)])
def test_softmax_without_its_words_is_not_written(tmp_path, words, found):
    vocabulary = None if words is None else Vocabulary(words)
    checkpoint = dataclasses.replace(small_checkpoint(softmax_words=7), vocabulary=vocabulary)
    with one_line(f"its vocabulary has {found} words", "softmax_words 7"):
        write(checkpoint, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_softmax_without_its_words_is_not_read(tmp_path):
    write(small_checkpoint(softmax_words=7), tmp_path / "model")
    path = tmp_path / "model/vocab.txt"
    path.write_text("<S>\n</S>\n<UNK>\n")
    with one_line(f"{path} has 3 words", "config.json has softmax_words 7"):
        read(tmp_path / "model")
    path.unlink()
    with one_line("native lacks vocab.txt"):
        read(tmp_path / "model")


def test_calibrated_state_and_whole_card_are_kept(tmp_path):
    card = Card(
        name="n", language="l", tokenizer="t", case="c", licence="x", state="carry", notes="é"
    )
    checkpoint = dataclasses.replace(small_checkpoint(), card=card)
    checkpoint.tensors["initial_h"].fill_(0.25)
    write(checkpoint, tmp_path / "model")
    copy = read(tmp_path / "model")
    assert copy.card == card
    assert copy.tensors["initial_h"].eq(0.25).all()


def test_files_hold_what_the_format_says(saved):
    assert {path.name for path in saved.iterdir()} == {
        "config.json",
        "model.safetensors",
        "characters.json",
        "vocab.txt",
    }
    config = json.loads((saved / "config.json").read_text())
    assert config["schema_version"] == 1
    assert config["card"]["name"] == "random"
    assert config["lstm"]["cell_dim"] == 6
    assert json.loads((saved / "characters.json").read_text())["alphabet"] == "bytes"


ACTIVATIONS = ActivationRanges(
    weights="0123", ranges={"token_encoder.projection": (-1.5, 0.0, 0.25)}
)


def test_ranges_of_activations_are_a_file_of_their_own(saved, tmp_path):
    write(dataclasses.replace(small_checkpoint(), activations=ACTIVATIONS), tmp_path / "measured")
    assert read(tmp_path / "measured").activations == ACTIVATIONS
    # Whoever does not know of it finds the same files as ever.
    (tmp_path / "measured" / "activations.json").unlink()
    files = sorted(path.name for path in saved.iterdir())
    assert files == sorted(path.name for path in (tmp_path / "measured").iterdir())
    assert all(
        (saved / name).read_bytes() == (tmp_path / "measured" / name).read_bytes() for name in files
    )
    assert read(tmp_path / "measured").activations is None


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("{", ["not complete JSON"]),
        ("{}", ["field 'weights' is missing"]),
        ('{"weights": "0", "ranges": {"x": [0, 1]}}', ["ranges: 'x'", "expected 3 values"]),
        ('{"weights": "0", "ranges": {"x": [1, 2, 1]}}', ["'x': 1.0 to 2.0", "without this file"]),
        ('{"weights": "0", "ranges": {"x": [0, Infinity, 1]}}', ["'x'", "finite"]),
        ('{"weights": "0", "ranges": {"x": [0, 1, NaN]}}', ["'x'", "finite"]),
    ],
)
def test_damaged_ranges_are_told(saved, content, parts):
    (saved / "activations.json").write_text(content)
    with pytest.raises((CheckpointError, ConfigError)) as caught:
        read(saved)
    assert "\n" not in str(caught.value)
    for part in (saved / "activations.json", *parts):
        assert str(part) in str(caught.value)


def test_device_and_layout_of_tensors_are_not_stored(tmp_path):
    checkpoint = small_checkpoint()
    turned = {
        name: t.t().contiguous().t() if t.ndim == 2 else t for name, t in checkpoint.tensors.items()
    }
    write(dataclasses.replace(checkpoint, tensors=turned), tmp_path / "model")
    assert_equal(checkpoint, read(tmp_path / "model"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floats_become_float32(saved, dtype):
    edit_tensors(saved, **{"projection.bias": torch.tensor([1.5, 2, 3, 4], dtype=dtype)})
    tensor = read(saved).tensors["token_encoder.projection.bias"]
    assert tensor.dtype == torch.float32
    assert tensor.tolist() == [1.5, 2, 3, 4]


def test_all_tensor_problems_are_told_at_once(saved):
    edit_tensors(
        saved,
        **{
            "projection.bias": torch.tensor([1, 2, 3, 4]),
            "initial_h": None,
            "initial_c": torch.zeros(1),
            "more": torch.zeros(2),
        },
    )
    with one_line(
        saved / "model.safetensors",
        "config.json",
        "initial_c has shape (1,) instead of (2, 2, 6)",
        "initial_h (2, 2, 4) is missing",
        "more (2,) is unexpected",
        "projection.bias holds int64",
    ):
        read(saved)


def test_newer_schema_is_refused(saved):
    edit_json(saved / "config.json", schema_version=2)
    with one_line(saved / "config.json", "schema_version: 2 is newer", "upgrade"):
        read(saved)


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"schema_version": "1"}, ["schema_version", "expected int"]),
        ({"lstm__cel_dim": 3}, ["lstm", "cel_dim", "did you mean 'cell_dim'"]),
        ({"lstm__cell_dim": "six"}, ["lstm: cell_dim", "'six'"]),
        ({"lstm__cell_dim": 7}, ["model.safetensors", "config.json", "(4, 7)"]),
        ({"lstm__num_layers": 10**12}, ["config.json", "num_layers: 1000000000000"]),
        ({"lstm": None}, ["field 'lstm' is missing"]),
        ({"card__state": "sometimes"}, ["card: state", "'sometimes'"]),
        ({"characters": None}, ["a model needs at least one"]),
        ({"characters__max_characters": 20}, ["characters.json", "50", "20"]),
        ({"characters__num_characters": 100}, ["model.safetensors", "(262, 3)", "(101, 3)"]),
    ],
)
def test_wrong_configuration_names_file_and_field(saved, changes, parts):
    edit_json(saved / "config.json", **changes)
    with one_line(saved, *parts):
        read(saved)


def test_alphabet_of_another_model_is_told(saved):
    alphabet = dataclasses.replace(alphabet_of(CharCNNConfig(num_characters=9)), num_characters=300)
    (saved / "characters.json").write_text(json.dumps(alphabet.to_dict()))
    with one_line(saved / "characters.json", "300", "num_characters 261"):
        read(saved)


def test_configuration_of_another_program_is_no_model(saved):
    edit_json(saved / "config.json", schema_version=None, architectures=["BertModel"])
    with one_line("native lacks the field schema_version in config.json"):
        read(saved)


def test_word_list_of_another_model_is_told(tmp_path):
    words = WordEmbeddingConfig(num_words=5, embedding_dim=2)
    write(small_checkpoint(words=words), tmp_path / "model")
    edit_json(tmp_path / "model/words.json", words=["<S>", "</S>", "<UNK>"])
    with one_line("words.json has 3 words", "config.json has num_words 5"):
        read(tmp_path / "model")
    edit_json(tmp_path / "model/words.json", words=["a", "b", "c", "d", "e"])
    with one_line("words.json", "'<S>'"):
        read(tmp_path / "model")


def test_input_words_may_be_any_strings(tmp_path):
    strange = ("<S>", "</S>", "<UNK>", "a\nb", "\ud800 \u2028")
    checkpoint = small_checkpoint(words=WordEmbeddingConfig(num_words=5, embedding_dim=2))
    checkpoint = dataclasses.replace(checkpoint, words=InputWords(words=strange, max_characters=9))
    write(checkpoint, tmp_path / "model")
    assert read(tmp_path / "model").words == checkpoint.words


def test_training_vocabulary_is_kept_line_by_line(tmp_path):
    words = ("\ufeff", " ", "\u3000a\u2028", "", "\r", "!!!MAXTERMID", "a", "a")
    write(dataclasses.replace(small_checkpoint(), vocabulary=Vocabulary(words)), tmp_path / "model")
    assert read(tmp_path / "model").vocabulary == Vocabulary(words)


@pytest.mark.parametrize("word", ["a\nb", "\ud800"])
def test_training_word_that_is_no_line_is_refused(tmp_path, word):
    checkpoint = dataclasses.replace(small_checkpoint(), vocabulary=Vocabulary(("a", word)))
    with one_line("vocab.txt"):
        write(checkpoint, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_vocabulary_that_is_not_utf_8_names_line_and_byte(saved):
    (saved / "vocab.txt").write_bytes(b"one\ntwo\nthr\xe9e\n")
    with one_line(saved / "vocab.txt", "line 3", "byte 11", "0xe9"):
        read(saved)


def test_a_checkpoint_that_contradicts_itself_is_not_written(tmp_path):
    checkpoint = small_checkpoint()
    del checkpoint.tensors["initial_h"]
    with one_line("initial_h (2, 2, 4) is missing"):
        write(checkpoint, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
