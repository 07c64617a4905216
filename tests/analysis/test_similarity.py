"""Token-by-token cosines."""

import numpy as np
import pytest

from builders import char_bilm
from elmokit import Embedder
from elmokit.analysis.similarity import similarity
from elmokit.errors import InputError


def test_cosines_of_all_pairs():
    emb = Embedder(char_bilm(), device="cpu")
    first, second = ["the", "cat", "sat"], ["a", "cat"]
    found = similarity(emb, first, second, [0, 2])
    assert found.shape == (2, 3, 2)
    one, other = (emb.embed([tokens], [0, 2])[0] for tokens in (first, second))
    for layer in range(2):
        for i, a in enumerate(one[layer]):
            for j, b in enumerate(other[layer]):
                cosine = a @ b / (np.linalg.norm(a) * np.linalg.norm(b))
                assert found[layer, i, j] == pytest.approx(cosine, abs=1e-5)
    assert found[0, 1, 1] == pytest.approx(1, abs=1e-6)
    itself = similarity(emb, first, first, [2])[0]
    np.testing.assert_allclose(np.diag(itself), 1, atol=1e-6)


def test_an_empty_sentence():
    with pytest.raises(InputError, match="second: the sentence holds not a single token"):
        similarity(Embedder(char_bilm(), device="cpu"), ["a"], [], [0])
