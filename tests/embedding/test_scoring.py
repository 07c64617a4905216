"""The language model's numbers, against the original program and against each other."""

import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import char_bilm, sentences_of_lengths
from elmokit import BiLM, Embedder
from elmokit.embedding import scoring
from elmokit.errors import ConfigError, InputError
from elmokit.nn import BiLMNetwork, LMSoftmax
from elmokit.training.corpus import prepare
from elmokit.training.measure import measure
from elmokit.training.windows import TypeTable
from elmokit.vocabulary import Vocabulary

KINDS = ["char", "word"]
WORDS = ("<S>", "</S>", "<UNK>", "tea", "is", "hot", "深い")
CLOSE = {"rtol": 0, "atol": 1e-4}


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def emb(fixtures, kind):
    """A model that bilm-tf trained."""
    return Embedder.from_pretrained(fixtures / f"E_training_{kind}")


@pytest.fixture(scope="module")
def sentences(fixtures, kind):
    """The sentences of the reference, with the log-probabilities of their words."""
    return json.loads((fixtures / f"F_lm_softmax_{kind}" / "sentences.json").read_text())


@pytest.fixture(scope="module")
def distributions(fixtures, kind):
    """Number of a sentence, direction -> (T + 1, V) log-probabilities of every word."""
    with np.load(fixtures / f"F_lm_softmax_{kind}" / "logprobs.npz") as data:
        return {
            (number, direction): data[f"s{number:02}_{direction}_logprobs"]
            for number in range(10)
            for direction in ("forward", "backward")
        }


def heldout(fixtures, kind):
    text = (fixtures / f"E_training_{kind}" / "heldout.txt").read_text()
    return [line.split() for line in text.splitlines()]


def predicting(bilm, words=WORDS, seed=1):
    """A model with a random softmax over words."""
    torch.manual_seed(seed)
    network = bilm.network
    network.config = dataclasses.replace(bilm.config, softmax_words=len(words))
    softmax = LMSoftmax(len(words), bilm.config.lstm.projection_dim)
    torch.nn.init.normal_(softmax.weight)
    parts = {"alphabet": bilm.alphabet, "words": bilm.words, "vocabulary": Vocabulary(words)}
    return BiLM(network, softmax=softmax, **parts).eval()


@pytest.fixture(scope="module")
def small():
    return Embedder(predicting(char_bilm()))


# bilm-tf's numbers


def test_log_probabilities_equal_bilm_tfs(emb, sentences, distributions):
    assert len(sentences) == 10
    for number, sentence in enumerate(sentences):
        forward, backward = emb.log_probs(sentence["tokens"])
        assert forward.dtype == backward.dtype == np.float32
        np.testing.assert_allclose(forward, sentence["forward_target_logprobs"], **CLOSE)
        np.testing.assert_allclose(backward, sentence["backward_target_logprobs"], **CLOSE)
        assert forward.sum() == pytest.approx(sentence["forward_total"], abs=1e-3)
        assert backward.sum() == pytest.approx(sentence["backward_total"], abs=1e-3)
        ids, places = sentence["ids_with_boundaries"], np.arange(len(forward))
        table = distributions[number, "forward"][places, ids[1:]]
        np.testing.assert_allclose(forward, table, **CLOSE)
        table = distributions[number, "backward"][places, ids[:-1]]
        np.testing.assert_allclose(backward, table, **CLOSE)


def test_predictions_equal_bilm_tfs(emb, sentences, distributions):
    words, k = np.array(emb.bilm.vocabulary.words, object), 7
    for number, sentence in enumerate(sentences):
        # Row t - 1 foretells token t from before it, row t of the other from after it.
        forward = distributions[number, "forward"][:-1].astype(np.float64)
        backward = distributions[number, "backward"][1:].astype(np.float64)
        both = forward + backward
        both -= np.log(np.exp(both).sum(axis=1, keepdims=True))
        found = emb.predict(sentence["tokens"], k)
        assert [prediction.token for prediction in found] == sentence["tokens"]
        for position, prediction in enumerate(found):
            for name, scores in (("forward", forward), ("backward", backward), ("both", both)):
                best = np.argsort(-scores[position], kind="stable")[:k]
                named = getattr(prediction, name)
                values = [value for _, value in named]
                np.testing.assert_allclose(values, scores[position][best], **CLOSE)
                gaps = np.diff(np.sort(-scores[position])[: k + 1])
                if gaps.min() > 1e-4:  # else two words are as likely as each other
                    assert [word for word, _ in named] == words[best].tolist()


def test_all_words_of_a_prediction_sum_to_one(emb, sentences):
    size = len(emb.bilm.vocabulary.words)
    (first, *_) = emb.predict(sentences[0]["tokens"], size)
    for named in (first.forward, first.backward, first.both):
        assert len({word for word, _ in named}) == size
        values = [value for _, value in named]
        assert values == sorted(values, reverse=True)
        assert np.exp(values).sum() == pytest.approx(1, abs=1e-5)


