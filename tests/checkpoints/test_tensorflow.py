import dataclasses
import json
import logging
import shutil
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from bundle_samples import write_bundle
from checkpoint_samples import (
    TENSORFLOW_MODELS,
    assert_equal,
    bilm_checkpoints,
    copy_model,
    edit_json,
    one_line,
    random_checkpoint,
    small_checkpoint,
    word_list,
)
from hypothesis import given, settings

from elmokit import Embedder
from elmokit.checkpoints import bilm_table, convert, describe, layout, read, table
from elmokit.checkpoints.bilm_options import options_of
from elmokit.checkpoints.tensorflow import read_optimizer
from elmokit.config import LSTMConfig

CELL = "lm/RNN_{}/rnn/multi_rnn_cell/cell_{}/lstm_cell"
WORD, CHARACTER = layout.WORDS, f"{layout.CHARACTERS}.embedding.weight"
FILES = (
    "checkpoint",
    "model.ckpt-80.data-00000-of-00001",
    "model.ckpt-80.index",
    "options.json",
    "vocab.txt",
)


@pytest.fixture
def char_training(fixtures, tmp_path):
    """A training checkpoint of characters."""
    return copy_model(fixtures / "E_training_char", tmp_path / "char")


@pytest.fixture
def word_training(fixtures, tmp_path):
    """A training checkpoint of word ids."""
    return copy_model(fixtures / "E_training_word", tmp_path / "word")


def variables(fixtures, folder):
    """All variables of a checkpoint by TensorFlow's names; what training started from in G."""
    with np.load(fixtures / folder.replace("E_training", "G_training_steps") / "before.npz") as npz:
        return {name: npz[name] for name in npz.files}


def edit_variables(fixtures, directory, folder, **changes):
    """Writes the bundle again with other variables (`__` stands for a slash, None removes)."""
    arrays = variables(fixtures, folder)
    for key, array in changes.items():
        name = key.replace("__", "/")
        arrays.pop(name, None)
        if array is not None:
            arrays[name] = array
    write_bundle(directory / "model.ckpt-80", arrays)


