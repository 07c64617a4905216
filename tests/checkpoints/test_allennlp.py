import dataclasses
import json
import logging
import tempfile
from pathlib import Path

import numpy as np
import pytest
from checkpoint_samples import (
    BILM_MODELS,
    assert_equal,
    bilm_checkpoints,
    edit_hdf5,
    edit_json,
    hdf5_arrays,
    one_line,
    random_checkpoint,
    small_checkpoint,
    word_list,
    write_hdf5,
)
from hypothesis import given, settings

from elmokit.checkpoints import convert, describe, layout, read, write
from elmokit.config import BiLMConfig, Card, CharCNNConfig, LSTMConfig, WordEmbeddingConfig
from elmokit.vocabulary import InputWords, Vocabulary

FORWARD = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"


@pytest.fixture
def written(tmp_path):
    """Writes a checkpoint in this format and returns its directory."""

    def write_model(checkpoint):
        write(checkpoint, tmp_path / "written", format="allennlp")
        return tmp_path / "written"

    return write_model


# What the numbers become


def test_tensors_are_turned_as_the_reference_says(skip):
    arrays, checkpoint = hdf5_arrays(skip / "weights.hdf5"), read(skip)
    tensors = {name: tensor.numpy() for name, tensor in checkpoint.tensors.items()}
    width, cell = checkpoint.config.lstm.projection_dim, checkpoint.config.lstm.cell_dim
    characters = layout.CHARACTERS
    np.testing.assert_array_equal(
        tensors[f"{characters}.embedding.weight"][1:], arrays["char_embed"]
    )
    np.testing.assert_array_equal(
        tensors[f"{characters}.convolutions.2.weight"][:, :, 1].T, arrays["CNN/W_cnn_2"][0, 1]
    )
    highway = tensors[f"{characters}.highways.0.weight"]
    np.testing.assert_array_equal(highway[64:], -arrays["CNN_high_0/W_carry"].T)
    np.testing.assert_array_equal(highway[:64], arrays["CNN_high_0/W_transform"].T)
    forward, kernel = layout.layer("forward", 0), arrays[f"{FORWARD}/W_0"]
    forget = slice(cell, 2 * cell)
    np.testing.assert_array_equal(
        tensors[f"{forward}.input_weight"][forget], kernel[:width, 2 * cell : 3 * cell].T
    )
    np.testing.assert_array_equal(
        tensors[f"{forward}.recurrent_weight"][2 * cell : 3 * cell], kernel[width:, forget].T
    )
    # The forget bias stays what the file says; 1.0 is in the configuration.
    np.testing.assert_array_equal(
        tensors[f"{forward}.bias"][forget], arrays[f"{FORWARD}/B"][2 * cell : 3 * cell]
    )
    assert checkpoint.config.lstm.forget_bias == 1.0
    backward = arrays["RNN_1/RNN/MultiRNNCell/Cell2/LSTMCell/W_P_0"]
    np.testing.assert_array_equal(tensors[f"{layout.layer('backward', 2)}.projection"], backward.T)


def test_configuration_is_that_of_the_options(skip):
    config = read(skip).config
    assert config.lstm == LSTMConfig(
        num_layers=3, cell_dim=96, projection_dim=16, cell_clip=3, projection_clip=3, forget_bias=1
    )
    assert config.characters == CharCNNConfig(
        num_characters=261,
        embedding_dim=12,
        filters=((1, 8), (2, 8), (3, 16), (4, 16), (5, 16)),
        num_highway=1,
    )
    assert config.words is None
    assert config.token_projection


# Round trips


@pytest.mark.parametrize("folder", BILM_MODELS)
def test_published_files_survive_the_native_format_bit_by_bit(fixtures, tmp_path, folder):
    convert(fixtures / folder, tmp_path / "native")
    convert(tmp_path / "native", tmp_path / "back", to="allennlp")
    before, after = (
        hdf5_arrays(d / "weights.hdf5") for d in (fixtures / folder, tmp_path / "back")
    )
    assert before.keys() == after.keys()
    for name, array in before.items():
        assert array.dtype == after[name].dtype
        assert array.shape == after[name].shape
        assert array.tobytes() == after[name].tobytes(), name
    before, after = (
        json.loads((d / "options.json").read_text()) for d in (fixtures / folder, tmp_path / "back")
    )
    assert before == after
    assert_equal(read(fixtures / folder), read(tmp_path / "back"))


