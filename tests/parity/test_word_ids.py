"""Models that read word ids against simple_elmo, and cached token vectors against AllenNLP."""

import numpy as np
import pytest

from elmokit import Embedder
from parity.cases import UNITS, assert_layers, load, odd_tokens, read_json

pytestmark = odd_tokens


@pytest.fixture(scope="module")
def token_lm(fixtures):
    return fixtures / "A3_token_lm"


@pytest.fixture(scope="module")
def sentences(fixtures):
    return read_json(fixtures / "A2_sentences.json")


def test_token_lm_reads_line_numbers_plus_one(token_lm, sentences):
    bilm = Embedder.from_pretrained(token_lm, device="cpu").bilm
    begin, end = bilm.boundaries
    expected = load(token_lm / "token_ids_plus1.npz")
    assert len(expected) == len(sentences)
    for number, sentence in enumerate(sentences):
        types = bilm.encode_words([begin, *sentence, end])
        assert types.char_ids is None
        assert types.word_ids.tolist() == expected[number].tolist()


def test_token_lm_fresh(token_lm, sentences):
    expected = load(token_lm / "fresh.npz")
    found = Embedder.from_pretrained(token_lm, device="cpu").embed(sentences)
    assert len(expected) == len(found)
    for number, layers in enumerate(found):
        assert_layers(layers, expected[number])


def test_token_lm_carried(token_lm, sentences):
    path = token_lm / "stateful_b4.npz"
    sizes, expected, done = np.load(path)["batch_sizes"].tolist(), load(path), 0
    assert sum(sizes) == len(expected) == len(sentences)
    embedder = Embedder.from_pretrained(token_lm, device="cpu", state="carry")
    for size in sizes:
        for number, found in enumerate(embedder.embed(sentences[done : done + size]), done):
            assert_layers(found, expected[number])
        done += size


def test_cached_tokens_take_the_place_of_the_character_cnn(fixtures):
    model, cached = fixtures / "A2_bilm_skip", fixtures / "A3_cached_tokens"
    given = read_json(cached / "sentences.json")
    expected = load(cached / "tf_fresh.npz")
    embedder = Embedder.from_pretrained(
        options=model / "options.json",
        weights=model / "weights.hdf5",
        vocab=cached / "vocab.txt",
        token_embeddings=cached / "token_embeddings.hdf5",
        device="cpu",
    )
    assert embedder.bilm.alphabet is None
    found = embedder.embed([*given["in_vocabulary"], *given["with_unknown"]])
    assert len(expected) == len(found)
    for number, layers in enumerate(found):
        assert_layers(layers, expected[number])


def test_characters_give_what_allennlp_caches(fixtures):
    """AllenNLP's `vocab_to_cache` only saves time: the character route has the same numbers."""
    path = fixtures / "A3_cached_tokens/allennlp_vocab_to_cache.npz"
    words = read_json(path.with_suffix(".json"))
    data, expected = np.load(path), load(path)
    embedder = Embedder.from_pretrained(fixtures / "A2_bilm_skip", device="cpu")
    tokens = embedder.embed([words], layers=0, boundaries=True)[0][:, : embedder.dim // 2]
    # Row 0 means padding in AllenNLP, whatever word stands there.
    cached = [data["bos"][None], data["word_embedding"][1:], data["eos"][None]]
    np.testing.assert_allclose(np.delete(tokens, 1, axis=0), np.concatenate(cached), **UNITS)
    sentences = read_json(fixtures / "A3_cached_tokens/sentences.json")["in_vocabulary"]
    assert len(expected) == 11
    for number, layers in expected.items():
        read = [words[i] for i in data[f"s{number:02}_word_ids"][0]]
        assert read == sentences[number]
        assert_layers(embedder.embed([read], boundaries=True)[0], layers)
