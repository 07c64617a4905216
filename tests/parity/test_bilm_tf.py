"""Published and random models against the numbers of bilm-tf, AllenNLP and simple_elmo."""

import h5py
import numpy as np
import pytest

from elmokit import Embedder
from parity.cases import LAYERS, UNITS, assert_layers, load, odd_tokens, read_json

pytestmark = odd_tokens

RANDOM = ("A2_bilm_skip", "A2_bilm_noskip")
PUBLISHED = {
    "A1_allennlp_fixture": "sentences.json",
    "A1b_bilm_tf_fixture_noskip": "lm_embeddings_sentences.json",
}


@pytest.fixture(scope="module")
def sentences(fixtures):
    return read_json(fixtures / "A2_sentences.json")


def states(embedder):
    """Carried h (L, B, 2D) and c (L, B, 2H), forward beside backward, as AllenNLP keeps them."""
    return [np.concatenate([part[:, 0], part[:, 1]], axis=-1) for part in embedder.carried.state]


@pytest.mark.parametrize("model", PUBLISHED)
def test_published_model_carries_state_by_row(reference, model):
    folder = reference / model
    lists = [[text.split() for text in texts] for texts in read_json(folder / PUBLISHED[model])]
    embedder = Embedder.from_pretrained(folder, device="cpu", state="carry")
    for number, batch in enumerate(zip(*lists, strict=True)):
        for row, found in enumerate(embedder.embed(batch, layers="top")):
            with h5py.File(folder / f"lm_embeddings_{row}.hdf5") as file:
                expected = np.concatenate(file[str(number)], axis=-1)
            np.testing.assert_allclose(found, expected, **UNITS)


def test_published_model_gives_token_embeddings(reference):
    folder = reference / "A1_allennlp_fixture"
    words = (folder / "vocab_test.txt").read_text(encoding="utf-8").splitlines()
    embedder = Embedder.from_pretrained(folder, device="cpu")
    found = np.concatenate(embedder.embed([[word] for word in words], layers=0))
    with h5py.File(folder / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][()]
    np.testing.assert_allclose(found, np.concatenate([expected, expected], axis=-1), **UNITS)


@pytest.mark.parametrize(
    ("model", "file"), [(m, "fresh") for m in RANDOM] + [(RANDOM[0], "fresh_with_boundaries")]
)
def test_fresh(fixtures, sentences, model, file):
    expected = load(fixtures / model / f"{file}.npz")
    embedder = Embedder.from_pretrained(fixtures / model, device="cpu")
    found = embedder.embed(sentences, boundaries=file == "fresh_with_boundaries")
    assert len(expected) == len(found)
    for number, layers in enumerate(found):
        assert_layers(layers, expected[number])


@pytest.mark.parametrize("file", ["stateful_b4", "stateful_ragged"])
@pytest.mark.parametrize("model", RANDOM)
def test_carried(fixtures, sentences, model, file):
    path = fixtures / model / f"{file}.npz"
    data, expected = np.load(path), load(path)
    embedder = Embedder.from_pretrained(fixtures / model, device="cpu", state="carry")
    sizes, done = data["batch_sizes"].tolist(), 0
    assert sum(sizes) == len(expected) == len(sentences)
    for size in sizes:
        for number, found in enumerate(embedder.embed(sentences[done : done + size]), done):
            assert_layers(found, expected[number])
        if done == 0 and model == "A2_bilm_skip":
            check_states(embedder, data, "first")
        done += size
    if model == "A2_bilm_skip":
        check_states(embedder, data, "last")
    elif file == "stateful_ragged":
        check_tensorflow_states(embedder, data, num_rows=max(sizes))


def check_states(embedder, data, place):
    for found, kind in zip(states(embedder), ("hidden", "memory"), strict=True):
        expected = data[f"state_{kind}_after_{place}_batch"]
        np.testing.assert_allclose(found, expected, **LAYERS)


def check_tensorflow_states(embedder, data, num_rows):
    """TensorFlow keeps 8 rows; those that no batch used stay zero."""
    for found, kind in zip(states(embedder), ("hidden", "memory"), strict=True):
        directions = [
            [data[f"final_{direction}_{kind}_layer{layer}"] for layer in range(len(found))]
            for direction in ("forward", "backward")
        ]
        expected = np.concatenate(directions, axis=-1)
        np.testing.assert_allclose(found, expected[:, :num_rows], **LAYERS)
        assert not expected[:, num_rows:].any()


def test_batch_with_an_empty_sentence(fixtures, sentences):
    folder = fixtures / "A2_bilm_skip"
    data = np.load(folder / "empty_sentence_batch.npz")
    expected = np.stack([data[f"layer{layer}"] for layer in range(4)], axis=1)  # (B, L + 1, T, 2D)
    batch = [sentences[0], [], sentences[-1]]
    carrying = Embedder.from_pretrained(folder, device="cpu", state="carry")
    for embedder in (carrying, Embedder(carrying.bilm, device="cpu")):
        for row, found in enumerate(embedder.embed(batch, boundaries=True)):
            assert_layers(found, expected[row][:, data["mask"][row]])
    for found, kind in zip(states(carrying), ("hidden", "memory"), strict=True):
        np.testing.assert_allclose(found, data[f"state_{kind}"], **LAYERS)
