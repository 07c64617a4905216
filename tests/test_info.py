import dataclasses

import pytest

from builders import char_bilm, char_config, word_bilm
from elmokit import BiLM, Elmo
from elmokit.characters import ByteAlphabet
from elmokit.config import Card
from elmokit.embedding.embedder import Embedder
from elmokit.errors import CheckpointError
from elmokit.info import describe
from elmokit.nn import BiLMNetwork, LMSoftmax
from elmokit.vocabulary import Vocabulary


def softmax_bilm() -> BiLM:
    """A model that predicts the next of four words."""
    config = dataclasses.replace(char_config(), softmax_words=4)
    return BiLM(
        BiLMNetwork(config),
        alphabet=ByteAlphabet(),
        softmax=LMSoftmax(4, config.lstm.projection_dim),
        vocabulary=Vocabulary(("<S>", "</S>", "<UNK>", "tea")),
    )


def saved(bilm, path):
    bilm.save_pretrained(path)
    return path


def test_facts_of_a_published_format(fixtures):
    facts = describe(fixtures / "A2_bilm_skip")
    assert facts["format"] == "allennlp"
    assert facts["files"] == "options.json, weights.hdf5"
    assert facts["vectors"].startswith("(4, T, 32) for layers all, (T, 32) for mean, top")
    assert facts["LSTM layers"] == (
        "3 per direction, cell 96, projection 16, with skip connections, "
        "cell clip 3, projection clip 3"
    )
    assert facts["parameters"] == "100,408"
    assert facts["input"] == "bytes, the first 48 of a token (261 ids)"
    assert facts["word list"].startswith("none: characters never seen in training")
    assert facts["softmax"] == "none: the model cannot score or predict words"
    assert facts["state policy"] == "fresh; initial state zero"
    assert facts["tokenizer"].startswith("not recorded")
    assert "model" not in facts  # the format has no name for it


@pytest.mark.parametrize(
    ("name", "fact", "text"),
    [
        ("A2_bilm_noskip", "LSTM layers", "without skip connections"),
        ("A3_token_lm", "input", "word ids (107 words, <UNK> for others)"),
        ("A3_token_lm", "word list", "107 words"),
        ("A3_token_lm", "vectors", "(3, T, 48) for layers all"),
        ("B_efml_word_char_cnn", "format", "manylangs"),
        ("B_efml_word_char_cnn", "input", "Unicode characters, the first 48 of a token ("),
        ("B_efml_word_char_cnn", "input", " and word ids ("),
        ("B_efml_lstm_encoder", "vectors", "(1, T, 24) for layers all"),
        ("B_efml_lstm_encoder", "LSTM layers", "2 per direction, cell 20, projection 12, stacked"),
        ("B_efml_lstm_encoder", "state policy", "none"),
    ],
)
def test_facts_of_other_kinds(fixtures, name, fact, text):
    assert text in describe(fixtures / name)[fact]


def test_the_card_is_told(tmp_path):
    card = Card(
        name="tea-elmo",
        language="English",
        tokenizer="spacy:en",
        case="lower",
        licence="CC0-1.0",
        provenance="trained here",
        notes="for tea only",
        training={"steps": 12_000, "text": "leaves"},
        results={"perplexity": 61.5},
    )
    bilm = char_bilm().with_card(**card.to_dict())
    facts = describe(saved(bilm, tmp_path / "m"))
    assert facts["model"] == "tea-elmo"
    for name in ("language", "tokenizer", "case", "licence", "provenance", "notes"):
        assert facts[name] == getattr(card, name)
    assert facts["training"] == "steps: 12,000; text: leaves"
    assert facts["measured"] == "1 results, in bilm.card.results"


def test_a_softmax_is_told(tmp_path):
    bilm = softmax_bilm()
    facts = describe(saved(bilm, tmp_path / "m"))
    assert facts["softmax"] == "over 4 words"
    own = sum(parameter.numel() for parameter in bilm.network.parameters())
    rows = 4 * (bilm.config.lstm.projection_dim + 1)
    assert facts["parameters"] == f"{own:,} and {rows} in the softmax"


def test_the_share_of_untrained_bytes_is_told(tmp_path):
    bilm = char_bilm()
    bilm.vocabulary = Vocabulary(("<S>", "</S>", "<UNK>", "the", "é"))
    facts = describe(saved(bilm, tmp_path / "m"))
    seen = len(set("<S></S><UNK>theé".encode()))
    assert facts["word list"] == (
        f"5 words; {seen} of 256 byte ids occur in it, the other {256 - seen} are untrained"
    )


def test_the_state_policy_of_a_fine_tuned_model_is_told(tmp_path):
    elmo = Elmo(char_bilm(), trainable=True, state="carry")
    assert describe(saved(elmo.bilm, tmp_path / "m"))["state policy"] == "carry; initial state zero"


def test_a_calibrated_state_is_told(tmp_path):
    emb = Embedder(char_bilm())
    emb.calibrate([["the", "kettle", "boils"]])
    facts = describe(saved(emb.bilm, tmp_path / "m"))
    assert facts["state policy"] == "fresh; initial state calibrated"


def test_files_that_are_not_read_are_told(fixtures, tmp_path):
    folder = saved(word_bilm(["tea"]), tmp_path / "m")
    (folder / "old_weights.hdf5").write_bytes(b"")
    facts = describe(folder)
    assert facts["files"] == "config.json, model.safetensors, words.json"
    assert facts["not read"] == "old_weights.hdf5"


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="no model of a known format"):
        describe(tmp_path)
