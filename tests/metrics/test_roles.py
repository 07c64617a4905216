import pytest

from elmokit.metrics.counts import Counts
from elmokit.metrics.roles import Argument, arguments, score_roles
from elmokit.metrics.spans import Span


def spans(*found):
    return [Span(*span) for span in found]


@pytest.mark.parametrize(
    ("found", "joined"),
    [
        ([], []),
        ([(1, 2, "V")], []),
        ([(0, 1, "A0"), (1, 2, "V")], [("A0", ((0, 1),))]),
        # in any order, with V and an adjunct between the parts
        (
            [(5, 7, "C-A1"), (0, 2, "A1"), (2, 3, "V"), (3, 5, "AM-TMP")],
            [("A1", ((0, 2), (5, 7))), ("AM-TMP", ((3, 5),))],
        ),
        ([(0, 1, "A1"), (2, 3, "C-A1"), (4, 5, "C-A1")], [("A1", ((0, 1), (2, 3), (4, 5)))]),
        # goes on with the last of two
        (
            [(0, 1, "A1"), (1, 2, "A1"), (3, 4, "C-A1")],
            [("A1", ((0, 1),)), ("A1", ((1, 2), (3, 4)))],
        ),
        # a head that comes later is another argument
        ([(0, 1, "C-A1"), (2, 3, "A1")], [("A1", ((0, 1),)), ("A1", ((2, 3),))]),
        ([(0, 1, "C-A1"), (2, 3, "C-A1")], [("A1", ((0, 1), (2, 3)))]),
        # parts of the predicate are none of an argument
        ([(0, 1, "V"), (2, 3, "C-V"), (3, 4, "A1")], [("A1", ((3, 4),))]),
        ([(0, 1, "C-V"), (1, 2, "V")], []),
        # a reference is an argument of its own
        ([(0, 1, "A0"), (1, 2, "R-A0")], [("A0", ((0, 1),)), ("R-A0", ((1, 2),))]),
        ([(0, 1, "R-A0"), (2, 3, "C-R-A0")], [("R-A0", ((0, 1), (2, 3)))]),
    ],
)
def test_spans_are_joined_into_arguments(found, joined):
    assert arguments(spans(*found)) == [Argument(*argument) for argument in joined]


GOLD = spans((0, 2, "A0"), (2, 3, "V"), (3, 5, "A1"), (6, 8, "C-A1"), (8, 9, "AM-TMP"))


def test_counts_are_those_of_arguments_not_of_spans():
    # By hand: A0 right; A1 lacks its second part, so that it is wrong, and the excess AM-LOC too.
    found = spans((0, 2, "A0"), (2, 3, "V"), (3, 5, "A1"), (8, 9, "AM-LOC"))
    scores = score_roles([GOLD], [found])
    assert scores.overall == Counts(correct=1, predicted=3, gold=3)
    assert scores.labels == {
        "A0": Counts(1, 1, 1),
        "A1": Counts(0, 1, 1),
        "AM-LOC": Counts(0, 1, 0),
        "AM-TMP": Counts(0, 0, 1),
    }
    assert score_roles([GOLD], [GOLD]).overall == Counts(3, 3, 3)


def test_the_predicate_does_not_count():
    nothing = spans((2, 3, "V"))
    assert score_roles([nothing], [spans((1, 2, "V"), (3, 4, "C-V"))]).overall == Counts(0, 0, 0)
    assert score_roles([nothing], [nothing]).to_dict()["f1"] == 0.0


def test_a_continuation_without_head_is_a_head():
    scores = score_roles([spans((0, 1, "A1"))], [spans((0, 1, "C-A1"))])
    assert scores.overall == Counts(1, 1, 1)


def test_predicates_are_scored_apart():
    one, other = spans((0, 1, "A0")), spans((1, 2, "A0"))
    assert score_roles([one, other], [other, one]).overall == Counts(0, 2, 2)
    with pytest.raises(ValueError, match="longer"):
        score_roles([one], [one, other])
