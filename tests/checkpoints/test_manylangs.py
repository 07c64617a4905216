import json
import shutil

import pytest
import torch
from checkpoint_samples import MANYLANGS_MODELS, copy_model, edit_json, one_line

from elmokit.checkpoints import describe, layout, read
from elmokit.config import CharCNNConfig, LSTMConfig, WordEmbeddingConfig

WORD_TABLE = "word_emb_layer.embedding.weight"


@pytest.fixture
def char_model(fixtures, tmp_path):
    """Characters only, pickles of the old format."""
    return copy_model(fixtures / "B_efml_char_cnn", tmp_path / "char")


@pytest.fixture
def word_model(fixtures, tmp_path):
    """Words only, pickles of the old format."""
    return copy_model(fixtures / "B_efml_word_only", tmp_path / "word")


def edit_pickle(path, **changes):
    """Changes tensors of a pickle (`__` stands for a dot), or removes those given as None."""
    tensors = torch.load(path, weights_only=True, map_location="cpu")
    for key, tensor in changes.items():
        tensors[key.replace("__", ".")] = tensor
    torch.save({name: tensor for name, tensor in tensors.items() if tensor is not None}, path)


def edit_lines(path, change):
    path.write_text("".join(change(path.read_text().splitlines(keepends=True))))


# Ids


@pytest.mark.parametrize("folder", MANYLANGS_MODELS)
def test_ids_are_those_of_the_original(fixtures, folder):
    checkpoint = read(fixtures / folder)
    alphabet, words = checkpoint.alphabet, checkpoint.words
    begin, end = (words.begin, words.end) if words else alphabet.sentence_marks
    sentences = json.loads((fixtures / "B_sentences.json").read_text())
    fed = json.loads((fixtures / folder / "ids.json").read_text())
    for sentence, ids in zip(sentences, fed, strict=True):
        tokens = [begin, *sentence, end]
        assert len(tokens) == len(ids["tokens_with_boundaries"])
        if words:
            assert [words.encode(token) - 1 for token in tokens] == ids["word_ids"]
        if alphabet:
            padding = [alphabet.padding] * alphabet.max_characters
            spelled = [(alphabet.encode(t) + padding)[: alphabet.max_characters] for t in tokens]
            assert [[i - 1 for i in row] for row in spelled] == ids["char_ids"]


def test_marks_of_words_are_swapped(char_model):
    dictionary = dict(
        line.split("\t") for line in (char_model / "char.dic").read_text().split("\n") if line
    )
    alphabet = read(char_model).alphabet
    assert alphabet.begin_word == int(dictionary["<eow>"]) + 1
    assert alphabet.end_word == int(dictionary["<bow>"]) + 1


def test_words_are_cut_before_their_look_up(word_model, both_model):
    for model in (word_model, both_model):
        words = read(model).words
        known = next(word for word in words.words if len(word) == 48)
        assert words.encode(known + "and more") == words.encode(known) != words.encode("<oov>")


def test_padding_rows_are_learnt_and_not_zero(both_model):
    checkpoint = read(both_model)
    characters = checkpoint.tensors[f"{layout.CHARACTERS}.embedding.weight"]
    assert characters[checkpoint.alphabet.padding].any()
    assert checkpoint.tensors[layout.WORDS][checkpoint.words.encode("<pad>")].any()


@pytest.mark.parametrize("space", [" ", "\u00a0", "\u2003", "\u3000"])
def test_a_key_of_white_space_is_found_as_u3000(char_model, space):
    path = char_model / "char.dic"
    text = path.read_text()
    position = next(line for line in text.split("\n") if line.startswith("\u3000")).split("\t")[1]
    path.write_text(text.replace("\u3000", space))
    alphabet = read(char_model).alphabet
    assert alphabet.characters["\u3000"] == int(position) + 1
    assert [c for c in (" ", "\u00a0", "\u2003") if c in alphabet.characters] == []


