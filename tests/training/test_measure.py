import math

import numpy as np
import pytest
import torch

from elmokit import BiLM, Embedder
from elmokit.training.corpus import prepare
from elmokit.training.measure import measure
from elmokit.training.windows import TypeTable

KINDS = ["char", "word"]


def heldout(fixtures, tmp_path, kind):
    """A trained model, its held-out sentences, and the same as a corpus."""
    folder = fixtures / f"E_training_{kind}"
    bilm = BiLM.from_pretrained(folder)
    text = folder / "heldout.txt"
    corpus = prepare([str(text)], bilm.vocabulary, tmp_path / "corpus")
    return bilm, [line.split() for line in text.read_text().splitlines()], corpus


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_measures_what_bilm_tfs_test_does(fixtures, tmp_path, monkeypatch, kind):
    bilm, sentences, corpus = heldout(fixtures, tmp_path, kind)
    monkeypatch.setattr("elmokit.training.measure._ROWS", 1)
    found = measure(bilm, corpus, TypeTable(corpus.types, bilm))
    expected = Embedder(bilm).perplexity(sentences, state="carry")
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert (
        found.num_predictions
        == expected.num_predictions
        == len(sentences) + sum(map(len, sentences))
    )
    assert found.unknown_rate == expected.unknown_rate > 0


@pytest.mark.parametrize("window", [3, 64])
def test_rows_are_runs_of_the_text_from_a_state_of_zeros(fixtures, tmp_path, monkeypatch, window):
    bilm, sentences, corpus = heldout(fixtures, tmp_path, "char")
    monkeypatch.setattr("elmokit.training.measure._ROWS", 4)
    monkeypatch.setattr("elmokit.training.measure._WINDOW", window)
    found = measure(bilm, corpus, TypeTable(corpus.types, bilm))
    emb, sums, begin = Embedder(bilm), np.zeros(2), 0
    total = found.num_predictions
    sizes = [len(sentence) + 1 for sentence in sentences]
    for row in range(4):
        # A sentence belongs to the row in whose quarter of the predictions it begins.
        run = [
            sentence
            for number, sentence in enumerate(sentences)
            if total * row // 4 <= sum(sizes[:number]) < total * (row + 1) // 4
        ]
        begin += len(run)
        part = emb.perplexity(run, state="carry")
        sums += part.num_predictions * np.log([part.forward, part.backward])
    assert begin == len(sentences)
    assert found.forward == pytest.approx(math.exp(sums[0] / total), rel=1e-5)
    assert found.backward == pytest.approx(math.exp(sums[1] / total), rel=1e-5)
    assert found.mean == pytest.approx(math.sqrt(found.forward * found.backward), rel=1e-6)


def test_a_few_sentences_are_measured_too(fixtures, tmp_path):
    bilm = BiLM.from_pretrained(fixtures / "E_training_char")
    (tmp_path / "two.txt").write_text("sh to\nan\n")
    corpus = prepare([str(tmp_path / "two.txt")], bilm.vocabulary, tmp_path / "corpus")
    found = measure(bilm, corpus, TypeTable(corpus.types, bilm))
    emb = Embedder(bilm)  # two rows: each sentence for itself
    expected = emb.perplexity([["sh", "to"], ["an"]])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_model_in_training_is_left_as_it_is(fixtures, tmp_path):
    bilm, _, corpus = heldout(fixtures, tmp_path, "char")
    table = TypeTable(corpus.types, bilm)
    expected = measure(bilm, corpus, table)
    before = {name: tensor.clone() for name, tensor in bilm.state_dict().items()}
    random = torch.get_rng_state()
    bilm.train()
    bilm.initial_state.h.fill_(0.5)  # a calibrated state is not what is measured from
    assert measure(bilm, corpus, table) == expected
    bilm.initial_state.h.zero_()
    assert bilm.training
    assert torch.equal(torch.get_rng_state(), random)
    for name, tensor in bilm.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert all(parameter.grad is None for parameter in bilm.parameters())
    assert all(parameter.requires_grad for parameter in bilm.parameters())
