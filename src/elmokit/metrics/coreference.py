"""Coreference: how clusters of mentions agree with those that are right.

A cluster is a set of mentions, a mention anything that can be hashed, such as (start, end). No
mention is in two clusters of a side. All scores are sums over documents, as in the scorer of
CoNLL-2012 (Pradhan et al. 2014), and count clusters of one mention like all others: whoever wants
them left out leaves them out on both sides.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from elmokit.errors import InputError
from elmokit.extras import needed

Clusters = Sequence[Collection[Hashable]]
"""The clusters of a document."""


class Agreement(NamedTuple):
    """Sums behind precision, recall and F1; a share of nothing is 0, as in CoNLL's scorer."""

    found: float
    """What counts as right among the clusters predicted."""
    predicted: float
    """The most that could be."""
    recalled: float
    """What counts as right among the clusters there are."""
    gold: float
    """The most that could be."""

    @property
    def precision(self) -> float:
        """Share of what was predicted."""
        return self.found / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of what is there."""
        return self.recalled / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of the two."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    def to_dict(self) -> dict[str, float]:
        """Returns the figures as plain values."""
        return {"f1": self.f1, "precision": self.precision, "recall": self.recall}


Measure = Callable[[Clusters, Clusters], Agreement]
"""Gold and predicted clusters of a document -> how they agree."""


@dataclass(frozen=True, slots=True)
class CoreferenceScores:
    """Agreement over documents, by measure."""

    measures: Mapping[str, Agreement]
    """muc, b_cubed, ceaf_phi4, lea, and mentions."""

    @property
    def conll(self) -> float:
        """Mean F1 of MUC, B-cubed and CEAF, the score of the CoNLL-2012 shared task."""
        return sum(self.measures[name].f1 for name in _OF_CONLL) / len(_OF_CONLL)

    def to_dict(self) -> dict[str, Any]:
        """Returns the figures as plain values."""
        return {
            "conll": self.conll,
            **{name: agreement.to_dict() for name, agreement in self.measures.items()},
        }


def score_clusters(gold: Iterable[Clusters], predicted: Iterable[Clusters]) -> CoreferenceScores:
    """Compares the clusters of each document with those predicted.

    Args:
        gold: For each document its clusters.
        predicted: The same, for the same documents in the same order.

    Raises:
        InputError: A mention is in two clusters of a side.
        MissingExtraError: SciPy is not installed.
    """
    totals = {name: Agreement(0, 0, 0, 0) for name in _MEASURES}
    for right, found in zip(gold, predicted, strict=True):
        for name, measure in _MEASURES.items():
            parts = zip(totals[name], measure(right, found), strict=True)
            totals[name] = Agreement(*(total + part for total, part in parts))
    return CoreferenceScores(totals)


def muc(gold: Clusters, predicted: Clusters) -> Agreement:
    """MUC (Vilain et al. 1995): the links that a cluster needs, and those that are there."""
    shared = _shared(gold, predicted)
    links = sum(shared.values()) - len(shared)
    return Agreement(links, _links(predicted), links, _links(gold))


def b_cubed(gold: Clusters, predicted: Clusters) -> Agreement:
    """B-cubed (Bagga and Baldwin 1998): for each mention the share of its cluster that is right."""
    shared = _shared(gold, predicted)
    return Agreement(
        sum(number**2 / len(predicted[found]) for (_, found), number in shared.items()),
        sum(map(len, predicted)),
        sum(number**2 / len(gold[right]) for (right, _), number in shared.items()),
        sum(map(len, gold)),
    )


def ceaf_phi4(gold: Clusters, predicted: Clusters) -> Agreement:
    """CEAF with phi 4 (Luo 2005): clusters alike, in the best pairing of one with one.

    Raises:
        InputError: A mention is in two clusters of a side.
        MissingExtraError: SciPy is not installed.
    """
    alike = np.zeros((len(gold), len(predicted)))
    for (right, found), number in _shared(gold, predicted).items():
        alike[right, found] = 2 * number / (len(gold[right]) + len(predicted[found]))
    best = _best_pairing(alike)
    return Agreement(best, len(predicted), best, len(gold))


def lea(gold: Clusters, predicted: Clusters) -> Agreement:
    """LEA (Moosavi and Strube 2016): the share of a cluster's links, weighted by its mentions.

    A cluster of one mention has one link, to itself, and only such a cluster has it too.
    """
    shared = _shared(gold, predicted)
    return Agreement(
        _resolved(predicted, gold, {(found, right): n for (right, found), n in shared.items()}),
        sum(map(len, predicted)),
        _resolved(gold, predicted, shared),
        sum(map(len, gold)),
    )


def mentions(gold: Clusters, predicted: Clusters) -> Agreement:
    """Returns how the mentions agree, whatever their clusters."""
    common = sum(_shared(gold, predicted).values())
    return Agreement(common, sum(map(len, predicted)), common, sum(map(len, gold)))


_MEASURES: Mapping[str, Measure] = {
    "muc": muc,
    "b_cubed": b_cubed,
    "ceaf_phi4": ceaf_phi4,
    "lea": lea,
    "mentions": mentions,
}
_OF_CONLL = ("muc", "b_cubed", "ceaf_phi4")


def _shared(gold: Clusters, predicted: Clusters) -> Counter[tuple[int, int]]:
    """Returns how many mentions a gold and a predicted cluster share, where they share any."""
    cluster_of = _cluster_of(predicted)
    return Counter(
        (right, cluster_of[mention])
        for mention, right in _cluster_of(gold).items()
        if mention in cluster_of
    )


def _cluster_of(clusters: Clusters) -> dict[Hashable, int]:
    cluster_of: dict[Hashable, int] = {}
    for place, cluster in enumerate(clusters):
        for mention in cluster:
            if cluster_of.setdefault(mention, place) != place:
                raise InputError(f"the mention {mention} is in two clusters")
    return cluster_of


def _links(clusters: Clusters) -> int:
    """Returns how many links hold all clusters together."""
    return sum(len(cluster) - 1 for cluster in clusters)


def _resolved(clusters: Clusters, others: Clusters, shared: Mapping[tuple[int, int], int]) -> float:
    """Returns the sum over clusters of mentions times the share of links that others have."""
    links = [0] * len(clusters)
    for (place, other), number in shared.items():
        is_alone = len(clusters[place]) == len(others[other]) == 1
        links[place] += 1 if is_alone else _pairs(number)
    return sum(
        len(cluster) * found / max(1, _pairs(len(cluster)))
        for cluster, found in zip(clusters, links, strict=True)
    )


def _pairs(number: int) -> int:
    return number * (number - 1) // 2


def _best_pairing(alike: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    """Returns the largest sum of entries with no two in a row or a column."""
    with needed("scipy", 'coreference is scored with scipy; pip install "elmokit[tasks]"'):
        from scipy import optimize
    return float(alike[optimize.linear_sum_assignment(alike, maximize=True)].sum())
