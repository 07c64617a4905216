import torch

from elmokit.nn import CarriedState, State

INITIAL = State(torch.full((2, 2, 3), 0.5), torch.full((2, 2, 5), -0.5))


def after(rows: int, value: float) -> State:
    return State(torch.full((2, 2, rows, 3), value), torch.full((2, 2, rows, 5), value))


def test_new_rows_start_from_the_initial_state_and_unused_rows_keep_theirs():
    carried = CarriedState()
    assert torch.equal(carried.take(torch.tensor([1, 0]), INITIAL).h, torch.full((2, 2, 2, 3), 0.5))
    carried.put(torch.tensor([1, 0]), after(2, 1.0))
    carried.take(torch.tensor([1]), INITIAL)
    carried.put(torch.tensor([1]), after(1, 2.0))
    state = carried.take(torch.tensor([3, 2, 1, 0]), INITIAL)
    assert state.h[0, 0, :, 0].tolist() == [0.5, 0.5, 2.0, 1.0]
    assert state.c[1, 1, :, 0].tolist() == [-0.5, -0.5, 2.0, 1.0]


def test_reset_forgets():
    carried = CarriedState()
    carried.take(torch.tensor([0]), INITIAL)
    carried.put(torch.tensor([0]), after(1, 3.0))
    carried.reset()
    assert carried.take(torch.tensor([0]), INITIAL).h.max() == 0.5


def test_a_stored_state_has_no_graph_and_is_a_copy():
    carried = CarriedState()
    carried.take(torch.tensor([0]), INITIAL)
    state = State(*(part.requires_grad_() for part in after(1, 1.0)))
    carried.put(torch.tensor([0]), state)
    taken = carried.take(torch.tensor([0]), INITIAL)
    assert not taken.h.requires_grad
    taken.h.fill_(9)
    assert carried.take(torch.tensor([0]), INITIAL).h.max() == 1
