"""Drift between states: zero where nothing is carried, and against states set by hand."""

import itertools

import numpy as np
import pytest

from builders import char_bilm, sentences_of_lengths
from elmokit import BiLM, Embedder
from elmokit.analysis.drift import (
    CALIBRATED,
    CONTEXT,
    FRESH,
    advise,
    compare,
    measure_drift,
    with_zero_state,
)
from elmokit.errors import InputError

TEXT = sentences_of_lengths([5, 9, 3, 30, 4, 7, 12, 2], seed=3)


def test_identical_vectors_have_no_distance():
    vectors = Embedder(char_bilm(), device="cpu").embed(TEXT)
    found = compare(vectors, vectors)
    assert np.nanmax(found.relative) == 0
    assert np.nanmin(found.cosine) == 1
    assert (found.first == 0).all()


def test_distances_are_placed_where_each_direction_begins():
    one = np.ones((1, 7, 4), dtype=np.float32)
    other = one.copy()
    other[:, 0, :2] *= 2  # forward, its first token: |1 - 2| / |2|
    other[:, -1, 2:] *= -1  # backward, its first token: |1 + 1| / |1|, cosine -1
    found = compare([one], [other])
    assert found.relative[0].tolist()[:6] == pytest.approx([(0.5 + 2) / 2, 0, 0, 0, 0, 0])
    assert found.cosine[0, 0] == pytest.approx(0)
    assert np.isnan(found.relative[0, 6:]).all()
    assert found.first[0] == pytest.approx(2.5 / 10)
    assert compare([one], [other], directions=1).relative[0, 0] == pytest.approx(0.5)


def test_state_moves_the_first_tokens_most():
    found = measure_drift(Embedder(char_bilm(), device="cpu"), TEXT, [0, 1, 2])
    assert found.has_state
    assert not found.is_own
    for name in (FRESH, CALIBRATED, CONTEXT):
        relative = found.distances[name].relative
        assert np.nanmax(relative[0]) < 1e-6  # the token layer reads no state
        assert relative[2, 0] > relative[2, 5]
    assert found.distances[CALIBRATED].first[2] < found.distances[FRESH].first[2]
    data = found.to_dict()
    assert data["positions"][5] == "6-10"
    assert data["distances"][FRESH]["relative"][2][0] > 0


def test_carried_state_is_that_of_the_embedder():
    """One row from a state of zeros, whose last sentences are looked at."""
    bilm = char_bilm()
    row = Embedder(bilm, device="cpu", state="carry")
    carried = [row.embed([tokens])[0] for tokens in TEXT]
    fresh = Embedder(bilm, device="cpu").embed(TEXT)
    half = len(TEXT) // 2
    expected = compare(fresh[half:], carried[half:])
    found = measure_drift(Embedder(bilm, device="cpu"), TEXT, [0, 1, 2]).distances[FRESH]
    np.testing.assert_allclose(found.relative, expected.relative, atol=1e-6)


def test_left_context_is_the_sentence_before():
    emb = Embedder(char_bilm(), device="cpu")
    found = measure_drift(emb, TEXT, [2]).distances[CONTEXT]
    pairs = itertools.pairwise(TEXT[3:])
    after = [emb.embed([[*a, *b]], [2])[0][:, -len(b) :] for a, b in pairs]
    expected = compare(emb.embed(TEXT[4:], [2]), after, directions=1)
    np.testing.assert_allclose(found.relative, expected.relative, atol=1e-6)


def test_a_calibrated_model_keeps_its_state():
    emb = Embedder(char_bilm(), device="cpu")
    emb.calibrate(TEXT)
    found = measure_drift(emb, TEXT, [2])
    assert found.is_own
    assert any(part.any() for part in emb.bilm.initial_state)  # it was not touched
    assert not any(part.any() for part in with_zero_state(emb).bilm.initial_state)


def test_a_model_without_state_does_not_drift(fixtures):
    bilm = BiLM.from_pretrained(fixtures / "B_efml_lstm_encoder")
    assert not bilm.network.has_state
    found = measure_drift(Embedder(bilm, device="cpu"), TEXT, [0])
    assert np.nanmax(found.distances[FRESH].relative) < 1e-6
    assert np.nanmax(found.distances[CALIBRATED].relative) < 1e-6
    assert found.advice.startswith("This model carries no state")


def test_advice_has_its_number():
    assert advise(0.02, 0.01, has_state=True, is_own=False) == (
        "Use it as it is: from a state of zeros the first 5 tokens of a direction lie 2.0% from "
        "those of carried state."
    )
    assert advise(0.2, 0.05, has_state=True, is_own=False).startswith("Calibrate it: ")
    assert advise(0.2, 0.05, has_state=True, is_own=True).startswith("Keep its calibrated state: ")
    assert "calibration leaves 19.0%" in advise(0.2, 0.19, has_state=True, is_own=False)


def test_too_little_text():
    with pytest.raises(InputError, match="the text has 3 sentences"):
        measure_drift(Embedder(char_bilm(), device="cpu"), TEXT[:3], [0])
