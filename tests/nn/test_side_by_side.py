import threading

import pytest
import torch

from elmokit.nn.side_by_side import side_by_side


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_results_come_in_order_from_threads_of_their_own(two_threads):
    def compute(value):
        return value, threading.get_ident(), torch.get_num_threads(), torch.is_grad_enabled()

    results = side_by_side([lambda: compute(1), lambda: compute(2)], torch.device("cpu"))
    assert [value for value, *_ in results] == [1, 2]
    assert threading.get_ident() not in {ident for _, ident, *_ in results}
    assert {(threads, grad) for *_, threads, grad in results} == {(1, False)}
    assert torch.get_num_threads() == 2


def test_inference_mode_goes_along(two_threads):
    with torch.inference_mode():
        modes = side_by_side([torch.is_inference_mode_enabled] * 2, torch.device("cpu"))
    assert modes == [True, True]
    assert side_by_side([torch.is_inference_mode_enabled] * 2, torch.device("cpu")) == [
        False,
        False,
    ]


def test_one_thread_runs_one_after_another(two_threads):
    torch.set_num_threads(1)
    idents = side_by_side([threading.get_ident] * 2, torch.device("cpu"))
    assert idents == [threading.get_ident()] * 2


def test_an_error_is_raised_and_threads_are_given_back(two_threads):
    with pytest.raises(ZeroDivisionError):
        side_by_side([lambda: 1 / 0, lambda: 2], torch.device("cpu"))
    assert torch.get_num_threads() == 2