def test_perplexity_of_running_text_equals_that_of_bilm_tfs_test(emb, fixtures, kind):
    info = json.loads((fixtures / f"E_training_{kind}" / "info.json").read_text())
    expected = info["by_direction"]["batch_size_1"]
    found = emb.perplexity(heldout(fixtures, kind), state="carry")
    assert found.forward == pytest.approx(expected["forward_perplexity"], rel=1e-4)
    assert found.backward == pytest.approx(expected["backward_perplexity"], rel=1e-4)
    assert found.mean == pytest.approx(expected["combined"], rel=1e-4)
    peers = info["test_function_perplexity"]["batch_size_1"]
    assert found.mean == pytest.approx(peers, rel=1e-4)
    assert found.num_predictions == expected["n_predictions_per_direction"]
    assert found.num_predictions == {"char": 542, "word": 538}[kind]


# Perplexity against log-probabilities


def assert_agrees(found, log_probs):
    forward, backward = (-np.concatenate(parts) for parts in zip(*log_probs, strict=True))
    assert found.num_predictions == len(forward)
    assert found.forward == pytest.approx(np.exp(forward.mean()), rel=1e-5)
    assert found.backward == pytest.approx(np.exp(backward.mean()), rel=1e-5)
    assert found.mean == pytest.approx(np.exp((forward.mean() + backward.mean()) / 2), rel=1e-5)


@settings(max_examples=25)
@given(st.lists(st.lists(st.sampled_from([*WORDS, "x"]), max_size=6), min_size=1, max_size=6))
def test_fresh_perplexity_is_made_of_log_probabilities(small, sentences):
    found = small.perplexity(sentences)
    assert_agrees(found, [small.log_probs(sentence) for sentence in sentences])
    tokens = [token for sentence in sentences for token in sentence]
    unknown = sum(token in ("x", "<UNK>") for token in tokens)
    assert found.unknown_rate == pytest.approx(unknown / max(len(tokens), 1))


@pytest.mark.parametrize("state", ["fresh", "carry"])
def test_parts_batches_and_windows_change_no_number(small, monkeypatch, state):
    sentences = sentences_of_lengths([3, 30, 0, 1, 12, 7, 5, 40, 2])
    expected = small.perplexity(sentences, state=state)
    monkeypatch.setattr(scoring, "_PART_BATCHES", 1)
    monkeypatch.setattr(scoring, "_CARRY_WINDOW", 5)
    monkeypatch.setattr(scoring, "_SLICE_BYTES", 3 * 4 * len(WORDS))
    pieces = Embedder(small.bilm, batch_tokens=8)
    np.testing.assert_allclose(pieces.perplexity(sentences, state=state), expected, rtol=1e-6)


def test_carried_state_runs_on_from_zeros_and_fresh_state_from_the_initial_one(small):
    sentences = sentences_of_lengths([4, 4])
    together = small.perplexity(sentences, state="carry")
    alone = small.perplexity(sentences[:1], state="carry")
    assert alone.forward == pytest.approx(small.perplexity(sentences[:1]).forward, rel=1e-6)
    assert together.forward != pytest.approx(small.perplexity(sentences).forward, rel=1e-6)
    calibrated = Embedder(predicting(char_bilm()))
    np.testing.assert_allclose(calibrated.perplexity(sentences), small.perplexity(sentences))
    calibrated.calibrate(sentences)
    np.testing.assert_allclose(calibrated.perplexity(sentences, state="carry"), together)
    fresh = calibrated.perplexity(sentences)
    assert fresh.forward != pytest.approx(small.perplexity(sentences).forward, rel=1e-6)
    assert_agrees(fresh, [calibrated.log_probs(sentence) for sentence in sentences])
    assert small.carried.state is None  # the embedder's own carried state is another matter


