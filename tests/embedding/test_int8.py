import contextlib
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from builders import char_bilm, sentences_of_lengths, word_bilm
from elmokit import BiLM, Elmo, Embedder
from elmokit.embedding import int8
from elmokit.embedding.devices import prepare
from elmokit.errors import CheckpointError, ConfigError

TEXT = Path(__file__).parents[2] / "examples" / "data" / "heldout.txt"
SENTENCES = sentences_of_lengths([5, 0, 1, 9, 5])


def quantized(bilm, **settings):
    return Embedder(bilm, device="cpu", precision="int8", **settings)


def cosines(ours, theirs):
    """(L+1, all tokens)"""
    one, other = (np.concatenate(vectors, axis=1).astype(np.float64) for vectors in (ours, theirs))
    return (one * other).sum(-1) / np.linalg.norm(one, axis=-1) / np.linalg.norm(other, axis=-1)


def assert_equal(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


@contextlib.contextmanager
def refused(*parts):
    with pytest.raises((ConfigError, CheckpointError)) as caught:
        yield
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert str(part) in message


def test_vectors_of_a_trained_model_stay_close(trained):
    text = [line.split() for line in TEXT.read_text(encoding="utf-8").splitlines()[:60]]
    bilm = BiLM.from_pretrained(trained)
    found = cosines(quantized(bilm).embed(text), Embedder(bilm, device="cpu").embed(text))
    for layer, values in enumerate(found):
        assert np.median(values) >= 0.999, layer
        assert values.min() >= 0.99, layer
        assert values.min() < 1 - 1e-6, layer


def test_the_bits_of_a_sentence_are_its_own(trained):
    text = [*sentences_of_lengths([1, 2, 3, 17, 40, 8] * 3), []]
    emb = quantized(BiLM.from_pretrained(trained), cache_words=30)
    alone = [emb.embed([sentence])[0] for sentence in text]
    for settings in ({}, {"batch_tokens": 60}, {"cache_words": 0}):
        other = quantized(emb.bilm, **settings)
        assert_equal(other.embed(text), alone)
        assert_equal(other.embed(text[::-1])[::-1], alone)


@pytest.mark.parametrize(
    "bilm",
    [
        char_bilm(),
        char_bilm(recurrent_projection=False, cell_dim=8),
        char_bilm(cell_clip=None, projection_clip=None, num_layers=3, skip_connections=False),
        word_bilm(["tea", "is", "hot"]),
    ],
)
def test_models_of_every_kind(bilm):
    full, rounded = Embedder(bilm, device="cpu"), quantized(bilm)
    found = cosines(rounded.embed(SENTENCES), full.embed(SENTENCES))
    assert np.median(found) >= 0.999
    assert all(vectors.dtype == np.float32 for vectors in rounded.embed(SENTENCES))


def test_state_is_carried_and_calibrated():
    bilm = char_bilm()
    full, rounded = (Embedder(bilm, precision=name, state="carry") for name in ("fp32", "int8"))
    for emb in (full, rounded):
        emb.calibrate(SENTENCES)
        emb.embed(SENTENCES)
    assert cosines(rounded.embed(SENTENCES), full.embed(SENTENCES)).min() > 0.99
    found = rounded.bilm.initial_state.c
    torch.testing.assert_close(found, full.bilm.initial_state.c, rtol=0, atol=0.05)


def test_the_model_given_and_others_made_of_it_stay_as_they_are():
    bilm = char_bilm()
    right = Embedder(bilm).embed(SENTENCES)
    emb = quantized(bilm)
    rounded = emb.embed(SENTENCES)
    assert bilm.activations is None
    assert_equal(Embedder(bilm).embed(SENTENCES), right)
    assert_equal(Embedder(emb.bilm).embed(SENTENCES), right)
    assert_equal(quantized(emb.bilm).embed(SENTENCES), rounded)
    assert_equal(pickle.loads(pickle.dumps(emb)).embed(SENTENCES), rounded)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_was_measured_is_saved_and_not_measured_again(tmp_path, monkeypatch, dtype):
    emb = quantized(char_bilm())
    emb.bilm.save_pretrained(tmp_path / "model", dtype=dtype)
    monkeypatch.setattr(int8, "_measure", lambda bilm: pytest.fail("measured again"))
    loaded = BiLM.from_pretrained(tmp_path / "model")
    assert loaded.activations == emb.bilm.activations
    again = quantized(loaded).embed(SENTENCES)
    if dtype == "float32":
        assert_equal(again, emb.embed(SENTENCES))
    loaded.save_pretrained(tmp_path / "copy")
    assert BiLM.from_pretrained(tmp_path / "copy").activations == emb.bilm.activations


def test_scales_are_those_that_were_saved(tmp_path):
    emb = quantized(char_bilm())
    emb.bilm.save_pretrained(tmp_path / "model")
    path = tmp_path / "model" / "activations.json"
    data = json.loads(path.read_text())
    data["ranges"]["token_encoder.projection"] = [0, 1e-3, 1e-3]
    path.write_text(json.dumps(data))
    loaded = quantized(BiLM.from_pretrained(tmp_path / "model"))
    assert cosines(loaded.embed(SENTENCES), emb.embed(SENTENCES)).min() < 0.99


def test_a_model_that_has_learnt_since_is_measured_again():
    bilm = quantized(char_bilm()).bilm
    elmo = Elmo(bilm, trainable=True, dropout=0.0)
    optimizer = torch.optim.SGD(elmo.parameters(), lr=1.0)
    elmo(elmo.bilm.encode(SENTENCES)).representations[0].square().sum().backward()
    assert all(parameter.grad is not None for parameter in elmo.bilm.network.parameters())
    optimizer.step()
    learnt = quantized(elmo.bilm).bilm
    assert learnt.activations.weights != bilm.activations.weights
    assert learnt.activations.ranges != bilm.activations.ranges


def test_measuring_gives_the_same_each_time_with_any_number_of_threads():
    found, before = [], torch.get_num_threads()
    try:
        for threads in (1, 1, 3):
            torch.set_num_threads(threads)
            found.append(quantized(char_bilm()).bilm.activations)
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1] == found[2]
    assert set(found[0].ranges) == {
        "token_encoder.characters.highways.0",
        "token_encoder.projection",
        *(
            f"{direction}_lstm.{layer}.{matrix}"
            for direction in ("forward", "backward")
            for layer in (0, 1)
            for matrix in ("input_weight", "recurrent_weight", "projection")
        ),
    }