def write_training(checkpoint, directory, *, lone=True):
    """Writes a model as bilm-tf's training would have saved it."""

    def cell(direction, index):
        group = CELL.format(direction, index)
        if checkpoint.config.lstm.num_layers == 1 and lone:
            group = f"lm/RNN_{direction}/rnn/lstm_cell"
        return bilm_table.Cell(f"{group}/kernel", f"{group}/bias", f"{group}/projection/kernel")

    rows = bilm_table.rows(checkpoint.config, cell, prefix="lm/")
    tensors = table.export_tensors(rows, checkpoint.tensors)
    tensors["lm/softmax/W"] = checkpoint.tensors["softmax.weight"]
    tensors["lm/softmax/b"] = checkpoint.tensors["softmax.bias"]
    write_bundle(directory / "model.ckpt-5", tensors | {"global_step": torch.tensor(5.0)})
    (directory / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-5"\n')
    (directory / "options.json").write_text(json.dumps(options_of(checkpoint.config)))
    words = "".join(f"{word}\n" for word in checkpoint.vocabulary.words)
    (directory / "vocab.txt").write_text(words, encoding="utf-8")


# What the numbers become


@pytest.mark.parametrize("folder", TENSORFLOW_MODELS)
def test_weights_equal_those_that_bilm_tf_dumped(fixtures, folder):
    directory = fixtures / folder
    options = "options_inference.json" if folder.endswith("char") else "options.json"
    dumped = read(
        options=directory / options,
        weights=directory / "weights.hdf5",
        vocab=directory / "vocab.txt",
    )
    checkpoint = read(directory)
    assert dumped.config.softmax_words is None
    assert checkpoint.config.softmax_words == 200
    assert checkpoint.tensors.keys() - dumped.tensors.keys() == {"softmax.weight", "softmax.bias"}
    for name, tensor in dumped.tensors.items():
        assert torch.equal(tensor, checkpoint.tensors[name])
    assert checkpoint.config.lstm == dumped.config.lstm
    assert checkpoint.config.characters == dumped.config.characters
    assert checkpoint.alphabet == dumped.alphabet
    assert checkpoint.words == dumped.words
    assert checkpoint.vocabulary == dumped.vocabulary


@pytest.mark.parametrize("folder", TENSORFLOW_MODELS)
def test_softmax_gives_the_log_probabilities_of_tensorflow(fixtures, folder):
    tensors = read(fixtures / folder).tensors
    weight, bias = tensors["softmax.weight"], tensors["softmax.bias"]
    place = fixtures / folder.replace("E_training", "F_lm_softmax")
    with np.load(place / "logprobs.npz") as npz:
        for direction in ("forward", "backward"):
            hidden = torch.from_numpy(npz[f"s00_{direction}_hidden"])
            found = torch.log_softmax(hidden @ weight.t() + bias, dim=1)
            expected = npz[f"s00_{direction}_logprobs"]
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_vectors_equal_those_of_allennlp(fixtures):
    sentences = json.loads((fixtures / "F_lm_softmax_char/sentences.json").read_text())
    embedder = Embedder.from_pretrained(fixtures / "E_training_char", device="cpu")
    found = embedder.embed([item["tokens"] for item in sentences], boundaries=True)
    expected = np.load(fixtures / "E_training_char/allennlp_fresh_with_boundaries.npz")
    assert len(found) == len(expected.files) == 10
    for number, layers in enumerate(found):
        np.testing.assert_allclose(layers, expected[f"s{number:02}"], rtol=1e-5, atol=1e-5)


@settings(max_examples=20)
@given(original=bilm_checkpoints())
def test_models_of_every_shape_are_read(original):
    """One layer, no projections, shared widths: each has its own set of tensors."""
    words = len(original.vocabulary.words)
    config = dataclasses.replace(original.config, softmax_words=words)
    checkpoint = random_checkpoint(config)
    for lone in (True, False):
        with tempfile.TemporaryDirectory() as place:
            write_training(checkpoint, Path(place), lone=lone)
            assert_equal(checkpoint, read(place))


def test_shared_word_table_becomes_two(fixtures, word_training, caplog):
    original = read(word_training)
    edit_variables(
        fixtures,
        word_training,
        "E_training_word",
        lm__softmax__W=None,
        lm__softmax__W__Adagrad=None,
    )
    with caplog.at_level(logging.INFO):
        shared = read(word_training)
    assert "the word table is the softmax too" in caplog.text
    assert torch.equal(shared.tensors["softmax.weight"], original.tensors[WORD][1:])
    for name in original.tensors.keys() - {"softmax.weight"}:
        assert torch.equal(original.tensors[name], shared.tensors[name])
    accumulators = read_optimizer(word_training).accumulators
    assert torch.equal(accumulators["softmax.weight"], accumulators[WORD][1:])


def test_conversion_keeps_the_softmax(training, tmp_path):
    convert(training, tmp_path / "native")
    assert_equal(read(training), read(tmp_path / "native"))


def test_card_says_where_the_model_came_from(training):
    provenance = read(training).card.provenance
    assert provenance == "training checkpoint of bilm-tf (options.json, model.ckpt-80)"


# Which files are meant


def test_training_checkpoint_goes_before_weights_beside_it(fixtures):
    description = describe(fixtures / "E_training_char")
    assert description.format == "tensorflow"
    assert description.files == FILES
    assert description.unused == ("options_inference.json", "weights.hdf5")


def test_archive_equals_its_directory(training, tmp_path):
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as file:
        for path in training.iterdir():
            file.write(path, f"inside/{path.name}")
    assert_equal(read(tmp_path / "model.zip"), read(training))


@pytest.mark.parametrize(
    "text",
    [
        'model_checkpoint_path: "model.ckpt-80"\n',
        'model_checkpoint_path: "/nowhere/of/its/author/model.ckpt-80"\n',
        'model_checkpoint_path: "../model.ckpt-80"\r\nall_model_checkpoint_paths: "x"\r\n',
        r'  model_checkpoint_path:"C:\\models\\model.ckpt-80"',
        'all_model_checkpoint_paths: "old.ckpt-7"\nmodel_checkpoint_path: "a \\"b/model.ckpt-80"',
    ],
)
def test_last_part_of_the_path_counts(char_training, caplog, text):
    other = shutil.copyfile(char_training / FILES[2], char_training / "old.ckpt-7.index")
    (char_training / "checkpoint").write_text(text)
    assert describe(char_training).files == FILES
    assert describe(char_training).unused == (other.name,)
    assert not caplog.records


@pytest.mark.parametrize(
    "data",
    [b'model_checkpoint_path: "/x/model.ckpt-99"\n', b'model_checkpoint_path: "/x/\xff"\n'],
)
def test_the_only_index_stands_in_for_one_that_is_missing(char_training, caplog, data):
    (char_training / "checkpoint").write_bytes(data)
    assert describe(char_training).files == FILES
    assert "is not there" in caplog.text
    assert "the only one, model.ckpt-80.index, is read" in caplog.text


@pytest.mark.parametrize("data", [None, b"", b"\x80\x04junk", b"model_checkpoint_path: oops"])
def test_without_a_name_the_only_index_is_meant(char_training, caplog, data):
    original = read(char_training)
    (char_training / "checkpoint").unlink()
    if data is not None:
        (char_training / "checkpoint").write_bytes(data)
    assert_equal(original, read(char_training))
    assert not caplog.records


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('model_checkpoint_path: "model.ckpt-99"', "tensorflow lacks model.ckpt-99.index"),
        (None, "one of model.ckpt-7.index, model.ckpt-80.index"),
    ],
)
def test_one_of_several_has_to_be_named(char_training, text, part):
    shutil.copyfile(char_training / FILES[2], char_training / "model.ckpt-7.index")
    (char_training / "checkpoint").unlink()
    if text:
        (char_training / "checkpoint").write_text(text)
    with one_line(char_training, part):
        read(char_training)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("model.ckpt-80.index", "model.ckpt-80.index"),
        ("model.ckpt-80.data-00000-of-00001", "model.ckpt-80.data-00000-of-00001"),
        ("options.json", "options.json (or one *options*.json)"),
        ("vocab.txt", "vocab.txt (or one *vocab*.txt)"),
    ],
)
def test_a_missing_file_is_told(training, name, part):
    (training / name).unlink()
    with one_line(training, f"tensorflow lacks {part}"):
        read(training)
    with one_line(training, f"no training checkpoint of bilm-tf: it lacks {part}"):
        read_optimizer(training)


