import copy
import dataclasses
import json
import pickle
import shutil

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from builders import char_bilm, char_config, sentences_of_lengths, word_bilm
from elmokit import checkpoints
from elmokit.characters import ByteAlphabet, UnicodeAlphabet
from elmokit.config import Card, CharCNNConfig
from elmokit.errors import CheckpointError, ConfigError, InputError
from elmokit.model import BiLM, batch_to_ids, index_words
from elmokit.nn import BiLMNetwork, LMSoftmax
from elmokit.vocabulary import InputWords, Vocabulary

SENTENCES = [["the", "cat", "<S>"], [], ["深い", "the", "x" * 60]]


def limited_bilm(limit: int) -> BiLM:
    """A model that keeps fewer characters of a word than the paper's."""
    characters = dataclasses.replace(char_config().characters, max_characters=limit)
    config = dataclasses.replace(char_config(), characters=characters)
    torch.manual_seed(0)
    return BiLM(BiLMNetwork(config), alphabet=ByteAlphabet(max_characters=limit)).eval()


def top(bilm: BiLM, sentences=SENTENCES) -> torch.Tensor:
    """The top layer of a batch, packed."""
    batch = bilm.encode(sentences)
    with torch.no_grad():
        layers, _ = bilm.network.run(bilm.network.encode_types(batch.types), batch)
    return layers.join(len(layers) - 1, batch.flipped())


def assert_same_tensors(first: BiLM, second: BiLM) -> None:
    one, other = first.network.state_dict(), second.network.state_dict()
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


# Checkpoints


@pytest.mark.parametrize("bilm", [char_bilm(), word_bilm(["tea", "深い"]), limited_bilm(10)])
def test_a_saved_model_is_loaded_as_it_was(bilm, tmp_path):
    bilm.vocabulary = Vocabulary(("<S>", "</S>", "<UNK>", "tea"))
    bilm.card = Card(name="small", tokenizer="whitespace", state="carry", notes="\ud800 \u2028")
    bilm.save_pretrained(tmp_path / "model")
    loaded = BiLM.from_pretrained(str(tmp_path / "model"))
    assert_same_tensors(bilm, loaded)
    assert (loaded.alphabet, loaded.words) == (bilm.alphabet, bilm.words)
    assert (loaded.card, loaded.config) == (bilm.card, bilm.config)
    assert list(loaded.vocabulary.words) == list(bilm.vocabulary.words)
    assert not loaded.training
    assert torch.equal(top(loaded), top(bilm))


def test_a_checkpoint_becomes_the_model_and_comes_back(fixtures):
    checkpoint = checkpoints.read(fixtures / "A2_bilm_skip")
    bilm = BiLM.from_checkpoint(checkpoint)
    name = "forward_lstm.0.input_weight"
    assert bilm.network.get_parameter(name).data_ptr() == checkpoint.tensors[name].data_ptr()
    assert all(parameter.requires_grad for parameter in bilm.parameters())
    again = bilm.to_checkpoint()
    assert again.tensors.keys() == checkpoint.tensors.keys()
    for name, tensor in checkpoint.tensors.items():
        assert torch.equal(again.tensors[name], tensor)
        assert not again.tensors[name].requires_grad
    for field in ("config", "alphabet", "words", "vocabulary", "card"):
        assert getattr(again, field) == getattr(checkpoint, field)


def test_a_model_of_other_numbers_is_written_as_float32():
    tensors = char_bilm().double().to_checkpoint().tensors
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}


def test_a_taken_directory_is_refused_and_left_alone(tmp_path):
    (tmp_path / "note").write_text("mine")
    with pytest.raises(CheckpointError, match="not empty"):
        char_bilm().save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["note"]