@settings(max_examples=25)
@given(checkpoint=bilm_checkpoints())
def test_round_trip_is_exact(checkpoint):
    with tempfile.TemporaryDirectory() as place:
        write(checkpoint, Path(place, "model"), format="allennlp")
        assert_equal(checkpoint, read(Path(place, "model")))


def test_262_characters_are_written(written):
    options = json.loads((written(small_checkpoint()) / "options.json").read_text())
    assert options["char_cnn"]["n_characters"] == 262
    assert options["lstm"]["cell_clip"] == 3
    assert options["lstm"]["use_skip_connections"] is True


# Weights


def test_options_of_another_model_name_every_tensor(skip):
    edit_json(skip / "options.json", lstm__n_layers=2, char_cnn__n_highway=2)
    with one_line(
        skip / "weights.hdf5",
        "do not fit options.json",
        "CNN_high_1/W_carry (64, 64) is missing",
        "RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/B (384,) is unexpected",
    ):
        read(skip)


def test_numbers_that_are_not_finite_are_logged(skip, caplog):
    edit_hdf5(skip / "weights.hdf5", CNN_proj__b_proj=np.full(16, np.inf, "f"))
    with caplog.at_level(logging.WARNING):
        read(skip)
    assert f"not all numbers are finite in {layout.PROJECTION}.bias" in caplog.text


def test_projection_of_a_square_model_is_read_if_it_is_there(tmp_path):
    lstm = LSTMConfig(num_layers=1, cell_dim=4, projection_dim=4, forget_bias=1.0)
    cnn = CharCNNConfig(num_characters=261, embedding_dim=2, filters=((1, 4),), num_highway=0)
    with_both = small_checkpoint(lstm=lstm, characters=cnn)
    write(with_both, tmp_path / "a", format="allennlp")
    assert_equal(with_both, read(tmp_path / "a"))
    plain = dataclasses.replace(lstm, recurrent_projection=False)
    with_none = small_checkpoint(lstm=plain, characters=cnn, token_projection=False)
    write(with_none, tmp_path / "b", format="allennlp")
    assert not any(
        "CNN_proj" in name or "W_P_0" in name for name in hdf5_arrays(tmp_path / "b/weights.hdf5")
    )
    assert_equal(with_none, read(tmp_path / "b"))


def test_half_of_a_projection_is_told(skip):
    edit_hdf5(skip / "weights.hdf5", **{f"{FORWARD}/W_P_0": None, "CNN_proj/b_proj": None})
    with one_line(f"{FORWARD}/W_P_0 (96, 16) is missing", "CNN_proj/b_proj (16,) is missing"):
        read(skip)


def test_one_layer_as_bilm_tf_dumps_it(tmp_path):
    checkpoint = small_checkpoint(
        lstm=LSTMConfig(num_layers=1, cell_dim=6, projection_dim=4, forget_bias=1)
    )
    write(checkpoint, tmp_path / "model", format="allennlp")
    path = tmp_path / "model/weights.hdf5"
    arrays = hdf5_arrays(path)
    write_hdf5(path, {name.replace("MultiRNNCell/Cell0/", ""): a for name, a in arrays.items()})
    assert "RNN_1/RNN/LSTMCell/W_0" in hdf5_arrays(path)
    assert_equal(checkpoint, read(tmp_path / "model"))
    edit_json(tmp_path / "model/options.json", lstm__n_layers=2)
    with one_line(path, "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/B (24,) is missing"):
        read(tmp_path / "model")


# Files of something else