def test_word_list_under_its_published_name_is_found(char_training):
    (char_training / "vocab.txt").rename(char_training / "vocab-2016-09-10.txt")
    assert len(read(char_training).vocabulary.words) == 200


def test_leftovers_do_not_hide_other_models(skip):
    """A file `checkpoint` or an index of another program beside a model of the AllenNLP format."""
    original = read(skip)
    (skip / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-3"\n')
    assert_equal(original, read(skip))
    (skip / "checkpoint").unlink()
    (skip / "vectors.index").write_bytes(b"IxFI")
    assert_equal(original, read(skip))


# What does not fit


def test_vocabulary_of_another_length_is_told(training):
    path = training / "vocab.txt"
    path.write_text("\n".join([*word_list(198)]) + "\n", encoding="utf-8")
    with one_line(path, "198 words", training / "model.ckpt-80.index", "has 200"):
        read(training)


def test_word_list_without_special_words_is_told(word_training):
    path = word_training / "vocab.txt"
    path.write_text(path.read_text(encoding="utf-8").replace("<UNK>", "unk"), encoding="utf-8")
    with one_line(path, "the unknown word '<UNK>' is not in the list"):
        read(word_training)


@pytest.mark.parametrize("number", [261, 262, None])
def test_rows_decide_whatever_number_of_characters_is_said(char_training, number):
    original = read(char_training)
    edit_json(char_training / "options.json", char_cnn__n_characters=number)
    assert_equal(original, read(char_training))


def test_impossible_number_of_characters_is_one_line(char_training):
    edit_json(char_training / "options.json", char_cnn__n_characters=300)
    with one_line("options.json", "n_characters: 300", "model.ckpt-80.index", "261 rows"):
        read(char_training)


def test_options_of_another_model_are_told(char_training, word_training):
    shutil.copyfile(char_training / "options.json", word_training / "other")
    shutil.copyfile(word_training / "options.json", char_training / "options.json")
    (word_training / "other").replace(word_training / "options.json")
    with one_line("'lm/embedding'", "options.json has no block char_cnn"):
        read(char_training)
    with one_line("'lm/char_embed'", "options.json has a block char_cnn"):
        read(word_training)


def test_a_model_of_one_layer_has_no_second(tmp_path):
    lstm = LSTMConfig(num_layers=1, cell_dim=6, projection_dim=4, forget_bias=1.0)
    write_training(small_checkpoint(lstm=lstm, softmax_words=7), tmp_path)
    edit_json(tmp_path / "options.json", lstm__n_layers=2)
    with one_line("options.json", f"{CELL.format(1, 1)}/bias (24,) is missing"):
        read(tmp_path)


def test_one_direction_is_refused(fixtures, word_training):
    arrays = variables(fixtures, "E_training_word")
    forward = {name: array for name, array in arrays.items() if "RNN_1" not in name}
    write_bundle(word_training / "model.ckpt-80", forward)
    with one_line("model.ckpt-80.index", "the forward direction only", "bidirectional: true"):
        read(word_training)


def test_variables_of_another_program_are_refused(word_training):
    write_bundle(word_training / "model.ckpt-80", {"bert/pooler/dense/kernel": np.ones((2, 2))})
    with one_line("has no 'lm/softmax/b'; it is no training checkpoint of bilm-tf"):
        read(word_training)


def test_all_tensor_problems_are_told_at_once(fixtures, word_training):
    edit_variables(
        fixtures,
        word_training,
        "E_training_word",
        lm__softmax__W=np.zeros((200, 9), np.float32),
        lm__embedding=np.zeros((200, 8), np.int64),
        lm__extra=np.zeros(3, np.float32),
    )
    with one_line(
        word_training / "model.ckpt-80.index",
        "options.json",
        "lm/embedding holds int64",
        "lm/extra (3,) is unexpected",
        "lm/softmax/W has shape (200, 9) instead of (200, 8)",
    ):
        read(word_training)


def test_a_truncated_end_is_told_although_no_weight_lies_there(training):
    path = training / "model.ckpt-80.data-00000-of-00001"
    path.write_bytes(path.read_bytes()[:-1])
    for reader in (read, read_optimizer):
        with one_line(path, "truncated", "train_perplexity ends at"):
            reader(training)


# Where training stopped


def test_accumulators_are_turned_as_their_weights(fixtures, char_training):
    state = read_optimizer(char_training)
    assert state.step == 80
    shapes = layout.shapes(read(char_training).config)
    trained = {name: shapes[name] for name in shapes if not name.startswith("initial_")}
    assert {name: tuple(t.shape) for name, t in state.accumulators.items()} == trained
    arrays = variables(fixtures, "E_training_char")

    def check(name, expected):
        np.testing.assert_array_equal(state.accumulators[name], expected)

    check("softmax.weight", arrays["lm/softmax/W/Adagrad"])
    check("softmax.bias", arrays["lm/softmax/b/Adagrad"])
    check("token_encoder.projection.weight", arrays["lm/CNN_proj/W_proj/Adagrad"].T)
    carry, transform = (arrays[f"lm/CNN_high_0/W_{n}/Adagrad"] for n in ("carry", "transform"))
    check(f"{layout.CHARACTERS}.highways.0.weight", np.concatenate([transform.T, carry.T]))
    i, j, f, o = np.split(arrays[f"{CELL.format(1, 0)}/kernel/Adagrad"].T, 4)
    kernel = np.concatenate([i, f, j, o])
    check("backward_lstm.0.input_weight", kernel[:, :8])
    check("backward_lstm.0.recurrent_weight", kernel[:, 8:])
    check(CHARACTER, np.pad(arrays["lm/char_embed/Adagrad"], ((1, 0), (0, 0)), constant_values=1))


def test_no_accumulator_is_below_its_start(training):
    for accumulator in read_optimizer(training).accumulators.values():
        assert accumulator.min() >= 1


def test_step_may_be_an_integer(fixtures, word_training):
    edit_variables(fixtures, word_training, "E_training_word", global_step=np.int64(2**40))
    assert read_optimizer(word_training).step == 2**40


@pytest.mark.parametrize(
    ("step", "part"),
    [
        (None, "global_step is missing"),
        (np.float32("nan"), "global_step is no number of updates"),
        (np.float32(-1), "global_step is no number of updates"),
        (np.zeros(2, np.float32), "global_step is no number of updates"),
    ],
)
def test_wrong_steps_are_one_line(fixtures, word_training, step, part):
    edit_variables(fixtures, word_training, "E_training_word", global_step=step)
    assert read(word_training).config.softmax_words == 200
    with one_line("model.ckpt-80.index", part):
        read_optimizer(word_training)


def test_a_missing_accumulator_is_named(fixtures, word_training):
    edit_variables(fixtures, word_training, "E_training_word", lm__softmax__b__Adagrad=None)
    with one_line("model.ckpt-80.index (Adagrad)", "lm/softmax/b (200,) is missing"):
        read_optimizer(word_training)


def test_another_optimizer_leaves_the_weights_readable(fixtures, word_training):
    original = read(word_training)
    arrays = {"beta1_power": np.float32(0.9), "beta2_power": np.float32(0.999)}
    for name, array in variables(fixtures, "E_training_word").items():
        if name.endswith("/Adagrad"):
            stem = name.removesuffix("Adagrad")
            arrays |= {f"{stem}Adam": array, f"{stem}Adam_1": array}
        else:
            arrays[name] = array
    write_bundle(word_training / "model.ckpt-80", arrays)
    assert_equal(original, read(word_training))
    with one_line("no tensor has an accumulator", "Adagrad"):
        read_optimizer(word_training)


def test_optimizer_of_no_directory_is_one_line(tmp_path):
    with one_line(tmp_path / "none", "no such directory"):
        read_optimizer(tmp_path / "none")
