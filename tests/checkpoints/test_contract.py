"""What every format promises, checked on every reference model."""

import shutil

import pytest
import torch
from checkpoint_samples import MODELS, assert_equal, complaint, copy_model, one_line

from elmokit import checkpoints
from elmokit.checkpoints import layout

_TENSOR_FILES = ("*.safetensors", "*.hdf5", "*.pkl", "*.index", "*.data-*")


@pytest.fixture(params=MODELS)
def model(request, fixtures, tmp_path):
    """A directory of each format with nothing but its model."""
    return copy_model(fixtures / request.param, tmp_path / "model")


@pytest.fixture
def native(model, tmp_path):
    """The same model in the native format."""
    checkpoints.convert(model, tmp_path / "native")
    return tmp_path / "native"


def test_tensors_are_those_that_the_configuration_asks_for(model):
    checkpoint = checkpoints.read(model)
    shapes = {name: tuple(tensor.shape) for name, tensor in checkpoint.tensors.items()}
    assert shapes == layout.shapes(checkpoint.config)


def test_tensors_are_contiguous_float32_on_the_cpu(model):
    for tensor in checkpoints.read(model).tensors.values():
        assert tensor.dtype == torch.float32
        assert tensor.device.type == "cpu"
        assert tensor.is_contiguous()
        assert not tensor.requires_grad


def test_row_of_id_0_and_initial_state_are_zero(model):
    tensors = checkpoints.read(model).tensors
    for name in (f"{layout.CHARACTERS}.embedding.weight", layout.WORDS):
        if name in tensors:
            assert not tensors[name][0].any()
            assert tensors[name][1:].any(dim=1).all()
    for name in ("initial_h", "initial_c"):
        assert name not in tensors or not tensors[name].any()


def test_ids_and_word_lists_are_given_as_the_configuration_says(model):
    checkpoint = checkpoints.read(model)
    config = checkpoint.config
    assert (checkpoint.alphabet is None) == (config.characters is None)
    assert (checkpoint.words is None) == (config.words is None)
    if config.characters:
        assert checkpoint.alphabet.num_characters == config.characters.num_characters
        assert checkpoint.alphabet.max_characters == config.characters.max_characters
    if config.words:
        assert len(checkpoint.words.words) == config.words.num_words


def test_native_copy_is_equal_and_complete_in_itself(model, native):
    original = checkpoints.read(model)
    shutil.rmtree(model)
    moved = native.rename(native.with_name("moved"))
    copy = checkpoints.read(moved)
    assert_equal(original, copy)
    assert copy.card == original.card


def test_truncated_files_of_tensors_give_one_line(model, native):
    for directory in (model, native):
        for pattern in _TENSOR_FILES:
            for path in directory.glob(pattern):
                data = path.read_bytes()
                for size in (0, 1, 7, 100, len(data) // 2, len(data) - 1):
                    path.write_bytes(data[:size])
                    with one_line(path):
                        checkpoints.read(directory)
                path.write_bytes(data)


def test_truncated_json_gives_one_line(model, native):
    for directory in (model, native):
        for name in checkpoints.describe(directory).files:
            if name.endswith(".json"):
                path = directory / name
                text = path.read_text()
                for size in (0, 1, len(text) // 2, len(text.rstrip()) - 1):
                    path.write_text(text[:size])
                    with one_line(path, "JSON"):
                        checkpoints.read(directory)
                path.write_text(text)


def test_flipped_bytes_never_give_a_foreign_exception(model, native):
    """A damaged number may pass unseen; whatever is seen must be said in one line."""
    for directory in (model, native):
        for pattern in _TENSOR_FILES:
            for path in directory.glob(pattern):
                data = path.read_bytes()
                start = range(0, min(2000, len(data)), 199)
                for position in (*start, *range(2000, len(data), len(data) // 8)):
                    damaged = bytearray(data)
                    damaged[position] ^= 0xFF
                    path.write_bytes(damaged)
                    assert "\n" not in complaint(directory)
                path.write_bytes(data)


def test_a_missing_file_is_named(model, native):
    config = checkpoints.read(model).config
    optional = {model / "checkpoint"}  # where there is one model only, nothing need name it
    if config.softmax_words is None:
        optional.add(native / "vocab.txt")  # a training vocabulary is not needed to read the model
    for directory in (model, native):
        for name in checkpoints.describe(directory).files:
            hidden = (directory / name).rename(directory.with_name("hidden"))
            if directory / name in optional:
                assert checkpoints.read(directory).config == config
            else:
                with one_line(name):
                    checkpoints.read(directory)
            hidden.rename(directory / name)
