import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.config import (
    MAX_COUNT,
    SCHEMA_VERSION,
    BiLMConfig,
    Card,
    CharCNNConfig,
    LSTMConfig,
    WordEmbeddingConfig,
    nearest,
    parse,
)
from elmokit.errors import ConfigError, ElmokitError

_SIZES = st.integers(1, 5000)
_CLIPS = st.none() | st.floats(1e-3, 100)
_TEXTS = st.none() | st.text()

cnn_configs = st.builds(
    CharCNNConfig,
    num_characters=_SIZES,
    max_characters=st.integers(9, 80),
    embedding_dim=_SIZES,
    filters=st.lists(st.tuples(st.integers(1, 9), _SIZES), min_size=1, max_size=4).map(tuple),
    activation=st.sampled_from(["relu", "tanh"]),
    num_highway=st.integers(0, 3),
)
word_configs = st.builds(WordEmbeddingConfig, num_words=_SIZES, embedding_dim=_SIZES)
lstm_configs = st.builds(
    LSTMConfig,
    kind=st.sampled_from(["projected", "stacked"]),
    num_layers=st.integers(1, 4),
    cell_dim=_SIZES,
    projection_dim=_SIZES,
    cell_clip=_CLIPS,
    projection_clip=_CLIPS,
    skip_connections=st.booleans(),
    forget_bias=st.floats(-2, 2),
)
_FACTS = st.dictionaries(st.text(), st.one_of(st.text(), st.floats(allow_nan=False)), max_size=3)
cards = st.builds(
    Card,
    name=_TEXTS,
    language=_TEXTS,
    tokenizer=_TEXTS,
    case=_TEXTS,
    licence=_TEXTS,
    provenance=_TEXTS,
    state=st.sampled_from(["fresh", "carry"]),
    notes=_TEXTS,
    training=_FACTS,
    results=_FACTS,
)
bilm_configs = st.one_of(
    st.builds(BiLMConfig, lstm=lstm_configs, characters=cnn_configs),
    st.builds(BiLMConfig, lstm=lstm_configs, words=word_configs),
    st.builds(BiLMConfig, lstm=lstm_configs, characters=cnn_configs, words=word_configs),
)


@given(st.one_of(bilm_configs, cnn_configs, word_configs, lstm_configs, cards))
def test_a_section_survives_json(section):
    text = json.dumps(section.to_dict())
    assert type(section).from_dict(json.loads(text)) == section


def test_the_default_is_the_papers_model():
    config = BiLMConfig(lstm=LSTMConfig(), characters=CharCNNConfig(num_characters=261))
    assert config.token_dim == 2048
    assert config.dim == 1024
    assert config.num_outputs == 3


def test_a_token_is_its_word_vector_beside_its_filters():
    cnn = CharCNNConfig(num_characters=9, filters=((1, 3), (2, 4)))
    words = WordEmbeddingConfig(num_words=5, embedding_dim=10)
    lstm = LSTMConfig(kind="stacked", num_layers=3)
    config = BiLMConfig(lstm=lstm, characters=cnn, words=words)
    assert config.token_dim == 17
    assert config.num_outputs == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"num_caracters": 5},
            r"config: unknown field 'num_caracters' \(did you .*'num_characters'",
        ),
        ({"num_characters": 5, "xyz": 1}, r"config: unknown field 'xyz'$"),
        ({}, "config: field 'num_characters' is missing"),
        ({"num_characters": "5"}, "config: num_characters: expected int, found '5'"),
        ({"num_characters": 5.5}, r"config: num_characters: expected int, found 5\.5"),
        ({"num_characters": True}, "config: num_characters: expected int, found True"),
        ({"num_characters": None}, "config: num_characters: expected int, found None"),
        ({"num_characters": 0}, "config: num_characters: 0 must be 1 or more"),
        (
            {"num_characters": 5, "activation": "gelu"},
            "activation: 'gelu' is not one of 'relu', 'tanh'",
        ),
        ({"num_characters": 5, "filters": 3}, "config: filters: expected a list, found int"),
        (
            {"num_characters": 5, "filters": [[1, 2, 3]]},
            r"filters\[0\]: expected 2 values, found 3",
        ),
        (
            {"num_characters": 5, "filters": [[1, "a"]]},
            r"filters\[0\]\[1\]: expected int, found 'a'",
        ),
        ({"num_characters": 5, "filters": []}, "filters: .* needs pairs of a width and a count"),
        ({"num_characters": 5, "filters": [[0, 2]]}, "filters: .* needs pairs"),
        (
            {"num_characters": 5, "max_characters": 4, "filters": [[5, 2]]},
            r"filters: the widest \(5\) exceeds max_characters \(4\)",
        ),
        ({"num_characters": 5, "num_highway": -1}, "num_highway: -1 must be 0 or more"),
        (
            {"num_characters": 5, "num_highway": 10**9},
            f"num_highway: 10+ must be {MAX_COUNT} or less",
        ),
        ({"num_characters": 5, "max_characters": 10**9}, "max_characters: 10+ must be .* or less"),
    ],
)
def test_what_is_wrong_with_a_character_cnn_is_said(data, message):
    with pytest.raises(ConfigError, match=message) as caught:
        CharCNNConfig.from_dict(data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"kind": "gru"}, "kind: 'gru' is not one of 'projected', 'stacked'"),
        ({"num_layers": 0}, "num_layers: 0 must be 1 or more"),
        ({"num_layers": 10**12}, f"num_layers: 10+ must be {MAX_COUNT} or less"),
        ({"cell_clip": 0}, r"cell_clip: 0\.0 must be above 0; use null for no limit"),
        ({"projection_clip": -1}, r"projection_clip: -1\.0 must be above 0"),
        ({"cell_clip": math.nan}, "cell_clip: nan must be above 0"),
        ({"cell_clip": math.inf}, "cell_clip: inf must be above 0; use null for no limit"),
        ({"cell_clip": "3"}, "cell_clip: expected float, found '3'"),
        ({"cell_clip": 10**400}, "cell_clip: expected float, found 10"),
        ({"cell_clip": True}, "cell_clip: expected float, found True"),
        ({"forget_bias": math.nan}, "forget_bias: nan must be a finite number"),
        ({"forget_bias": math.inf}, "forget_bias: inf must be a finite number"),
        ({"skip_connections": 1}, "skip_connections: expected bool, found 1"),
        (
            {"recurrent_projection": False, "cell_dim": 4, "projection_dim": 5},
            r"recurrent_projection: false needs cell_dim \(4\) equal to projection_dim \(5\)",
        ),
    ],
)
def test_what_is_wrong_with_an_lstm_is_said(data, message):
    with pytest.raises(ConfigError, match=message) as caught:
        LSTMConfig.from_dict(data, where="a.json: lstm")
    assert str(caught.value).startswith("a.json: lstm: ")


