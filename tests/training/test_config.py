import dataclasses
import math

import pytest

from elmokit.config import Section
from elmokit.errors import ConfigError
from elmokit.training.config import MAY_CHANGE, ModelSection, OptimizerSection, TrainConfig

LEAST = {"run_dir": "run", "data": {"train": ["a.txt"], "vocabulary": "vocab.txt"}}


def refusal(**changes):
    with pytest.raises(ConfigError) as caught:
        TrainConfig.from_dict({**LEAST, **changes}, where="c.yaml")
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix("c.yaml: ")


def names(section, prefix=""):
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        if isinstance(value, Section):
            yield from names(value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name


def test_text_and_word_list_are_enough():
    config = TrainConfig.from_dict(LEAST)
    assert config.model == ModelSection()
    assert (config.optimizer.name, config.optimizer.learning_rate) == ("adagrad", 0.2)
    assert TrainConfig.from_dict(config.to_dict()) == config


def test_the_defaults_are_the_papers():
    model = ModelSection()
    lstm, cnn = model.lstm(), model.char_cnn(261)
    assert (lstm.num_layers, lstm.cell_dim, lstm.projection_dim) == (2, 4096, 512)
    assert (lstm.cell_clip, lstm.projection_clip, lstm.forget_bias) == (3.0, 3.0, 1.0)
    assert (cnn.num_filters, cnn.num_highway, cnn.max_characters) == (2048, 2, 50)
    assert lstm.recurrent_projection
    assert not ModelSection(cell_dim=8, projection_dim=8).lstm().recurrent_projection


def test_what_may_change_are_settings():
    assert set(names(TrainConfig.from_dict(LEAST))) >= MAY_CHANGE


@pytest.mark.parametrize(
    ("section", "name", "value", "message"),
    [
        ("model", "cell_dim", 0, "cell_dim: 0 must be 1 or more"),
        ("model", "character_dim", 0, "character_dim: 0 must be 1 or more"),
        ("model", "max_characters", 2, "max_characters: 2 leaves no room"),
        ("model", "filters", [[60, 1]], "filters: the widest (60) exceeds max_characters (50)"),
        ("model", "filters", [[1, 2, 3]], "filters[0]: expected 2 values, found 3"),
        ("model", "min_character_count", 0, "min_character_count: 0 must be 1 or more"),
        ("model", "input", "byte", "input: 'byte' is not one of 'bytes', 'characters', 'words'"),
        ("objective", "dropout", 1, "dropout: 1.0 must be 0 or more and below 1"),
        ("objective", "num_negatives", 0, "num_negatives: 0 must be 1 or more"),
        ("optimizer", "learning_rate", 0, "learning_rate: 0.0 must be a number above 0"),
        ("optimizer", "learning_rate", math.nan, "learning_rate: nan must be a number above 0"),
        ("optimizer", "clip_norm", -1, "clip_norm: -1.0 must be a number above 0"),
        ("optimizer", "warmup_steps", -1, "warmup_steps: -1 must be 0 or more"),
        ("optimizer", "name", "adam", "name: 'adam' is not one of 'adagrad', 'adamw'"),
        ("schedule", "batch_size", 0, "batch_size: 0 must be 1 or more"),
        ("schedule", "epochs", math.inf, "epochs: inf must be a number above 0"),
        ("schedule", "steps", 0, "steps: 0 must be 1 or more"),
        ("schedule", "patience", 0, "patience: 0 must be 1 or more"),
        ("schedule", "log_every", 1.5, "log_every: expected int, found 1.5"),
        ("schedule", "batchsize", 1, "unknown field 'batchsize' (did you mean 'batch_size'?)"),
    ],
)
def test_a_wrong_value_is_told_with_its_field(section, name, value, message):
    assert refusal(**{section: {name: value}}).startswith(f"{section}: {message}")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": -1}, "seed: -1 must be 0 or more"),
        ({"seed": 2**63}, f"seed: {2**63} must be"),
        ({"threads": 0}, "threads: 0 must be 1 or more"),
        (
            {"data": {"train": ["a.txt"]}},
            "data.vocabulary: a new model needs a word list; make one",
        ),
        ({"data": {"vocabulary": "v"}}, "data: field 'train' is missing"),
        (
            {"data": {"train": ["a"]}, "start": {"model": "m", "softmax": "new"}},
            "data.vocabulary: a new softmax needs a word list",
        ),
        ({"precision": "fp16"}, "precision: 'fp16' is not one of 'fp32', 'bf16'"),
    ],
)
def test_a_contradiction_is_told(changes, message):
    assert refusal(**changes).startswith(message)


def test_a_model_of_words_needs_no_characters():
    ModelSection(input="words", max_characters=1)


def test_there_must_be_text():
    found = refusal(data={"train": [], "vocabulary": "v"})
    assert found.startswith("data: train: names no file; give files")


def test_a_seed_that_is_too_large_is_told_as_that():
    assert refusal(seed=2**63) == "seed: 9223372036854775808 must be below 2 to the 63rd"


def test_a_kept_softmax_needs_no_word_list():
    TrainConfig.from_dict({**LEAST, "data": {"train": ["a"]}, "start": {"model": "m"}})


def test_weight_decay_is_refused_where_it_would_do_nothing():
    assert OptimizerSection(name="adamw", weight_decay=0.1).weight_decay == 0.1
    with pytest.raises(ConfigError, match="weight_decay: belongs to adamw"):
        OptimizerSection(name="adagrad", weight_decay=0.1)