@pytest.mark.parametrize("end", ["\u2028", "\x85", "\x0b", "\x1c", "\r\n", "\r"])
def test_lines_end_where_codecs_ends_them(char_model, end):
    expected = read(char_model).alphabet
    path = char_model / "char.dic"
    path.write_bytes(path.read_text().replace("\n", end).encode())
    assert read(char_model).alphabet == expected


def test_a_key_that_ends_lines_is_white_space_too(char_model):
    path = char_model / "char.dic"
    expected = read(char_model).alphabet
    path.write_text(path.read_text().replace("\u3000", "\u2028"))
    assert read(char_model).alphabet == expected


# Configurations


def test_configurations_of_the_references(fixtures):
    char, both, word, plain = (
        read(fixtures / f"B_efml_{name}").config
        for name in ("char_cnn", "word_char_cnn", "word_only", "lstm_encoder")
    )
    assert char.lstm == LSTMConfig(cell_dim=48, projection_dim=16, cell_clip=3, projection_clip=3)
    assert char.lstm.forget_bias == 0
    assert char.characters == CharCNNConfig(
        num_characters=73,
        embedding_dim=12,
        filters=((1, 8), (2, 8), (3, 16), (4, 16)),
        num_highway=2,
    )
    assert char.words is None
    assert both.words == WordEmbeddingConfig(num_words=39, embedding_dim=10)
    assert both.token_dim == 58
    assert both.token_projection
    assert word.characters is None
    assert word.words == WordEmbeddingConfig(num_words=39, embedding_dim=16)
    assert word.token_projection
    assert plain.lstm == LSTMConfig(
        kind="stacked",
        cell_dim=20,
        projection_dim=12,
        cell_clip=None,
        projection_clip=None,
        skip_connections=False,
    )
    assert plain.characters.activation == "tanh"


def test_tensors_keep_their_numbers(both_model):
    checkpoint = read(both_model)
    embedder, encoder = (
        torch.load(both_model / name, weights_only=True)
        for name in ("token_embedder.pkl", "encoder.pkl")
    )
    tensors = checkpoint.tensors
    assert torch.equal(tensors[layout.WORDS][1:], embedder[WORD_TABLE])
    for native, foreign in (
        (f"{layout.CHARACTERS}.highways.0.weight", "highways._layers.0.weight"),
        (f"{layout.CHARACTERS}.convolutions.3.bias", "convolutions.3.bias"),
        (f"{layout.PROJECTION}.weight", "projection.weight"),
    ):
        assert torch.equal(tensors[native], embedder[foreign])
    backward = layout.layer("backward", 1)
    for native, foreign in (
        (f"{backward}.input_weight", "backward_layer_1.input_linearity.weight"),
        (f"{backward}.recurrent_weight", "backward_layer_1.state_linearity.weight"),
        (f"{backward}.bias", "backward_layer_1.state_linearity.bias"),
        (f"{backward}.projection", "backward_layer_1.state_projection.weight"),
    ):
        assert torch.equal(tensors[native], encoder[foreign])


