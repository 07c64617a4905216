import itertools
import random

import pytest

from elmokit.tasks.batches import prediction_batches, training_batches

LENGTHS = [random.Random(0).randrange(1, 60) for _ in range(500)] + [900]
LIMITS = {"batch_size": 16, "batch_tokens": 400}


def draw(seed=0, epoch=0):
    return training_batches(LENGTHS, **LIMITS, seed=seed, epoch=epoch)


def test_every_example_once_within_limits():
    for batches in (draw(), prediction_batches(LENGTHS, **LIMITS)):
        places = [place for batch in batches for place in batch]
        assert sorted(places) == list(range(len(LENGTHS)))
        for batch in batches:
            longest = max(LENGTHS[place] for place in batch)
            assert len(batch) == 1 or longest * len(batch) <= 400
            assert len(batch) <= 16


def test_order_is_that_of_seed_and_epoch():
    assert draw(1, 2) == draw(1, 2)
    assert len({str(draw(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


@pytest.mark.parametrize("seed", [2**43, 2**44, 2**63 - 1])
def test_any_seed_that_a_run_may_have_gives_an_order(seed):
    assert sorted(itertools.chain.from_iterable(draw(seed, 3))) == list(range(len(LENGTHS)))


def test_the_order_of_a_seed_stays_what_it_was():
    """Finished results can be had again."""
    order = training_batches([1] * 6, batch_size=2, batch_tokens=9, seed=7, epoch=3)
    assert order == [[5, 2], [3, 4], [0, 1]]


def test_batches_hold_like_lengths():
    batches = draw()
    padded = sum(max(LENGTHS[place] for place in batch) * len(batch) for batch in batches)
    assert padded < 1.15 * sum(LENGTHS)


def test_nothing_gives_no_batch():
    assert prediction_batches([], **LIMITS) == []
