"""The occurrences of a word as a map in two dimensions, and in clusters.

Letters: K layers, N occurrences, D projection width.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.examples import Array, Example, first, unit, vectors_of
from elmokit.analysis.extra import needed
from elmokit.embedding.embedder import Embedder
from elmokit.errors import InputError

Projection = Literal["pca", "umap"]
"""pca: the two directions of greatest variance. umap: UMAP (McInnes et al. 2018)."""

LEAST = 3
"""Occurrences that a map needs."""
_ALIKE = 5
"""Decimals to which vectors are compared, so that rounding does not make two of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SenseMap:
    """The occurrences in one layer."""

    layer: int
    points: Array
    """(N, 2)"""
    clusters: NDArray[np.int64]
    """(N,) numbers from 0, the largest cluster first."""
    silhouette: float | None
    """Mean silhouette of the clusters by cosine, from -1 to 1; None where all vectors are alike."""
    purity: float | None
    """Share of occurrences whose sense is the most frequent of their cluster; None without senses.
    """

    @property
    def num_clusters(self) -> int:
        """Suggested number of senses."""
        return int(self.clusters.max()) + 1

    def to_dict(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        return {
            "layer": self.layer,
            "clusters": self.num_clusters,
            "silhouette": self.silhouette,
            "purity": self.purity,
            "cluster_of": self.clusters.tolist(),
            "points": np.round(self.points.astype(float), 4).tolist(),
        }


def occurrences(sentences: Iterable[Sequence[str]], word: str, most: int) -> list[Example]:
    """Finds a word in sentences, whatever its case.

    Args:
        sentences: A corpus, which is read until there are enough.
        word: The word.
        most: Occurrences to find, the first ones.

    Raises:
        InputError: It does not occur often enough for a map.
    """
    wanted = word.casefold()
    found = (
        Example(word=word, tokens=tuple(tokens), place=place)
        for tokens in sentences
        for place, token in enumerate(tokens)
        if token.casefold() == wanted
    )
    return check_number(first(most, found), word)


def with_senses(examples: Iterable[Example], word: str) -> list[Example]:
    """Picks the examples of a word: of its form, or of its lexical entry (`line` or `line-n`).

    Raises:
        InputError: There are not enough for a map.
    """
    wanted = word.casefold()
    found = [
        example
        for example in examples
        if wanted in (x.casefold() for x in (example.form, example.word, _stem(example.word)))
    ]
    return check_number(found, word)


def check_number(found: list[Example], word: str) -> list[Example]:
    """Refuses too few occurrences."""
    if len(found) < LEAST:
        times = ("never", "once", "twice")[len(found)]
        raise InputError(
            f"word: {word!r} occurs {times} in the corpus; a map needs {LEAST} occurrences or more"
        )
    return found


def map_senses(
    emb: Embedder,
    examples: Sequence[Example],
    *,
    layers: Sequence[int],
    projection: Projection = "pca",
    max_clusters: int = 8,
) -> list[SenseMap]:
    """Lays the occurrences of a word out in two dimensions and suggests clusters, in each layer.

    All is by cosine: vectors have length 1. Clusters are those of k-means, of the k from 2 on whose
    mean silhouette (Rousseeuw 1987) is greatest.

    Args:
        emb: The model.
        examples: N occurrences; where all have a label, purity is measured.
        layers: K layers by number.
        projection: How vectors become points.
        max_clusters: Most clusters.

    Returns:
        A map for each layer.

    Raises:
        InputError: There are fewer than three occurrences.
        MissingExtraError: scikit-learn or UMAP is not installed.
    """
    check_number(list(examples), examples[0].word if examples else "")
    labels = [example.label for example in examples]
    maps = []
    for layer, vectors in zip(layers, unit(vectors_of(emb, examples, layers)), strict=True):
        clusters, silhouette = cluster(vectors, max_clusters)
        maps.append(
            SenseMap(
                layer=layer,
                points=project(vectors, projection),
                clusters=clusters,
                silhouette=silhouette,
                purity=purity(clusters, labels) if all(labels) else None,
            )
        )
    return maps


def cluster(vectors: Array, max_clusters: int) -> tuple[NDArray[np.int64], float | None]:
    """Clusters unit vectors (N, D) by k-means, k by silhouette.

    Returns:
        Cluster numbers (N,), the largest first, and the silhouette; one cluster and None where
        there are not enough distinct vectors to tell two apart.
    """
    with needed("sklearn"):
        from sklearn.cluster import KMeans
        from sklearn.metrics import silhouette_score
    distinct = len(np.unique(vectors.round(_ALIKE), axis=0))
    best: tuple[float, NDArray[np.int64]] | None = None
    for k in range(2, min(max_clusters, distinct, len(vectors) - 1) + 1):
        found = KMeans(n_clusters=k, n_init=10, random_state=0).fit_predict(vectors)
        score = float(silhouette_score(vectors, found, metric="cosine"))
        if best is None or score > best[0]:
            best = score, found
    if best is None:
        return np.zeros(len(vectors), dtype=np.int64), None
    order = [number for number, _ in Counter(best[1].tolist()).most_common()]
    return np.array([order.index(number) for number in best[1]], dtype=np.int64), best[0]


def project(vectors: Array, projection: Projection) -> Array:
    """Lays vectors (N, D) out in two dimensions, (N, 2)."""
    points: Array
    if projection == "umap":
        with needed("umap", install="umap-learn"):
            import umap
        neighbors = min(15, len(vectors) - 1)
        points = umap.UMAP(
            n_neighbors=neighbors, metric="cosine", random_state=0, n_jobs=1
        ).fit_transform(vectors)
    else:
        centred = vectors - vectors.mean(axis=0)
        _, _, axes = np.linalg.svd(centred, full_matrices=False)
        # The sign of an axis is free: its largest part is made positive.
        signs = np.sign(np.take_along_axis(axes[:2], np.abs(axes[:2]).argmax(1)[:, None], 1))
        points = centred @ (axes[:2] * signs).T
        points = points.round(_ALIKE) + 0  # no -0 either
    return points


def purity(clusters: NDArray[np.int64], labels: Sequence[str]) -> float:
    """Share of occurrences whose label is the most frequent one of their cluster."""
    counts: dict[int, Counter[str]] = {}
    for number, label in zip(clusters.tolist(), labels, strict=True):
        counts.setdefault(number, Counter())[label] += 1
    return sum(max(seen.values()) for seen in counts.values()) / len(labels)


def majority_share(labels: Sequence[str]) -> float:
    """The purity of a single cluster."""
    return max(Counter(labels).values()) / len(labels)


def _stem(entry: str) -> str:
    """Returns a lexical entry without its part of speech."""
    return entry.rpartition("-")[0] or entry