def test_loose_files_are_read(fixtures):
    folder = fixtures / "A2_bilm_skip"
    loose = BiLM.from_pretrained(
        options=folder / "options.json", weights=str(folder / "weights.hdf5")
    )
    assert_same_tensors(loose, BiLM.from_pretrained(folder))
    with pytest.raises(CheckpointError, match="weights= is missing"):
        BiLM.from_pretrained(options=folder / "options.json")
    with pytest.raises(CheckpointError, match="either a source"):
        BiLM.from_pretrained(folder, weights=folder / "weights.hdf5")


@pytest.mark.parametrize("bilm", [char_bilm(), word_bilm(["tea"])])
def test_copies_and_pickles_are_equal_and_apart(bilm):
    for copied in (copy.deepcopy(bilm), pickle.loads(pickle.dumps(bilm))):
        assert torch.equal(top(copied), top(bilm))
        assert copied.alphabet == bilm.alphabet
        assert copied.words == bilm.words
        before = top(bilm)
        with torch.no_grad():
            copied.network.forward_lstm[0].bias.add_(1)
        assert torch.equal(top(bilm), before)


# What fits


def test_an_alphabet_that_does_not_fit_is_refused():
    network = BiLMNetwork(char_config())
    with pytest.raises(ConfigError, match="alphabet: is missing"):
        BiLM(network)
    with pytest.raises(ConfigError, match="max_characters is 10, the network's is 50"):
        BiLM(network, alphabet=ByteAlphabet(max_characters=10))
    wide = UnicodeAlphabet(
        characters={},
        begin_word=1,
        end_word=2,
        unknown=3,
        padding=4,
        boundaries={"<bos>": 5, "<eos>": 6},
        num_characters=300,
    )
    with pytest.raises(ConfigError, match="ids go up to 300, the network's table to 261"):
        BiLM(network, alphabet=wide)
    with pytest.raises(ConfigError, match="word list: is given to a network that does not read it"):
        BiLM(network, alphabet=ByteAlphabet(), words=InputWords(words=("<S>", "</S>", "<UNK>")))


def test_a_table_may_have_rows_that_no_word_uses():
    cnn = CharCNNConfig(num_characters=262, embedding_dim=4, filters=((1, 4),), num_highway=0)
    config = dataclasses.replace(char_config(), characters=cnn)
    assert top(BiLM(BiLMNetwork(config), alphabet=ByteAlphabet())).isfinite().all()


def test_a_word_list_that_does_not_fit_is_refused():
    network = word_bilm(["tea"]).network
    with pytest.raises(ConfigError, match="word list: is missing"):
        BiLM(network)
    with pytest.raises(ConfigError, match="word list: 3 words, the network's table has 4"):
        BiLM(network, words=InputWords(words=("<S>", "</S>", "<UNK>")))
    with pytest.raises(ConfigError, match="alphabet: is given to a network that does not read it"):
        BiLM(network, alphabet=ByteAlphabet(), words=word_bilm(["tea"]).words)


def test_a_softmax_is_saved_and_needs_its_words(tmp_path):
    config = dataclasses.replace(char_config(), softmax_words=4)
    network, vocabulary = BiLMNetwork(config), Vocabulary(("<S>", "</S>", "<UNK>", "tea"))
    softmax = LMSoftmax(4, config.lstm.projection_dim)
    parts = {"alphabet": ByteAlphabet(), "softmax": softmax, "vocabulary": vocabulary}
    BiLM(network, **parts).save_pretrained(tmp_path / "m")
    loaded = BiLM.from_pretrained(tmp_path / "m")
    assert torch.equal(loaded.softmax.weight, softmax.weight)
    assert torch.equal(loaded.softmax.bias, softmax.bias)
    assert loaded.frozen().softmax.weight.data_ptr() == loaded.softmax.weight.data_ptr()
    with pytest.raises(ConfigError, match="softmax: has None words, the configuration 4"):
        BiLM(network, **parts | {"softmax": None})
    with pytest.raises(ConfigError, match="softmax: has 4 words, the configuration None"):
        BiLM(BiLMNetwork(char_config()), **parts)
    with pytest.raises(ConfigError, match="vocabulary: 0 words, the softmax has 4"):
        BiLM(network, **parts | {"vocabulary": None})