def test_text_is_read_a_part_at_a_time(small, monkeypatch):
    monkeypatch.setattr(scoring, "_PART_BATCHES", 1)
    emb, sentences = Embedder(small.bilm, batch_tokens=20), sentences_of_lengths([4] * 30)
    waiting, left = iter(sentences), []
    run = BiLMNetwork.run

    def noted(*arguments):
        left.append(waiting.__length_hint__())
        return run(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(BiLMNetwork, "run", noted)
        found = scoring.perplexity(emb, waiting, "carry")
    assert left == [25, 20, 15, 10, 5, 0]
    assert found == small.perplexity(sentences, state="carry")


# Memory


@pytest.mark.parametrize("size", [1, 5, 13])
def test_slices_of_logits_give_equal_numbers(emb, sentences, monkeypatch, size):
    tokens = sentences[0]["tokens"]
    scores, predictions = emb.log_probs(tokens), emb.predict(tokens, 4)
    monkeypatch.setattr(scoring, "_SLICE_BYTES", size * 4 * 200)
    shapes, forward = [], LMSoftmax.forward

    def noted(self, hidden):
        shapes.append(len(hidden))
        return forward(self, hidden)

    monkeypatch.setattr(LMSoftmax, "forward", noted)
    np.testing.assert_allclose(emb.log_probs(tokens), scores, rtol=0, atol=1e-5)
    assert max(shapes) <= size
    for one, other in zip(emb.predict(tokens, 4), predictions, strict=True):
        assert one.token == other.token
        for name in ("forward", "backward", "both"):
            found, expected = (dict(getattr(prediction, name)) for prediction in (one, other))
            assert found == pytest.approx(expected, abs=1e-5)
    assert max(shapes) <= size


# Words


def test_a_word_outside_the_vocabulary_counts_as_unknown(small):
    forward, backward = small.log_probs(["tea", "kettle"])
    predictions = small.predict(["tea", "kettle"], len(WORDS))
    assert forward[1] == pytest.approx(dict(predictions[1].forward)["<UNK>"], abs=1e-5)
    assert backward[2] == pytest.approx(dict(predictions[1].backward)["<UNK>"], abs=1e-5)
    assert small.perplexity([["tea", "kettle", "<UNK>", "is"]]).unknown_rate == 0.5
    # Its characters are read all the same.
    other, _ = small.log_probs(["tea", "pot"])
    assert other[2] != forward[2]


def test_without_an_unknown_word_an_unknown_word_is_told():
    emb = Embedder(predicting(char_bilm(), ("<S>", "</S>", "tea")))
    assert emb.perplexity([["tea"]]).unknown_rate == 0
    with pytest.raises(ConfigError, match=r"has neither 'pot' nor <UNK>; add <UNK>"):
        emb.log_probs(["pot"])


def test_an_empty_sentence_foretells_its_boundaries(small):
    forward, backward = small.log_probs([])
    assert forward.shape == backward.shape == (1,)
    assert small.predict([], 3) == []
    found = small.perplexity([[]])
    assert (found.num_predictions, found.unknown_rate) == (1, 0)
    assert found.forward == pytest.approx(math.exp(-forward[0]), rel=1e-5)


def test_one_word_is_like_any_length(small):
    forward, backward = small.log_probs(["tea"])
    assert forward.shape == backward.shape == (2,)
    assert len(small.predict(["tea"], 2)) == 1


def test_a_literal_boundary_word_is_read_and_foretold_as_the_boundary(small):
    forward, _ = small.log_probs(["tea", "</S>"])
    ended, _ = small.log_probs(["tea"])
    np.testing.assert_allclose(forward[:2], ended, rtol=0, atol=1e-5)


@pytest.mark.parametrize("folder", ["B_efml_char_cnn", "B_efml_word_char_cnn"])
def test_other_boundary_words_are_those_of_the_softmax(fixtures, tmp_path, folder):
    """A model of ELMoForManyLangs reads <bos>; its new softmax was trained to foretell <S>."""
    bilm = predicting(BiLM.from_pretrained(fixtures / folder))
    (tmp_path / "in.txt").write_text("tea is hot\nis tea\n", encoding="utf-8")
    corpus = prepare([str(tmp_path / "in.txt")], bilm.vocabulary, tmp_path / "corpus")
    emb = Embedder(bilm)
    found = emb.perplexity([["tea", "is", "hot"], ["is", "tea"]])
    assert found.unknown_rate == 0
    # Two rows, a sentence each.
    np.testing.assert_allclose(found, measure(bilm, corpus, TypeTable(corpus.types, bilm)), 1e-5)
    (prediction,) = emb.predict(["tea"], len(WORDS))
    assert {word for word, _ in prediction.both} == set(WORDS)


# What is refused


def test_a_model_without_a_softmax_says_so():
    emb = Embedder(char_bilm())
    for call in (
        lambda: emb.log_probs(["tea"]),
        lambda: emb.perplexity([["tea"]]),
        lambda: emb.predict(["tea"]),
    ):
        with pytest.raises(ConfigError, match=r"no LM softmax.*take a training checkpoint") as told:
            call()
        assert "\n" not in str(told.value)


def test_a_stacked_lstm_cannot_foretell_words(fixtures):
    """It has read each word from the other side before it is asked for it."""
    emb = Embedder(predicting(BiLM.from_pretrained(fixtures / "B_efml_lstm_encoder")))
    for call in (lambda: emb.log_probs(["tea"]), lambda: emb.perplexity([["tea"]], state="carry")):
        with pytest.raises(ConfigError, match="stacked LSTM reads both directions in every layer"):
            call()


@pytest.mark.parametrize("k", [0, -1, len(WORDS) + 1])
def test_more_words_than_there_are_cannot_be_named(small, k):
    with pytest.raises(ConfigError, match=rf"^k: {k} must lie in 1..{len(WORDS)}, the words"):
        small.predict(["tea"], k)


def test_an_unknown_state_policy_is_named(small):
    with pytest.raises(ConfigError, match="state: 'stale' is not one of fresh, carry"):
        small.perplexity([["tea"]], state="stale")


@pytest.mark.parametrize("state", ["fresh", "carry"])
def test_no_text_has_no_perplexity(small, state):
    with pytest.raises(InputError, match="there is no sentence to measure"):
        small.perplexity([], state=state)


def test_a_string_is_no_list_of_tokens(small):
    for call in (
        lambda: small.log_probs("tea is"),
        lambda: small.perplexity(["tea is"]),
        lambda: small.predict("tea is"),
    ):
        with pytest.raises(InputError, match="split it first"):
            call()
