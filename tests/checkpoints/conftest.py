"""Models that the tests of several formats start from."""

import pytest
from checkpoint_samples import TENSORFLOW_MODELS, copy_model


@pytest.fixture
def skip(fixtures, tmp_path):
    """A model of characters: options.json and weights.hdf5 alone."""
    directory = copy_model(fixtures / "A2_bilm_skip", tmp_path / "skip")
    for extra in ("elmo_mix.json", "simple_elmo_agreement.json", "stats.json"):
        (directory / extra).unlink()
    return directory


@pytest.fixture
def words(fixtures, tmp_path):
    """A model of word ids."""
    return copy_model(fixtures / "A3_token_lm", tmp_path / "words")


@pytest.fixture(params=TENSORFLOW_MODELS)
def training(request, fixtures, tmp_path):
    """A training checkpoint of bilm-tf, of characters or of word ids, without HDF5 weights."""
    return copy_model(fixtures / request.param, tmp_path / "training")


@pytest.fixture
def both_model(fixtures, tmp_path):
    """Words and characters, pickles of the zip format."""
    return copy_model(fixtures / "B_efml_word_char_cnn", tmp_path / "both")