def test_contradictions_between_sections_are_said():
    lstm = LSTMConfig(projection_dim=8)
    with pytest.raises(ConfigError, match="characters, words: a model needs at least one"):
        BiLMConfig(lstm=lstm)
    words = WordEmbeddingConfig(num_words=3, embedding_dim=7)
    with pytest.raises(ConfigError, match=r"width \(7\) equal to lstm.projection_dim \(8\)"):
        BiLMConfig(lstm=lstm, words=words, token_projection=False)


def test_the_place_of_a_nested_fault_is_said():
    data = {"lstm": {"num_layers": -1}, "words": {"num_words": 3, "embedding_dim": 2}}
    with pytest.raises(ConfigError, match=r"^m\.json: lstm: num_layers: -1 must be 1 or more$"):
        BiLMConfig.from_dict(data, where="m.json")
    with pytest.raises(ConfigError, match=r"^m\.json: lstm: expected named fields, found list$"):
        BiLMConfig.from_dict({"lstm": []}, where="m.json")


def test_whole_numbers_fit_both_kinds_of_number():
    lstm = LSTMConfig.from_dict({"num_layers": 2.0, "cell_clip": 3})
    assert (lstm.num_layers, type(lstm.num_layers)) == (2, int)
    assert (lstm.cell_clip, type(lstm.cell_clip)) == (3.0, float)
    assert LSTMConfig.from_dict({"cell_clip": None}).cell_clip is None


def test_a_long_wrong_value_is_shown_in_short():
    with pytest.raises(ConfigError) as caught:
        LSTMConfig.from_dict({"num_layers": "x" * 10**6, "kind": "projected"})
    assert len(str(caught.value)) < 120


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists), st.data())
def test_any_json_gives_a_section_or_a_config_error(value, data):
    fields = [field.name for field in dataclasses.fields(LSTMConfig)]
    name = data.draw(st.sampled_from(fields))
    try:
        LSTMConfig.from_dict({name: value})
    except ConfigError as error:
        assert name in str(error)  # noqa: PT017  # either way is right


@pytest.mark.parametrize("section", [LSTMConfig(), Card()])
def test_sections_are_frozen_and_keyword_only(section):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(section, dataclasses.fields(section)[0].name, None)
    with pytest.raises(TypeError):
        type(section)("projected")


def test_a_choice_is_checked_outside_json_too():
    with pytest.raises(ConfigError, match="activation: 'gelu' is not one of"):
        CharCNNConfig(num_characters=5, activation="gelu")
    with pytest.raises(ConfigError, match="state: 'warm' is not one of 'fresh', 'carry'"):
        Card.from_dict({"state": "warm"})


def test_parse_reads_tuples_mappings_and_unions():
    assert parse(tuple[int, ...], [1, 2], "x") == (1, 2)
    assert parse(int | None, None, "x") is None
    with pytest.raises(ConfigError, match=r"^x\[1\]: expected int, found 'a'$"):
        parse(tuple[int, ...], [1, "a"], "x")


def test_nearest_names_the_closest_or_nothing():
    assert nearest("fresch", ["fresh", "carry"]) == " (did you mean 'fresh'?)"
    assert nearest("zzz", ["fresh", "carry"]) == ""


def test_config_errors_are_value_errors_of_ours():
    assert issubclass(ConfigError, ElmokitError)
    assert issubclass(ElmokitError, ValueError)
    assert SCHEMA_VERSION == 1
