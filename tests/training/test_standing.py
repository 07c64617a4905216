import math

import pytest

from elmokit.training.standing import Standing


def added(*perplexities):
    standing = Standing()
    return standing, [standing.add(perplexity) for perplexity in perplexities]


def test_the_lowest_is_the_best():
    standing, best = added(9.0, 7.0, 8.0, 7.0, 6.0)
    assert best == [True, True, False, False, True]
    assert standing == Standing(first=9.0, previous=6.0, best=6.0, waited=0)


def test_patience_counts_from_the_best():
    standing, _ = added(9.0, 7.0, 8.0, 7.5)
    assert standing.waited == 2
    assert [standing.is_over(patience) for patience in (1, 2, 3, None)] == [
        True,
        True,
        False,
        False,
    ]
    assert not Standing().is_over(1)


@pytest.mark.parametrize(
    ("perplexities", "warnings"),
    [((9.0, 8.0, 8.0), 0), ((9.0, 8.0, 8.5), 1), ((8.0, 9.0, 10.0), 2)],
)
def test_a_rise_is_warned_of(caplog, perplexities, warnings):
    added(*perplexities)
    assert len(caplog.messages) == warnings
    assert all("held-out perplexity rises" in message for message in caplog.messages)


def test_what_is_not_finite_is_never_the_best_and_warned_of(caplog):
    standing, best = added(math.nan, math.inf)
    assert best == [False, False]
    assert standing.best == math.inf
    assert [message.split(":")[0] for message in caplog.messages] == [
        "held-out perplexity is no finite number"
    ] * 2
