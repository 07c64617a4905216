import numpy as np
import pytest
from checkpoint_samples import (
    assert_equal,
    edit_hdf5,
    edit_json,
    hdf5_arrays,
    one_line,
)

from elmokit.checkpoints import read


@pytest.mark.parametrize("number", [261, 262, None])
def test_rows_decide_whatever_number_of_characters_is_said(skip, number):
    original = read(skip)
    edit_json(skip / "options.json", char_cnn__n_characters=number)
    assert_equal(original, read(skip))


def test_impossible_number_of_characters_is_one_line(skip):
    edit_json(skip / "options.json", char_cnn__n_characters=300)
    with one_line(skip / "options.json", "n_characters: 300", "weights.hdf5", "261 rows", "262"):
        read(skip)


def test_table_without_all_bytes_is_refused(skip):
    edit_hdf5(skip / "weights.hdf5", char_embed=np.zeros((60, 12), "f"))
    edit_json(skip / "options.json", char_cnn__n_characters=60)
    with one_line("char_embed has 60 rows", "needs 261"):
        read(skip)


def test_surplus_rows_are_kept_and_logged(skip, caplog):
    table = np.pad(hdf5_arrays(skip / "weights.hdf5")["char_embed"], ((0, 1), (0, 0)))
    edit_hdf5(skip / "weights.hdf5", char_embed=table)
    checkpoint = read(skip)
    assert checkpoint.config.characters.num_characters == 262
    assert checkpoint.alphabet.num_characters == 261
    assert "char_embed has 262 rows" in caplog.text


def test_characters_per_token_come_from_the_options(skip):
    assert read(skip).alphabet.max_characters == 50
    edit_json(skip / "options.json", char_cnn__max_characters_per_token=10)
    checkpoint = read(skip)
    assert checkpoint.alphabet.max_characters == 10
    assert checkpoint.config.characters.max_characters == 10
    edit_json(skip / "options.json", char_cnn__max_characters_per_token=None)
    assert read(skip).alphabet.max_characters == 50


@pytest.mark.parametrize("clip", [None, 0, 0.0])
def test_no_clip_has_three_spellings(skip, clip):
    edit_json(skip / "options.json", lstm__cell_clip=clip, lstm__proj_clip=clip)
    lstm = read(skip).config.lstm
    assert lstm.cell_clip is None
    assert lstm.projection_clip is None


def test_null_clip_means_none(skip):
    text = (skip / "options.json").read_text().replace('"cell_clip": 3', '"cell_clip": null')
    (skip / "options.json").write_text(text)
    lstm = read(skip).config.lstm
    assert (lstm.cell_clip, lstm.projection_clip) == (None, 3)


def test_skip_connections_left_out_mean_none(skip):
    edit_json(skip / "options.json", lstm__use_skip_connections=None)
    assert read(skip).config.lstm.skip_connections is False


def test_options_of_training_are_not_looked_at(skip):
    original = read(skip)
    edit_json(
        skip / "options.json", n_train_tokens="many", dropout=[], bidirectional=True, lstm__x=1
    )
    assert_equal(original, read(skip))


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"lstm__dim": "96"}, ["lstm: dim", "expected int", "'96'"]),
        ({"lstm__dim": None}, ["lstm: field 'dim' is missing"]),
        ({"lstm": None}, ["lstm: the block is missing"]),
        ({"lstm": [1]}, ["lstm", "found list"]),
        ({"lstm__cell_clip": "x"}, ["lstm: cell_clip", "'x'"]),
        ({"lstm__cell_clip": -1}, ["lstm: cell_clip: -1"]),
        ({"lstm__use_skip_connections": "yes"}, ["use_skip_connections", "'yes'"]),
        ({"lstm__n_layers": 10**12}, ["lstm: n_layers: 1000000000000"]),
        ({"lstm__n_layers": 0}, ["lstm: n_layers: 0"]),
        ({"char_cnn": "none"}, ["char_cnn", "found str"]),
        ({"char_cnn__filters": [[1, 8], [2]]}, ["char_cnn: filters[1]", "expected 2 values"]),
        ({"char_cnn__filters": [[99, 8]]}, ["filters", "99", "max_characters_per_token (50)"]),
        ({"char_cnn__filters": [[1, 8]] * 100_000}, ["char_cnn: filters: 100,000 pairs"]),
        ({"lstm__dim": 0}, ["lstm: dim: 0"]),
        ({"lstm__projection_dim": -3}, ["lstm: projection_dim: -3"]),
        ({"lstm__proj_clip": -2}, ["lstm: proj_clip: -2"]),
        ({"char_cnn__n_highway": -1}, ["char_cnn: n_highway: -1"]),
        ({"char_cnn__embedding__dim": 0}, ["char_cnn: embedding: dim: 0"]),
        ({"char_cnn__activation": "gelu"}, ["char_cnn: activation", "'gelu'", "'relu'"]),
        ({"char_cnn__embedding__dim": 1.5}, ["char_cnn: embedding: dim", "1.5"]),
        ({"char_cnn__max_characters_per_token": 2}, ["char_cnn: ", "max_characters_per_token"]),
    ],
)
def test_wrong_option_names_file_and_field(skip, changes, parts):
    edit_json(skip / "options.json", **changes)
    with one_line(skip / "options.json", *parts):
        read(skip)


@pytest.mark.parametrize("text", ["[1, 2]", "[" * 100_000, '"lstm"', "", "NaN"])
def test_options_that_are_no_object_are_one_line(skip, text):
    (skip / "options.json").write_text(text)
    with one_line(skip / "options.json"):
        read(skip)


def test_options_that_are_not_utf_8_name_line_and_byte(skip):
    (skip / "options.json").write_bytes(b'{\n"a": "\xff"}')
    with one_line(skip / "options.json", "line 2", "0xff"):
        read(skip)
