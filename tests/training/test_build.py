import pytest
import torch

from builders import char_bilm
from elmokit import BiLM
from elmokit.characters import ByteAlphabet, UnicodeAlphabet
from elmokit.errors import ConfigError
from elmokit.nn import LMSoftmax
from elmokit.training.build import build, rebuild, structure, vocabulary_of
from elmokit.training.corpus import prepare
from elmokit.vocabulary import BEGIN, END, UNKNOWN, Vocabulary
from training.corpora import write_text
from training.runs import assert_same, make_config

WORDS = Vocabulary((BEGIN, END, UNKNOWN, "bab", "深い", "<S"))
LINES = ["bab bab 深い", "深い <S> a👩‍🔬", "c"]


@pytest.fixture
def corpus(tmp_path):
    text = write_text(tmp_path / "text", LINES)
    return prepare([str(text)], WORDS, tmp_path / "made")


@pytest.fixture
def source(fixtures):
    return BiLM.from_pretrained(fixtures / "E_training_char")


def config(tmp_path, **changes):
    return make_config(tmp_path, tmp_path / "run", **changes)


def test_a_new_model_of_bytes(tmp_path, corpus):
    bilm = build(config(tmp_path), corpus, None)
    assert bilm.training
    assert bilm.alphabet == ByteAlphabet(max_characters=12)
    assert bilm.words is None
    assert bilm.vocabulary == WORDS
    assert bilm.config.characters.max_characters == 12
    assert bilm.config.softmax_words == 6
    assert not bilm.config.token_projection  # 8 filters, 8 wide
    assert bilm.card.provenance.startswith("trained on 1 file, 3 lines (0 blank), 3 sentences")


def test_a_new_model_of_words(tmp_path, corpus):
    bilm = build(config(tmp_path, model__input="words"), corpus, None)
    assert bilm.alphabet is None
    assert bilm.words.words == WORDS.words
    assert bilm.config.words.embedding_dim == bilm.config.lstm.projection_dim == 8
    assert not bilm.config.token_projection


def test_a_new_model_of_the_characters_of_its_text(tmp_path, corpus):
    made = config(tmp_path, model__input="characters", model__filters=[[1, 4], [2, 5]])
    bilm = build(made, corpus, None)
    alphabet = bilm.alphabet
    assert isinstance(alphabet, UnicodeAlphabet)
    # Twice and more: b four times; a three times; 深 and い twice. The boundary is no word.
    assert list(alphabet.characters) == ["b", "a", "い", "深"]
    assert alphabet.num_characters == bilm.config.characters.num_characters == 10
    assert alphabet.max_characters == 12
    assert bilm.config.token_projection
    ids = [alphabet.encode(word) for word in corpus.types]
    assert all(1 <= number <= 10 for row in ids for number in row)
    assert alphabet.count_unknown("a👩‍🔬") == 3
    assert alphabet.encode(BEGIN) != alphabet.encode("<S")


def test_characters_too_rare_are_told(tmp_path, corpus):
    made = config(tmp_path, model__input="characters", model__min_character_count=5)
    with pytest.raises(ConfigError) as caught:
        build(made, corpus, None)
    assert str(caught.value) == (
        "model.min_character_count: no character occurs 5 times, the most frequent one does 4 "
        "times; lower it"
    )


@pytest.mark.parametrize("kind", ["bytes", "characters", "words"])
def test_the_seed_decides_the_weights(tmp_path, corpus, kind):
    first, second, other = (
        build(config(tmp_path, seed=seed, model__input=kind), corpus, None).state_dict()
        for seed in (1, 1, 2)
    )
    assert_same(first, second)
    assert not torch.equal(first["softmax.weight"], other["softmax.weight"])


@pytest.mark.parametrize("kind", ["bytes", "characters", "words"])
def test_a_model_is_rebuilt_from_plain_values_and_tensors(tmp_path, corpus, kind):
    bilm = build(config(tmp_path, model__input=kind), corpus, None)
    again = rebuild(structure(bilm), bilm.state_dict(), WORDS)
    assert (again.config, again.alphabet, again.words) == (bilm.config, bilm.alphabet, bilm.words)
    assert (again.vocabulary, again.card) == (bilm.vocabulary, bilm.card)
    assert again.training
    assert_same(again.state_dict(), bilm.state_dict())


def test_a_softmax_starts_from_frequencies_or_as_bilm_tfs(tmp_path, corpus):
    bilm = build(config(tmp_path), corpus, None)
    assert bilm.softmax.bias.exp().sum().item() == pytest.approx(1)
    other = build(config(tmp_path, objective__softmax_init="bilm-tf"), corpus, None)
    assert not other.softmax.bias.any()


# From a trained model


def test_a_kept_softmax_is_the_models_own(tmp_path, corpus, source):
    made = config(tmp_path, start={"model": "m"})
    before = {name: tensor.clone() for name, tensor in source.state_dict().items()}
    assert vocabulary_of(made, source) == source.vocabulary
    bilm = build(made, corpus, source)
    assert bilm.training
    assert_same(dict(bilm.state_dict()), before)
    assert bilm.card.provenance.startswith("training checkpoint of bilm-tf (options.json, model")
    assert "; then trained on 1 file, 3 lines" in bilm.card.provenance


def test_a_new_softmax_is_of_the_runs_words(tmp_path, corpus, source):
    made = config(tmp_path, start={"model": "m", "softmax": "new"})
    assert vocabulary_of(made, source) is None
    before = {name: tensor.clone() for name, tensor in source.network.state_dict().items()}
    bilm = build(made, corpus, source)
    assert bilm.vocabulary == WORDS
    assert bilm.softmax.weight.shape == (6, source.config.lstm.projection_dim)
    assert_same(dict(bilm.network.state_dict()), before)


def test_a_model_without_softmax_has_none_to_keep(tmp_path):
    with pytest.raises(ConfigError) as caught:
        vocabulary_of(config(tmp_path, start={"model": "m"}), char_bilm())
    assert str(caught.value) == (
        "start.softmax: m has no softmax to keep; set it to new, and data.vocabulary to a word list"
    )


def test_a_new_model_has_the_runs_words(tmp_path):
    assert vocabulary_of(config(tmp_path), None) is None


def test_a_softmax_of_another_size_is_no_part(tmp_path, corpus):
    bilm = build(config(tmp_path), corpus, None)
    assert isinstance(bilm.softmax, LMSoftmax)
    with pytest.raises(ConfigError, match="vocabulary: 2 words, the softmax has 6"):
        rebuild(structure(bilm), bilm.state_dict(), Vocabulary(("a", "b")))