@pytest.mark.parametrize(
    "names",
    [["0", "1"], ["0", "sentence_to_index"], ["A red hat", "Ships left"], ["sentence_to_index"]],
)
def test_computed_embeddings_are_recognised(skip, names):
    write_hdf5(skip / "weights.hdf5", {name: np.zeros((3, 4, 8), "f") for name in names})
    with one_line(skip / "weights.hdf5", "computed embeddings", repr(names[0]), "give the file"):
        read(skip)


def test_token_embeddings_given_as_weights_are_recognised(skip):
    write_hdf5(skip / "weights.hdf5", {"embedding": np.zeros((9, 16), "f")})
    with one_line(skip / "weights.hdf5", "token embeddings only", "token_embeddings="):
        read(skip)


def test_hdf5_of_nothing_is_one_line(skip):
    write_hdf5(skip / "weights.hdf5", {})
    with one_line(skip / "weights.hdf5", "no model (nothing)"):
        read(skip)


# Which files are meant


def test_long_names_of_published_files_are_found(skip):
    expected = read(skip)
    for name, long in (("options.json", "abc_options.json"), ("weights.hdf5", "abc_weights.hdf5")):
        (skip / name).rename(skip / long)
    assert_equal(expected, read(skip))
    write_hdf5(skip / "vectors.hdf5", {"0": np.zeros((1, 2))})
    assert describe(skip).unused == ("vectors.hdf5",)
    assert_equal(expected, read(skip))


@pytest.mark.parametrize("name", ["model.hdf5", "model.h5", "anything.hdf5", "elmo_weights.h5"])
def test_other_names_of_weights(skip, name):
    expected = read(skip)
    (skip / "weights.hdf5").rename(skip / name)
    assert_equal(expected, read(skip))


def test_a_second_pair_is_asked_about(skip):
    for name in ("abc_options.json", "def_options.json", "abc_weights.hdf5", "def_weights.hdf5"):
        (skip / name).write_bytes((skip / name[4:]).read_bytes())
    for name in ("options.json", "weights.hdf5"):
        (skip / name).unlink()
    with one_line(
        skip, "abc_options.json, def_options.json", "abc_weights.hdf5, def_weights.hdf5", "options="
    ):
        read(skip)
    read(options=skip / "abc_options.json", weights=skip / "def_weights.hdf5")


def test_options_json_goes_before_others_but_weights_are_asked_about(skip):
    (skip / "options_inference.json").write_text("{}")
    read(skip)
    (skip / "model.hdf5").write_bytes(b"")
    with one_line("model.hdf5, weights.hdf5"):
        read(skip)