@pytest.mark.parametrize("clip", [None, 0])
def test_no_clip(char_model, clip):
    edit_json(char_model / "cnn_0_12_16_48.json", encoder__cell_clip=clip, encoder__proj_clip=clip)
    lstm = read(char_model).config.lstm
    assert (lstm.cell_clip, lstm.projection_clip) == (None, None)


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"encoder": None}, ["encoder", "expected named fields"]),
        ({"encoder__dim": "48"}, ["encoder: dim", "'48'"]),
        ({"encoder__dim": 47}, ["encoder.pkl", "(192, 16)"]),
        ({"encoder__n_layers": 10**12}, ["encoder: n_layers: 1000000000000"]),
        ({"encoder__name": "gru"}, ["encoder: name", "'gru'"]),
        ({"token_embedder__name": "bpe"}, ["token_embedder: name", "'bpe'"]),
        ({"token_embedder__char_dim": None}, ["token_embedder: field 'char_dim'"]),
        (
            {"token_embedder__char_dim": 0},
            ["token_embedder: char_dim, word_dim: a model needs at least one"],
        ),
        ({"token_embedder__char_dim": 13}, ["token_embedder.pkl", "(73, 12) instead of (73, 13)"]),
        ({"token_embedder__max_characters_per_token": None}, ["max_characters_per_token"]),
        ({"token_embedder__filters": []}, ["token_embedder: filters"]),
        (
            {"token_embedder__max_characters_per_token": 3},
            ["filters: the widest (4) exceeds max_characters_per_token (3)"],
        ),
        ({"token_embedder__n_highway": -1}, ["token_embedder: n_highway: -1"]),
        ({"encoder__proj_clip": -1}, ["encoder: proj_clip: -1"]),
        ({"token_embedder__n_highway": 3}, ["highways._layers.2.bias (96,) is missing"]),
    ],
)
def test_wrong_network_configuration_names_the_field(char_model, changes, parts):
    edit_json(char_model / "cnn_0_12_16_48.json", **changes)
    with one_line("cnn_0_12_16_48.json", *parts):
        read(char_model)


def test_a_limit_that_leaves_no_characters_names_the_file(word_model):
    edit_json(word_model / "word.json", token_embedder__max_characters_per_token=2)
    with one_line(word_model / "word.json", "token_embedder: max_characters_per_token - 2: 0"):
        read(word_model)


def test_token_embedder_lstm_of_words_is_the_projection_of_the_row(word_model):
    expected = read(word_model)
    edit_json(
        word_model / "word.json", token_embedder={"name": "lstm", "word_dim": 16, "char_dim": 0}
    )
    checkpoint = read(word_model)
    assert checkpoint.config == expected.config
    assert checkpoint.words.max_characters is None
    assert expected.words.max_characters == 48


def test_token_embedder_lstm_over_characters_is_refused(char_model):
    edit_json(char_model / "cnn_0_12_16_48.json", token_embedder__name="LSTM")
    with one_line("cnn_0_12_16_48.json", "'lstm' over characters"):
        read(char_model)


# config_path


@pytest.mark.parametrize(
    "config_path",
    [
        "cnn_0_12_16_48.json",
        "./cnn_0_12_16_48.json",
        "configs/elsewhere/cnn_0_12_16_48.json",
        "/nowhere/cnn_0_12_16_48.json",
        "C:\\nowhere\\cnn_0_12_16_48.json",
    ],
)
def test_network_configuration_is_found_beside_the_model(char_model, config_path):
    edit_json(char_model / "config.json", config_path=config_path)
    assert "cnn_0_12_16_48.json" in describe(char_model).files
    read(char_model)


def test_network_configuration_may_lie_where_config_path_says(char_model, tmp_path):
    shutil.move(char_model / "cnn_0_12_16_48.json", tmp_path / "other.json")
    for config_path in ("../other.json", str(tmp_path / "other.json")):
        edit_json(char_model / "config.json", config_path=config_path)
        read(char_model)


def test_well_known_network_configuration_is_at_hand(tmp_path):
    """The published models are large: here only the way to their configuration is gone."""
    model = tmp_path / "model"
    model.mkdir()
    path = "/nowhere/cnn_50_100_512_4096_sample.json"
    (model / "config.json").write_text(json.dumps({"config_path": path}))
    for name in ("token_embedder.pkl", "encoder.pkl"):
        torch.save({}, model / name)
    special = ["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"]
    for name in ("char.dic", "word.dic"):
        (model / name).write_text("".join(f"{word}\t{i}\n" for i, word in enumerate(special)))
    with one_line(
        model / "token_embedder.pkl",
        "do not fit cnn_50_100_512_4096_sample.json",
        "char_emb_layer.embedding.weight (6, 50) is missing",
        "convolutions.6.weight (1024, 50, 7) is missing",
        "projection.weight (512, 2148) is missing",
        "highways._layers.1.weight (4096, 2048) is missing",
        "word_emb_layer.embedding.weight (6, 100) is missing",
    ):
        read(model)