def test_another_device_is_refused():
    with refused("precision: int8 runs on the CPU only, not on meta", "device cpu"):
        prepare(char_bilm(), torch.device("meta"), "int8")


def test_a_stacked_lstm_is_refused(fixtures):
    with refused("precision: int8", "stacked", "use fp32"):
        Embedder.from_pretrained(fixtures / "B_efml_lstm_encoder", precision="int8", device="cpu")


def test_a_processor_without_such_products_is_refused(monkeypatch):
    monkeypatch.setattr(int8, "int8_problem", lambda: "no oneDNN")
    with refused("precision: int8 cannot be used", torch.__version__, "no oneDNN", "use fp32"):
        quantized(char_bilm())


def test_torchs_engine_for_quantized_tensors_is_left_as_it_is():
    before = torch.backends.quantized.engine
    quantized(char_bilm()).embed(SENTENCES)
    assert torch.backends.quantized.engine == before


@pytest.mark.parametrize(("seconds", "is_told"), [((2.0, 1.0), False), ((1.0, 1.4), True)])
def test_a_user_is_told_where_float32_is_faster(monkeypatch, caplog, seconds, is_told):
    given = iter(seconds)
    monkeypatch.setattr(int8, "_seconds", lambda bilm: next(given))
    quantized(char_bilm())
    assert ("int8 takes 1.4 times as long as fp32" in caplog.text) == is_told


def test_a_trial_takes_time_and_leaves_the_model_alone():
    emb = quantized(char_bilm())
    before = emb.embed(SENTENCES)
    assert int8._seconds(emb.bilm) > 0
    assert_equal(emb.embed(SENTENCES), before)
