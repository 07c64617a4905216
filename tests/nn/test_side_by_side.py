import threading

import pytest
import torch

from elmokit.nn.side_by_side import _FEW_PRODUCTS, side_by_side

CPU = torch.device("cpu")
MANY = _FEW_PRODUCTS


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_results_come_in_order_from_threads_of_their_own(two_threads):
    def compute(value):
        return value, threading.get_ident(), torch.get_num_threads(), torch.is_grad_enabled()

    results = side_by_side([lambda: compute(1), lambda: compute(2)], CPU, MANY)
    assert [value for value, *_ in results] == [1, 2]
    assert threading.get_ident() not in {ident for _, ident, *_ in results}
    assert {(threads, grad) for *_, threads, grad in results} == {(1, False)}
    assert torch.get_num_threads() == 2


def test_inference_mode_goes_along(two_threads):
    with torch.inference_mode():
        modes = side_by_side([torch.is_inference_mode_enabled] * 2, CPU, MANY)
    assert modes == [True, True]
    outside = side_by_side([torch.is_inference_mode_enabled] * 2, CPU, MANY)
    assert outside == [False, False]


def test_one_thread_runs_one_after_another(two_threads):
    torch.set_num_threads(1)
    idents = side_by_side([threading.get_ident] * 2, CPU, MANY)
    assert idents == [threading.get_ident()] * 2


@pytest.mark.parametrize("threads", [1, 2])
def test_few_products_run_one_after_another_on_one_thread(two_threads, threads):
    torch.set_num_threads(threads)
    here = [lambda: (threading.get_ident(), torch.get_num_threads())] * 2
    assert side_by_side(here, CPU, MANY - 1) == [(threading.get_ident(), 1)] * 2
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("num_products", [0, MANY])
def test_an_error_is_raised_and_threads_are_given_back(two_threads, num_products):
    with pytest.raises(ZeroDivisionError):
        side_by_side([lambda: 1 / 0, lambda: 2], CPU, num_products)
    assert torch.get_num_threads() == 2