def test_word_list_is_optional_for_characters(skip):
    assert read(skip).vocabulary is None
    (skip / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nhat\n")
    assert read(skip).vocabulary == Vocabulary(("<S>", "</S>", "<UNK>", "hat"))


# Writing what the format cannot hold


def obstacle(name):
    cnn = CharCNNConfig(num_characters=9, embedding_dim=2, filters=((1, 2),))
    lstm = LSTMConfig(cell_dim=6, projection_dim=4)
    words = WordEmbeddingConfig(num_words=5, embedding_dim=4)
    changes = {
        "Unicode": {"characters": cnn},
        "stacked": {"lstm": dataclasses.replace(lstm, kind="stacked")},
        "forget bias": {"lstm": lstm},
        "characters and words": {"words": words},
        "projects its word vectors": {"words": words, "characters": None},
    }
    if name in changes:
        return small_checkpoint(**changes[name])
    plain = small_checkpoint(words=words, characters=None, token_projection=False)
    listed = word_list(5)
    special = {
        "special words": InputWords(words=listed, begin="<UNK>"),
        "cuts words": InputWords(words=listed, max_characters=48),
    }
    return dataclasses.replace(plain, words=special[name])


@pytest.mark.parametrize(
    "name",
    [
        "Unicode",
        "stacked",
        "forget bias",
        "characters and words",
        "projects its word vectors",
        "special words",
        "cuts words",
    ],
)
def test_models_that_the_format_cannot_express_are_refused(tmp_path, name):
    with one_line("AllenNLP format cannot express", name):
        write(obstacle(name), tmp_path / "model", format="allennlp")
    assert list(tmp_path.iterdir()) == []


def test_a_calibrated_state_is_dropped_with_a_warning(tmp_path):
    checkpoint = small_checkpoint()
    checkpoint.tensors["initial_c"][1, 1, 2] = 0.5
    with pytest.warns(UserWarning, match="initial state"):
        write(checkpoint, tmp_path / "model", format="allennlp")
    assert not read(tmp_path / "model").tensors["initial_c"].any()


def test_a_softmax_is_dropped_with_a_warning(tmp_path):
    checkpoint = small_checkpoint(softmax_words=7)
    with pytest.warns(UserWarning, match="softmax"):
        write(checkpoint, tmp_path / "model", format="allennlp")
    config = dataclasses.replace(checkpoint.config, softmax_words=None)
    tensors = {name: checkpoint.tensors[name] for name in layout.shapes(config)}
    expected = dataclasses.replace(checkpoint, config=config, tensors=tensors)
    assert_equal(expected, read(tmp_path / "model"))


@pytest.mark.parametrize("word", ["a\nb", " a", "!!!MAXTERMID", "\ud800", "b\x1c"])
def test_words_that_are_no_lines_are_refused(tmp_path, word):
    words = WordEmbeddingConfig(num_words=4, embedding_dim=4)
    checkpoint = small_checkpoint(words=words, characters=None, token_projection=False)
    listed = InputWords(words=("<S>", "</S>", "<UNK>", word))
    checkpoint = dataclasses.replace(checkpoint, words=listed, vocabulary=None)
    with one_line("vocab.txt", "word"):
        write(checkpoint, tmp_path / "model", format="allennlp")
    assert list(tmp_path.iterdir()) == []


def test_two_different_word_lists_are_refused(tmp_path):
    words = WordEmbeddingConfig(num_words=5, embedding_dim=4)
    checkpoint = small_checkpoint(words=words, characters=None, token_projection=False)
    checkpoint = dataclasses.replace(checkpoint, vocabulary=Vocabulary(word_list(6)))
    with one_line("one word list"):
        write(checkpoint, tmp_path / "model", format="allennlp")


STRANGE = "AllenNLP itself does not read this pair as it is meant: "


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"token_projection": False}, "it has no projection after its filters"),
        ({"projection_dim": 4}, "its LSTM has no projection, since cell_dim is projection_dim"),
        ({"skip_connections": False}, "it has no skip connections"),
        ({"max_characters": 30}, "it keeps 30 bytes of a token, AllenNLP 50"),
    ],
)
def test_what_allennlp_itself_does_not_read_is_told(tmp_path, caplog, changes, reason):
    lstm = {"num_layers": 1, "cell_dim": 4, "projection_dim": 2, "forget_bias": 1.0}
    lstm["skip_connections"] = True
    cnn = {"num_characters": 261, "max_characters": 50, "embedding_dim": 2, "filters": ((1, 3),)}
    model = {"token_projection": True}
    if changes == {"token_projection": False}:
        cnn["filters"] = ((1, 2),)
    for section in (lstm, cnn, model):
        section |= {name: value for name, value in changes.items() if name in section}
    lstm["recurrent_projection"] = lstm["cell_dim"] != lstm["projection_dim"]
    config = BiLMConfig(lstm=LSTMConfig(**lstm), characters=CharCNNConfig(**cnn), **model)
    write(random_checkpoint(config), tmp_path / "model", format="allennlp")
    assert [message for message in caplog.messages if message.startswith(STRANGE)] == [
        next(message for message in caplog.messages if reason in message)
    ]


def test_a_card_is_dropped_with_a_word(tmp_path, caplog):
    checkpoint = dataclasses.replace(
        small_checkpoint(), card=Card(case="lower", provenance="somewhere")
    )
    write(checkpoint, tmp_path / "model", format="allennlp")
    told = "the AllenNLP format has no place for the card (case); it is dropped"
    assert caplog.messages.count(told) == 1
    caplog.clear()
    write(dataclasses.replace(checkpoint, card=Card()), tmp_path / "other", format="allennlp")
    assert not any("card" in message for message in caplog.messages)
