"""ELMoForManyLangs directories: what a model is fed, and what it returns."""

import numpy as np
import pytest

from elmokit import Embedder
from parity.cases import LAYERS, assert_layers, load, odd_tokens, read_json

pytestmark = odd_tokens

STACKED = "B_efml_lstm_encoder"
PROJECTED = ("B_efml_char_cnn", "B_efml_word_char_cnn", "B_efml_word_only")


@pytest.fixture(scope="module")
def sentences(fixtures):
    return read_json(fixtures / "B_sentences.json")


@pytest.fixture(params=[*PROJECTED, STACKED])
def folder(fixtures, request):
    return fixtures / request.param


@pytest.fixture(params=PROJECTED)
def projected(fixtures, request):
    return fixtures / request.param


@pytest.fixture
def stacked(fixtures):
    return fixtures / STACKED


def embedder(folder, state="fresh"):
    return Embedder.from_pretrained(folder, device="cpu", state=state)


def test_ids_as_fed(folder, sentences):
    bilm = embedder(folder).bilm
    begin, end = bilm.boundaries
    limit = (bilm.alphabet.max_characters - 2) if bilm.alphabet else bilm.words.max_characters
    fed = read_json(folder / "ids.json")
    assert len(fed) == len(sentences)
    for sentence, expected in zip(sentences, fed, strict=True):
        tokens = [begin, *sentence, end]
        assert [token[:limit] for token in tokens] == expected["tokens_with_boundaries"]
        types = bilm.encode_words(tokens)
        for ours, file_ids in (
            (types.word_ids, expected["word_ids"]),
            (types.char_ids, expected["char_ids"]),
        ):
            assert (ours is None) == (file_ids is None)
            if ours is not None:
                assert (ours - 1).tolist() == file_ids


@pytest.mark.parametrize("file", ["fresh", "one_batch"])
def test_projected_fresh(projected, sentences, file):
    expected = load(projected / f"{file}.npz")
    assert len(expected) == len(sentences)
    for number, found in enumerate(embedder(projected).embed(sentences)):
        assert_layers(found, expected[number])


def test_projected_carried_one_by_one(projected, sentences):
    expected = load(projected / "one_by_one_state_carried.npz")
    carrying = embedder(projected, state="carry")
    assert len(expected) == len(sentences)
    for number, sentence in enumerate(sentences):
        assert_layers(carrying.embed([sentence])[0], expected[number])


def batches_of_4(folder):
    """(sentence numbers in row order, expected arrays of the call) for each batch as it was run."""
    orders = read_json(folder / "batches_of_4_order.json")
    for call in (1, 2):
        expected = load(folder / "batches_of_4_state_carried.npz", prefix=f"call{call}_s")
        order = orders[f"call{call}_processing_order"]
        assert sorted(number for batch in order for number in batch) == sorted(expected)
        for batch in order:
            yield batch, expected


def test_projected_carried_in_batches(projected, sentences):
    carrying = embedder(projected, state="carry")
    for batch, expected in batches_of_4(projected):
        found = carrying.embed([sentences[number] for number in batch])
        for number, layers in zip(batch, found, strict=True):
            assert_layers(layers, expected[number])


def test_projected_default_output_is_the_mean_of_the_layers(projected, sentences):
    expected = load(projected / "default_output_layer_minus1.npz")
    assert len(expected) == len(sentences)
    for number, found in enumerate(embedder(projected).embed(sentences, layers="mean")):
        np.testing.assert_allclose(found, expected[number], **LAYERS)


@pytest.mark.parametrize("file", ["fresh", "one_by_one_state_carried"])
@pytest.mark.parametrize("state", ["fresh", "carry"])
def test_stacked_carries_no_state(stacked, sentences, file, state):
    expected = load(stacked / f"{file}.npz")
    model = embedder(stacked, state)
    assert len(expected) == len(sentences)
    for number, sentence in enumerate(sentences):
        np.testing.assert_allclose(
            model.embed([sentence], layers="top")[0], expected[number], **LAYERS
        )


def test_stacked_in_batches_where_the_original_has_no_padding(stacked, sentences):
    """The original's backward LSTM starts in the padding; only the longest rows have none."""
    model = embedder(stacked)
    runs = [(range(len(sentences)), load(stacked / "one_batch.npz")), *batches_of_4(stacked)]
    compared = 0
    for batch, expected in runs:
        found = model.embed([sentences[number] for number in batch], layers="top")
        longest = max(len(sentences[number]) for number in batch)
        for number, vectors in zip(batch, found, strict=True):
            assert vectors.shape == expected[number].shape
            if len(sentences[number]) == longest:
                np.testing.assert_allclose(vectors, expected[number], **LAYERS)
                compared += 1
    assert compared >= len(runs)


def test_stacked_default_output_is_the_mean_of_the_tokens(stacked, sentences):
    """The original's -1 averages its first axis, which for this encoder is the tokens."""
    expected = load(stacked / "default_output_layer_minus1.npz")
    assert len(expected) == len(sentences)
    for number, found in enumerate(embedder(stacked).embed_sentences(sentences, layers="top")):
        np.testing.assert_allclose(found, expected[number], **LAYERS)


def test_empty_sentence(folder):
    model = embedder(folder)
    layers = 1 if folder.name == STACKED else 3
    assert model.embed([[]])[0].shape == (layers, 0, model.dim)
    assert model.embed([[]], layers="top")[0].shape == (0, model.dim)
