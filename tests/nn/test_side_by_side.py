import contextlib
import functools
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from elmokit.nn import side_by_side as module
from elmokit.nn.side_by_side import _FEW_PRODUCTS, side_by_side

CPU = torch.device("cpu")
MANY = _FEW_PRODUCTS


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_results_come_in_order_from_this_thread_and_one_beside_it(two_threads):
    def compute(value):
        return value, threading.get_ident(), torch.get_num_threads(), torch.is_grad_enabled()

    runs = [side_by_side([lambda: compute(1), lambda: compute(2)], CPU, MANY, 2) for _ in range(2)]
    for (first, here, *_), (second, beside, *_) in runs:
        assert (first, second) == (1, 2)
        assert here == threading.get_ident() != beside
    assert runs[0] == runs[1], "the thread beside is the same each time"
    assert {(threads, grad) for run in runs for *_, threads, grad in run} == {(1, False)}
    assert torch.get_num_threads() == 2


def test_threads_are_those_given_and_not_those_in_use(two_threads):
    torch.set_num_threads(1)
    threads = side_by_side([torch.get_num_threads] * 2, CPU, MANY, 4)
    assert threads == [2, 2]
    assert torch.get_num_threads() == 1


def test_callers_on_several_threads_do_not_wait_for_each_other(two_threads):
    together = threading.Barrier(4, timeout=30)
    with ThreadPoolExecutor(2) as callers:
        runs = [callers.submit(side_by_side, [together.wait] * 2, CPU, MANY, 2) for _ in range(2)]
        assert sorted(place for run in runs for place in run.result()) == [0, 1, 2, 3]


def test_autocast_of_the_caller_changes_nothing(two_threads):
    with torch.autocast("cpu", torch.bfloat16):
        for number in (1, 2):
            product = functools.partial(torch.mm, torch.ones(2, 2), torch.ones(2, 2))
            found = side_by_side([product] * 2, CPU, MANY, number)
            assert [result.dtype for result in found] == [torch.float32] * 2


def test_a_forked_process_has_threads_of_its_own(two_threads, monkeypatch):
    _, before = side_by_side([threading.get_ident] * 2, CPU, MANY, 2)
    monkeypatch.setattr(module.os, "getpid", lambda: -1)  # the parent's threads are not in a child
    _, after = side_by_side([threading.get_ident] * 2, CPU, MANY, 2)
    assert after != before


def test_inference_mode_goes_along(two_threads):
    with torch.inference_mode():
        modes = side_by_side([torch.is_inference_mode_enabled] * 2, CPU, MANY, 2)
    assert modes == [True, True]
    outside = side_by_side([torch.is_inference_mode_enabled] * 2, CPU, MANY, 2)
    assert outside == [False, False]


def test_one_thread_runs_one_after_another(two_threads):
    idents = side_by_side([threading.get_ident] * 2, CPU, MANY, 1)
    assert idents == [threading.get_ident()] * 2


@pytest.mark.parametrize("threads", [1, 2])
def test_few_products_run_one_after_another_on_one_thread(two_threads, threads):
    torch.set_num_threads(threads)
    here = [lambda: (threading.get_ident(), torch.get_num_threads())] * 2
    assert side_by_side(here, CPU, MANY - 1, threads) == [(threading.get_ident(), 1)] * 2
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("num_products", [0, MANY])
def test_an_error_is_raised_and_threads_are_given_back(two_threads, num_products):
    with pytest.raises(ZeroDivisionError):
        side_by_side([lambda: 1 / 0, lambda: 2], CPU, num_products, 2)
    assert torch.get_num_threads() == 2


class Recording(torch.Tensor):
    """A tensor that knows on which streams it is marked as in use."""

    def record_stream(self, stream):
        self.__dict__.setdefault("streams", []).append(stream.name)


class Stream:
    """A stream that notes what is queued on it, in the order of all streams."""

    def __init__(self, name, log):
        self.name, self.log = name, log

    def wait_stream(self, other):
        self.log.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def gpu(monkeypatch):
    """Streams where there is no GPU; returns what is queued, and how to queue."""
    log, current = [], ["here"]

    @contextlib.contextmanager
    def on(stream):
        current.append(stream.name)
        yield
        current.pop()

    here, numbers = Stream("here", log), itertools.count(1)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: here)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream(f"beside {next(numbers)}", log))
    monkeypatch.setattr(torch.cuda, "stream", on)
    module._stream.cache_clear()
    yield log, lambda name: log.append(f"{current[-1]} computes {name}")
    module._stream.cache_clear()


def test_on_a_gpu_streams_wait_before_and_after(gpu):
    log, queue = gpu
    results = [torch.zeros(1).as_subclass(Recording) for _ in range(5)]

    def first():
        queue("a")
        return results[0], [results[1]], None

    def second():
        queue("b")
        return results[2], [results[3], (results[4],)], None

    for _ in range(2):
        found = side_by_side([first, second], torch.device("cuda:0"), MANY, 2)
    assert found == [
        (results[0], [results[1]], None),
        (results[2], [results[3], (results[4],)], None),
    ]
    once = [
        "beside 1 waits for here",
        "here computes a",
        "beside 1 computes b",
        "here waits for beside 1",
    ]
    assert log == 2 * once
    assert [getattr(result, "streams", []) for result in results] == [[], [], *[["here"] * 2] * 3]


def test_an_error_on_a_stream_is_raised_once_all_are_waited_for(gpu):
    log, queue = gpu
    with pytest.raises(ZeroDivisionError):
        side_by_side([lambda: queue("a"), lambda: 1 / 0], torch.device("cuda:0"), MANY, 2)
    assert log == ["beside 1 waits for here", "here computes a", "here waits for beside 1"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_real_gpu_results_are_those_of_one_stream():
    device = torch.device("cuda", torch.cuda.current_device())
    inputs = [torch.randn(512, 512, device=device) for _ in range(2)]

    def power(matrix):
        total = matrix
        for _ in range(50):
            total = torch.tanh(total @ matrix)
        return total

    expected = [power(matrix).clone() for matrix in inputs]
    for _ in range(20):
        found = side_by_side(
            [functools.partial(power, matrix) for matrix in inputs], device, MANY, 2
        )
        for got, whole in zip(found, expected, strict=True):
            assert torch.equal(got, whole)