# Words and ids


@given(st.lists(st.lists(st.text(max_size=3), max_size=4), min_size=1, max_size=4))
def test_distinct_words_and_places_give_the_sentences_back(sentences):
    words, indices = index_words(sentences, ("<S>", "</S>"))
    assert len(set(words)) == len(words)
    assert words[:2] == ["<S>", "</S>"]
    assert [[words[i] for i in row] for row in indices] == [
        ["<S>", *sentence, "</S>"] for sentence in sentences
    ]


def test_one_word_may_stand_on_both_sides():
    assert index_words([["a"]], ("|", "|")) == (["|", "a"], [[0, 1, 0]])


def test_word_types_become_padded_ids():
    types = char_bilm().encode_words(["the", "", "x" * 60, "<S>"])
    assert types.word_ids is None
    assert types.char_ids.shape == (4, 50)
    assert types.char_ids[0].tolist() == [259, 117, 105, 102, 260, *[261] * 45]
    assert types.char_ids[1].tolist() == [259, 260, *[261] * 48]
    assert types.char_ids[2].tolist() == [259, *[121] * 48, 260]
    assert types.char_ids[3].tolist() == [259, 257, 260, *[261] * 47]
    types = word_bilm(["tea"]).encode_words(["tea", "coffee", "<S>"])
    assert types.char_ids is None
    assert types.word_ids.tolist() == [4, 3, 1]


def test_a_batch_holds_each_word_type_once_and_the_boundaries():
    batch = char_bilm().encode([["a", "b", "a"], [], ["b"]])
    assert len(batch.types.char_ids) == 4
    assert batch.lengths.tolist() == [5, 3, 2]
    assert batch.rows.tolist() == [0, 2, 1]
    assert char_bilm().boundaries == ("<S>", "</S>")


def test_boundaries_are_those_of_the_model(fixtures):
    assert BiLM.from_pretrained(fixtures / "B_efml_char_cnn").boundaries == ("<bos>", "<eos>")
    assert BiLM.from_pretrained(fixtures / "B_efml_word_only").boundaries == ("<bos>", "<eos>")
    assert word_bilm([]).boundaries == ("<S>", "</S>")


@pytest.mark.parametrize("sentences", ["the cat", ["the cat"], [["a", 1]], None])
def test_what_is_no_list_of_token_lists_is_refused(sentences):
    bilm = char_bilm()
    for call in (bilm.encode, bilm.batch_to_ids, batch_to_ids):
        with pytest.raises(InputError, match="sentences"):
            call(sentences)


def test_no_sentence_is_no_batch():
    with pytest.raises(InputError, match="at least one sentence"):
        char_bilm().encode([])


def test_ids_are_laid_out_as_allennlp_does(fixtures):
    for case in json.loads((fixtures / "C_char_ids" / "batch_to_ids.json").read_text()):
        ids = batch_to_ids(case["batch"])
        assert ids.shape == tuple(case["shape"])
        assert ids.dtype == torch.int64
        assert ids.tolist() == case["ids"]


def test_ids_of_nothing_have_a_shape_too():
    assert batch_to_ids([]).shape == (0, 0, 50)
    assert batch_to_ids([[], []]).shape == (2, 0, 50)


@pytest.mark.parametrize("limit", [5, 10, 70])
def test_ids_have_the_limit_of_their_model(limit):
    bilm = limited_bilm(limit)
    ids = bilm.batch_to_ids(SENTENCES)
    assert ids.shape == (3, 3, limit)
    assert torch.equal(ids, batch_to_ids(SENTENCES, max_characters=limit))
    assert ids[2, 2].tolist() == [259, *[121] * min(60, limit - 2), 260, *[261] * (limit - 62)]
    assert bilm.encode_words(["abc"]).char_ids.shape == (1, limit)


