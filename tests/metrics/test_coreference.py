"""Values by hand; A and D are the examples of CoNLL's scorer, D those of Bagga and Baldwin 1998."""

import sys
from dataclasses import dataclass
from fractions import Fraction as Share

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import InputError, MissingExtraError
from elmokit.metrics.coreference import (
    Agreement,
    b_cubed,
    ceaf_phi4,
    lea,
    mentions,
    muc,
    score_clusters,
)

MEASURES = {"muc": muc, "b_cubed": b_cubed, "ceaf_phi4": ceaf_phi4, "lea": lea}
A = "a bc def"
D = "12345 67 89ABC"


@dataclass(frozen=True)
class Case:
    """Clusters as words, mentions as letters; recall and precision of each measure."""

    gold: str
    predicted: str
    muc: tuple[float, float]
    b_cubed: tuple[float, float]
    ceaf_phi4: tuple[float, float]
    lea: tuple[float, float]


CASES = {
    # What is right, and what is missed or invented: a mention z is nowhere in gold.
    "A, all right": Case(A, A, (1, 1), (1, 1), (1, 1), (1, 1)),
    "A, some missed": Case(
        *(A, "a de", (Share(1, 3), 1), (Share(7, 18), 1)),
        *((Share(3, 5), Share(9, 10)), (Share(1, 3), 1)),
    ),
    "A, some invented": Case(
        *(A, "a bcx defy z", (1, Share(3, 5)), (1, Share(55, 108))),
        *((Share(93, 105), Share(93, 140)), (1, Share(4, 9))),
    ),
    "A, both": Case(
        *(A, "a bcx fy z", (Share(1, 3), Share(1, 3)), (Share(5, 9), Share(17, 42))),
        *((Share(11, 15), Share(11, 20)), (Share(1, 2), Share(2, 7))),
    ),
    "A, all in one": Case(
        # MUC 3 links of 3, of 5; B-cubed (1 + 4 + 9) / 6 of 6; CEAF 6 / 9; LEA 4 of 15 links.
        *(A, "abcdef", (1, Share(3, 5)), (1, Share(7, 18))),
        *((Share(2, 9), Share(2, 3)), (Share(5, 6), Share(4, 15))),
    ),
    "A, all apart": Case(
        # B-cubed 1 + 2 / 2 + 3 / 3; CEAF 1 + 2 / 3 + 1 / 2; LEA a alone.
        *(A, "a b c d e f", (0, 0), (Share(1, 2), 1)),
        *((Share(13, 18), Share(13, 36)), (Share(1, 6), Share(1, 6))),
    ),
    "D, two in one": Case(
        # MUC 9 links of 10; B-cubed (5 + 2 * 2 / 7 + 5 * 5 / 7) / 12; CEAF 1 + 10 / 12;
        # LEA (5 + 7 * 11 / 21) / 12.
        *(D, "12345 6789ABC", (1, Share(9, 10)), (1, Share(16, 21))),
        *((Share(11, 18), Share(11, 12)), (1, Share(13, 18))),
    ),
    "D, the large ones in one": Case(
        # B-cubed (10 / 2 + 2) / 12; CEAF 10 / 15 + 1; LEA (10 * 20 / 45 + 2) / 12.
        *(D, "1234589ABC 67", (1, Share(9, 10)), (1, Share(7, 12))),
        *((Share(5, 9), Share(5, 6)), (1, Share(29, 54))),
    ),
    "D, all in one": Case(
        # MUC 9 of 11; B-cubed (25 + 4 + 25) / 144; CEAF 10 / 17; LEA 21 of 66 links.
        *(D, "123456789ABC", (1, Share(9, 11)), (1, Share(3, 8))),
        *((Share(10, 51), Share(10, 17)), (1, Share(7, 22))),
    ),
    "D, all apart": Case(
        # CEAF 2 / 6 + 2 / 3 + 2 / 6, of 3 and of 12.
        *(D, "1 2 3 4 5 6 7 8 9 A B C", (0, 0), (Share(1, 4), 1)),
        *((Share(4, 9), Share(1, 9)), (0, 0)),
    ),
    "one cluster in two": Case(
        # MUC 3 links of 4, of 3; B-cubed (9 / 4 + 1 / 4 + 2) / 6; CEAF 6 / 7 + 1;
        # LEA (4 * 3 / 6 + 2) / 6, (3 + 0 + 2) / 6.
        *("abcd ef", "abc d ef", (Share(3, 4), 1), (Share(3, 4), 1)),
        *((Share(13, 14), Share(13, 21)), (Share(2, 3), Share(5, 6))),
    ),
    "one mention astray": Case(
        # MUC 2 links of 4, of 3; B-cubed (1 + 1 + 1 / 2) / 6, (2 + 4 / 3 + 1 / 3) / 5;
        # CEAF 4 / 6 + 2 / 5; LEA (4 * 2 / 6) / 6, (2 + 3 * 1 / 3) / 5.
        *("abcd ex", "ab cde", (Share(1, 2), Share(2, 3)), (Share(5, 12), Share(11, 15))),
        *((Share(8, 15), Share(8, 15)), (Share(2, 9), Share(3, 5))),
    ),
    "the most alike is not of the best pairing": Case(
        # CEAF 4 / 8 + 4 / 9, where the most alike, 6 / 11, would leave 0. MUC 4 links of 8, of 5;
        # B-cubed (9 / 6 + 4 / 4 + 4 / 6) / 10, (9 / 5 + 4 / 5 + 2) / 7;
        # LEA (6 * 4 / 15 + 4 * 1 / 6) / 10, (5 * 4 / 10 + 2) / 7.
        *("abcdef ghij", "abcgh de", (Share(1, 2), Share(4, 5)), (Share(19, 60), Share(23, 35))),
        *((Share(17, 36), Share(17, 36)), (Share(17, 75), Share(4, 7))),
    ),
    "nothing shared": Case("ab", "cd", (0, 0), (0, 0), (0, 0), (0, 0)),
    "nothing predicted": Case("ab cd", "", (0, 0), (0, 0), (0, 0), (0, 0)),
    "nothing there": Case("", "ab cd", (0, 0), (0, 0), (0, 0), (0, 0)),
    "nothing at all": Case("", "", (0, 0), (0, 0), (0, 0), (0, 0)),
    "singletons, all right": Case("a b", "b a", (0, 0), (1, 1), (1, 1), (1, 1)),
    "singletons put together": Case(
        # CEAF 2 / 3 of 2 and of 1.
        *("a b", "ab", (0, 0), (1, Share(1, 2)), (Share(1, 3), Share(2, 3)), (0, 0)),
    ),
    "a singleton too few": Case(
        *("ab c", "ab", (1, 1), (Share(2, 3), 1), (Share(1, 2), 1), (Share(2, 3), 1)),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("name", MEASURES)
def test_values_by_hand(case, name):
    gold, predicted = case.gold.split(), case.predicted.split()
    found = MEASURES[name](gold, predicted)
    recall, precision = getattr(case, name)
    assert found.recall == pytest.approx(float(recall))
    assert found.precision == pytest.approx(float(precision))
    turned = MEASURES[name](predicted, gold)
    assert (turned.recall, turned.precision) == pytest.approx((found.precision, found.recall))


def test_f1_and_the_score_of_the_shared_task():
    # "A, some missed": MUC 2 * 1/3 / (4/3), B-cubed 2 * 7/18 / (25/18), CEAF 2 * .6 * .9 / 1.5.
    scores = score_clusters([A.split()], [["a", "de"]])
    f1 = {name: agreement.f1 for name, agreement in scores.measures.items()}
    assert f1 == pytest.approx(
        {"muc": 0.5, "b_cubed": 0.56, "ceaf_phi4": 0.72, "lea": 0.5, "mentions": 2 / 3}
    )
    assert scores.conll == pytest.approx((0.5 + 0.56 + 0.72) / 3)
    written = scores.to_dict()
    assert written["conll"] == scores.conll
    assert written["muc"] == pytest.approx({"f1": 0.5, "precision": 1, "recall": 1 / 3})
    assert Agreement(0, 0, 0, 0).f1 == 0


def test_mentions_whatever_their_clusters():
    assert mentions(["ab", "c"], ["ac", "x"]) == Agreement(2, 3, 2, 3)


def test_documents_are_summed_before_shares_are_taken():
    scores = score_clusters([["ab"], ["abc", "de"], []], [["ab"], ["ab"], ["xy"]])
    # MUC: links 1 + 1 + 0, predicted 1 + 1 + 1, there 1 + 3 + 0.
    assert scores.measures["muc"] == Agreement(2, 3, 2, 4)
    # B-cubed: recall (2 + 4 / 3) / 7, precision 4 / 6.
    assert scores.measures["b_cubed"] == pytest.approx((4, 6, 2 + 4 / 3, 7))
    # CEAF: 1 + 4 / 5 of 3 clusters each.
    assert scores.measures["ceaf_phi4"] == pytest.approx((1.8, 3, 1.8, 3))
    with pytest.raises(ValueError, match="shorter"):
        score_clusters([["ab"]], [])


def test_no_document_scores_nothing():
    assert score_clusters([], []).conll == 0


def test_a_mention_in_two_clusters_is_refused():
    for sides in ((["ab", "bc"], ["ab"]), (["ab"], ["ab", "bc"])):
        with pytest.raises(InputError, match="the mention b is in two clusters"):
            score_clusters([sides[0]], [sides[1]])


def test_without_scipy_the_extra_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "scipy.optimize", raising=False)
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(MissingExtraError, match=r"elmokit\[tasks\]"):
        ceaf_phi4(["ab"], ["ab"])


@st.composite
def clusterings(draw):
    """Some mentions of twelve, each in one of five clusters."""
    which = draw(st.dictionaries(st.integers(0, 11), st.integers(0, 4)))
    clusters = {}
    for mention, number in which.items():
        clusters.setdefault(number, set()).add(mention)
    return list(clusters.values())


@given(clusterings(), clusterings())
def test_shares_are_shares_and_order_plays_no_part(gold, predicted):
    for measure in MEASURES.values():
        found = measure(gold, predicted)
        assert 0 <= found.recall <= 1 + 1e-12
        assert 0 <= found.precision <= 1 + 1e-12
        assert measure(gold[::-1], predicted[::-1]) == pytest.approx(found)


@given(clusterings())
def test_what_is_right_has_full_scores(clusters):
    for measure in (b_cubed, ceaf_phi4, lea):
        assert measure(clusters, clusters).f1 == pytest.approx(float(bool(clusters)))
    assert muc(clusters, clusters).f1 == any(len(cluster) > 1 for cluster in clusters)
