"""Clusters and maps of occurrences against planted groups."""

import json
import re

import numpy as np
import pytest

from builders import char_bilm
from elmokit import Embedder
from elmokit.analysis.examples import Example, unit
from elmokit.analysis.page import sense_page
from elmokit.analysis.senses import (
    cluster,
    majority_share,
    map_senses,
    occurrences,
    project,
    purity,
    with_senses,
)
from elmokit.errors import InputError, MissingExtraError


def groups(num_groups, size, seed=0):
    """Unit vectors around a direction for each group."""
    order = np.random.default_rng(seed)
    centres = order.standard_normal((num_groups, 12), dtype=np.float32)
    numbers = np.repeat(np.arange(num_groups), size)
    noise = order.standard_normal((len(numbers), 12), dtype=np.float32)
    return unit(centres[numbers] + 0.05 * noise), [f"sense {i}" for i in numbers]


@pytest.mark.parametrize("num_groups", [2, 3, 5])
def test_planted_groups_are_found(num_groups):
    vectors, labels = groups(num_groups, 9)
    clusters, silhouette = cluster(vectors, 8)
    assert clusters.max() + 1 == num_groups
    assert silhouette > 0.8
    assert purity(clusters, labels) == 1
    assert majority_share(labels) == pytest.approx(1 / num_groups)


def test_the_largest_cluster_is_the_first():
    vectors = np.concatenate([groups(2, 3)[0][:3], groups(2, 9)[0][9:]])
    clusters, _ = cluster(vectors, 4)
    assert clusters.tolist() == [1] * 3 + [0] * 9


def test_vectors_that_are_alike_are_one_cluster():
    vectors = np.tile(groups(1, 1)[0], (6, 1))
    clusters, silhouette = cluster(vectors, 8)
    assert clusters.tolist() == [0] * 6
    assert silhouette is None


def test_purity_counts_the_most_frequent_of_each_cluster():
    assert purity(np.array([0, 0, 0, 1, 1]), list("aabbb")) == pytest.approx(4 / 5)


def test_principal_components_keep_what_is_in_two_dimensions():
    order = np.random.default_rng(0)
    flat = order.standard_normal((10, 2)).astype(np.float32)
    basis, _ = np.linalg.qr(order.standard_normal((7, 2)))
    points = project((flat @ basis.T).astype(np.float32), "pca")
    distances = [np.linalg.norm(x[:, None] - x[None], axis=-1) for x in (flat, points)]
    np.testing.assert_allclose(*distances, atol=1e-5)
    assert np.var(points[:, 0]) > np.var(points[:, 1])


def test_umap_is_asked_for_by_name(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "umap", None)
    with pytest.raises(MissingExtraError, match="pip install umap-learn"):
        project(groups(2, 3)[0], "umap")


TEXT = [s.split() for s in ("Bank on it", "a bank", "no", "the bank by the bank")]


def test_occurrences_of_a_word_whatever_its_case():
    assert [(x.tokens[0], x.place) for x in occurrences(TEXT, "bank", 9)] == [
        *(("Bank", 0), ("a", 1), ("the", 1), ("the", 4))
    ]
    for word, times in (("zebra", "never"), ("on", "once"), ("the", "twice")):
        with pytest.raises(InputError, match=f"'{word}' occurs {times} in the corpus"):
            occurrences(TEXT, word, 9)


def test_a_corpus_is_read_until_there_are_enough():
    sentences = iter([*TEXT, ["not", "read"]])
    assert [x.place for x in occurrences(sentences, "bank", 3)] == [0, 1, 1]
    assert next(sentences) == ["not", "read"]


def example(word, text, place, label):
    return Example(word=word, tokens=tuple(text.split()), place=place, label=label)


SENSES = [
    example("serve-v", "he served tea", 1, "food"),
    example("serve-v", "they serve <b> & soup", 1, "food"),
    example("serve-v", "to serve the king", 1, "duty"),
    example("serve-v", "she served the </script> queen", 1, "duty"),
    example("line-n", "a line", 1, "text"),
]


@pytest.mark.parametrize("word", ["serve", "serve-v", "SERVE"])
def test_examples_of_a_word_by_form_or_entry(word):
    assert with_senses(SENSES, word) == SENSES[:4]


def test_layers_0_cannot_tell_senses_of_one_form(tmp_path):
    emb = Embedder(char_bilm(), device="cpu")
    examples = [x for x in occurrences(TEXT, "bank", 9) if x.form == "bank"]
    static, top = map_senses(emb, examples, layers=[0, 2])
    assert static.num_clusters == 1
    assert static.purity is None
    assert top.num_clusters == 2
    assert top.points.shape == (3, 2)


def test_page_is_whole_and_safe():
    emb = Embedder(char_bilm(), device="cpu")
    maps = map_senses(emb, SENSES[:4], layers=[0, 1])
    page = sense_page("<serve>", SENSES[:4], maps, "about & more")
    assert "<title>Occurrences of &lt;serve&gt;</title>" in page
    assert not re.search(r"(src|href)\s*=|@import|url\(|https?://(?!www\.w3\.org/2000/svg)", page)
    [text] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    data = json.loads(text)
    assert data["sentences"][3] == {
        **{"before": "she", "form": "served", "after": "the </script> queen", "sense": "duty"}
    }
    assert [layer["layer"] for layer in data["layers"]] == [0, 1]
    assert len(data["layers"][1]["points"]) == 4
    assert page.count("__") == 0