def test_ids_need_the_byte_alphabet(fixtures):
    for name in ("B_efml_char_cnn", "B_efml_word_only", "A3_token_lm"):
        with pytest.raises(ConfigError, match=r"does not read the byte alphabet; use encode"):
            BiLM.from_pretrained(fixtures / name).batch_to_ids([["a"]])
    with pytest.raises(ConfigError, match="max_characters: 2 leaves no room"):
        batch_to_ids([["a"]], max_characters=2)


# Frozen models and cards


def test_a_frozen_model_shares_memory_and_takes_no_gradient():
    bilm = char_bilm()
    frozen = bilm.frozen()
    for (name, parameter), other in zip(bilm.named_parameters(), frozen.parameters(), strict=True):
        assert parameter.requires_grad
        assert not other.requires_grad
        assert other.data_ptr() == parameter.data_ptr(), name
    # A state of its own, which may be calibrated without a change to others.
    assert torch.equal(frozen.initial_state.h, bilm.initial_state.h)
    assert frozen.initial_state.h.data_ptr() != bilm.initial_state.h.data_ptr()
    assert frozen.alphabet is bilm.alphabet
    assert torch.equal(top(frozen), top(bilm))
    assert not top_with_graph(frozen).requires_grad
    assert not frozen.training


def top_with_graph(bilm: BiLM) -> torch.Tensor:
    batch = bilm.encode(SENTENCES)
    layers, _ = bilm.network.run(bilm.network.encode_types(batch.types), batch)
    return layers.forward[-1]


def test_another_card_leaves_the_model_and_its_network():
    bilm = char_bilm()
    other = bilm.with_card(name="x", state="carry")
    assert (other.card.name, other.card.state) == ("x", "carry")
    assert bilm.card == Card()
    assert other.network is bilm.network
    assert other.alphabet is bilm.alphabet


def test_a_card_takes_known_fields_and_values_only():
    with pytest.raises(ConfigError, match=r"card: unknown field 'licens' \(did you mean 'licence'"):
        char_bilm().with_card(licens="MIT")
    with pytest.raises(ConfigError, match="card: state: 'warm' is not one of"):
        char_bilm().with_card(state="warm")


# Unknown characters


def test_characters_outside_the_training_vocabulary_are_unknown():
    bilm = char_bilm()
    assert bilm.count_unknown("გამარჯობა\ud800") == 1  # no list: only what has no bytes
    bilm.vocabulary = Vocabulary(("<S>", "</S>", "<UNK>", "the", "cat"))
    assert bilm.count_unknown("that") == 0
    assert bilm.count_unknown("dog") == 3
    assert bilm.count_unknown("გა\ud800") == 3
    assert bilm.count_unknown("<S>") == 0


def test_characters_of_another_alphabet_are_unknown(fixtures):
    assert BiLM.from_pretrained(fixtures / "B_efml_char_cnn").count_unknown("აa") == 1
    assert word_bilm(["tea"]).count_unknown("ა") == 0


def test_the_device_is_that_of_the_parameters():
    bilm = char_bilm()
    assert bilm.device == torch.device("cpu")
    assert bilm.to("meta").device == torch.device("meta")


def test_a_model_on_disk_needs_no_network(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr("socket.socket.connect", refuse)
    char_bilm().save_pretrained(tmp_path / "a")
    shutil.move(tmp_path / "a", tmp_path / "b")
    assert torch.equal(top(BiLM.from_pretrained(tmp_path / "b")), top(char_bilm()))


def test_sentences_of_any_length_are_packed():
    lengths = [7, 0, 3, 1, 3]
    batch = char_bilm().encode(sentences_of_lengths(lengths))
    assert batch.num_positions == sum(lengths) + 2 * len(lengths)
    assert sorted(batch.rows.tolist()) == [0, 1, 2, 3, 4]