@pytest.mark.parametrize("config_path", ["/nowhere/unknown.json", None, "", 3])
def test_a_network_configuration_that_is_nowhere_is_told(char_model, config_path):
    edit_json(char_model / "config.json", config_path=config_path)
    missing = "unknown.json" if config_path == "/nowhere/unknown.json" else "the field"
    with one_line(f"manylangs lacks {missing}", "config_path"):
        read(char_model)


# Files that do not belong together


def test_a_dictionary_that_is_needed_and_missing_is_told(both_model):
    for name in ("char.dic", "word.dic"):
        hidden = (both_model / name).rename(both_model / "hidden")
        with one_line(f"manylangs lacks {name}"):
            read(both_model)
        hidden.rename(both_model / name)


def test_dictionary_that_is_not_needed_may_be_missing(char_model):
    (char_model / "word.dic").unlink()
    assert read(char_model).words is None


@pytest.mark.parametrize("name", ["char.dic", "word.dic"])
def test_number_of_entries_must_be_that_of_the_rows(both_model, name):
    edit_lines(both_model / name, lambda lines: lines[:9])
    rows = "72 rows" if name == "char.dic" else "39 rows"
    with one_line(both_model / name, "9 entries", both_model / "token_embedder.pkl", rows):
        read(both_model)


@pytest.mark.parametrize(
    "line", ["ab\t1\t2\n", "ab\tx\n", "ab\n", "\tx\n", "a b 3\n", "\u2028ab\u2028\n", "a\t1.0\n"]
)
def test_a_strange_line_of_a_dictionary_is_named(both_model, line):
    edit_lines(both_model / "word.dic", lambda lines: [*lines[:6], line, *lines[6:]])
    with one_line(f"{both_model / 'word.dic'}, line"):
        read(both_model)


def test_dictionary_that_is_not_utf_8(both_model):
    with (both_model / "word.dic").open("ab") as file:
        file.write(b"caf\xe9\t99\n")
    with one_line(both_model / "word.dic", "line 40", "0xe9"):
        read(both_model)


@pytest.mark.parametrize("number", ["-1", "39", "7"])
def test_ids_must_name_each_row_once(both_model, number):
    def renumber(lines):
        return [*lines[:-1], lines[-1].split("\t")[0] + f"\t{number}\n"]

    edit_lines(both_model / "word.dic", renumber)
    with one_line(both_model / "word.dic", "0 to 38"):
        read(both_model)


def test_order_of_lines_does_not_matter(both_model):
    expected = read(both_model)
    for name in ("char.dic", "word.dic"):
        edit_lines(both_model / name, lambda lines: lines[::-1])
    assert read(both_model).words == expected.words
    assert read(both_model).alphabet == expected.alphabet


@pytest.mark.parametrize(
    ("name", "word"),
    [("char.dic", w) for w in ("<bos>", "<eos>", "<bow>", "<eow>", "<oov>", "<pad>")]
    + [("word.dic", w) for w in ("<bos>", "<eos>", "<oov>")],
)
def test_special_entries_must_be_listed(both_model, name, word):
    edit_lines(both_model / name, lambda lines: [line.replace(word, "other") for line in lines])
    with one_line(both_model / name, f"{word} must be listed"):
        read(both_model)


def test_all_tensor_problems_of_a_pickle_are_told(both_model):
    edit_pickle(
        both_model / "encoder.pkl",
        forward_layer_0__state_linearity__bias=torch.zeros(160, dtype=torch.int32),
        backward_layer_1__state_projection__weight=None,
        surplus=torch.zeros(2),
    )
    with one_line(
        both_model / "encoder.pkl",
        "cnn_10_8_14_40.json",
        "backward_layer_1.state_projection.weight (14, 40) is missing",
        "forward_layer_0.state_linearity.bias holds int32",
        "surplus (2,) is unexpected",
    ):
        read(both_model)
