import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.training.order import SentenceOrder, shuffled

KEYS = st.tuples(st.integers(0, 2**256), st.integers(0, 2**32), st.integers(0, 1))


@given(st.integers(1, 60), KEYS, st.integers(1, 5), st.integers(0, 3))
def test_shares_of_an_epoch_are_disjoint_and_complete(count, key, world_size, epoch):
    taken = []
    for rank in range(min(world_size, count)):
        order = SentenceOrder(count, key=key, rank=rank, world_size=min(world_size, count))
        order.go_to(epoch=epoch, cursor=0)
        share = [order.take() for _ in range(len(order))]
        assert (order.epoch, order.cursor) == (epoch, len(order))
        taken += share
    assert sorted(taken) == list(range(count))


def test_epochs_follow_one_another_in_different_orders():
    order = SentenceOrder(50, key=(1, 2))
    first, second = ([order.take() for _ in range(50)] for _ in range(2))
    assert first != second
    assert sorted(first) == sorted(second) == list(range(50))
    assert order.epoch == 1


def test_any_place_can_be_gone_to():
    order = SentenceOrder(7, key=(3,), rank=1, world_size=2)
    taken, places = [], []
    for _ in range(12):
        places.append((order.epoch, order.cursor))
        taken.append(order.take())
    for i, (epoch, cursor) in enumerate(places):
        other = SentenceOrder(7, key=(3,), rank=1, world_size=2)
        other.go_to(epoch=epoch, cursor=cursor)
        assert [other.take() for _ in range(12 - i)] == taken[i:]


@pytest.mark.parametrize("other", [(1, 2, 4), (0, 2, 3), (1, 3, 3)])
def test_every_part_of_the_key_matters(other):
    assert shuffled(40, (1, 2, 3)).tolist() != shuffled(40, other).tolist()


def test_the_order_is_the_same_everywhere_and_for_ever():
    # A run that goes on under another version of NumPy must find its sentences again.
    assert shuffled(10, (2**200 + 7, 0, 1, 0)).tolist() == [0, 1, 9, 4, 7, 5, 2, 6, 8, 3]


def test_numbers_take_little_room():
    assert shuffled(200, (1,)).dtype == np.uint8
    assert shuffled(256, (1,)).dtype == np.uint16
    assert sorted(shuffled(70_000, (1,)).tolist()) == list(range(70_000))
    assert shuffled(70_000, (1,)).dtype == np.uint32
