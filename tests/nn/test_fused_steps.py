"""The steps in C++ against those of torch; what needs `elmokit-kernels` is skipped without it."""

import logging
import sys
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.config import LSTMConfig
from elmokit.nn import fused_steps, lstm_steps, product_steps
from elmokit.nn.fused_steps import FusedSteps, kernels, make_steps
from elmokit.nn.lstm_steps import Reading, Steps, Weights
from elmokit.nn.products import Activations, Int8Product
from elmokit.nn.projected_lstm import ProjectedLSTM, run_layers

needs_kernels = pytest.mark.skipif(
    kernels() is None, reason="elmokit-kernels is not installed; make kernels builds it"
)


@pytest.fixture
def fresh_kernels():
    """Looks for the kernels anew, in the test and after it."""
    kernels.cache_clear()
    yield
    kernels.cache_clear()


def weights_of(cell_dim, dim, input_dim, is_projected, scale=1.0):
    shapes = (4 * cell_dim, input_dim), (4 * cell_dim, dim), (4 * cell_dim,), (dim, cell_dim)
    made = [scale * torch.randn(shape) / shape[-1] ** 0.5 for shape in shapes]
    return Weights(*made[:3], made[3] if is_projected else None)


def forward_and_back(steps, reading, outputs, last_cells):
    trace, last = steps.forward(reading, for_gradient=True)
    alone, last_alone = steps.forward(reading, for_gradient=False)
    assert torch.equal(alone.outputs, trace.outputs)
    assert torch.equal(last_alone, last)
    gradients = steps.backward(reading, trace, outputs, last_cells)
    return [trace.outputs, trace.cells, *trace.gates, last, *gradients]


def assert_close(found, expected):
    assert len(found) == len(expected)
    for got, right in zip(found, expected, strict=True):
        if right is None:
            assert got is None
        else:
            assert got.isfinite().all()
            error = (got - right).abs() / right.abs().clamp(min=1)
            assert error.max() <= 1e-5


@needs_kernels
@pytest.mark.parametrize("clip", [None, 0.3])
@pytest.mark.parametrize("is_projected", [True, False])
@settings(deadline=None, derandomize=True, max_examples=12)
@given(
    seed=st.integers(0, 2**16),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=7),
    cell_dim=st.integers(1, 70),
    chunk_rows=st.sampled_from([1, 7, 1024]),
    forget_bias=st.sampled_from([0.0, 1.0]),
    scale=st.sampled_from([0.3, 1.0, 2.0]),
)
def test_numbers_and_gradients_are_those_of_torch(
    clip, is_projected, seed, sizes, cell_dim, chunk_rows, forget_bias, scale
):
    torch.manual_seed(seed)
    sizes = tuple(sorted(sizes, reverse=True))
    dim = 5 if is_projected else cell_dim
    config = LSTMConfig(
        cell_dim=cell_dim,
        projection_dim=dim,
        recurrent_projection=is_projected,
        cell_clip=clip,
        projection_clip=clip,
        forget_bias=forget_bias,
    )
    weights = weights_of(cell_dim, dim, 4, is_projected, scale)
    c = torch.randn(sizes[0], cell_dim)
    if clip is not None:
        c = c.clamp(-clip, clip)
    reading = Reading(torch.randn(sum(sizes), 4), sizes, torch.randn(sizes[0], dim) / 3, c)
    gradients = torch.randn(sum(sizes), dim) / 4, torch.randn(sizes[0], cell_dim) / 4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lstm_steps, "_CHUNK_ROWS", chunk_rows)
        expected = forward_and_back(Steps(config, weights, torch.float32), reading, *gradients)
        found = forward_and_back(FusedSteps(config, weights, kernels()), reading, *gradients)
    assert_close(found, expected)


@needs_kernels
def test_gates_are_right_from_end_to_end_of_float32():
    """One cell, no products: what sigmoid and tanh give, against float64."""
    x = torch.cat([torch.linspace(-30, 30, 4001), torch.tensor([-1e30, -88.0, 1e-20, 88.0, 1e30])])
    size = len(x)
    gates, c, h = x.repeat(1, 4), torch.zeros(1, size), torch.zeros(1, 1)
    nothing = torch.zeros(4 * size, 1), torch.zeros(1, size)
    kernels().forward(gates, h, c, torch.empty(1, 1), None, [1], *nothing, 1e9, 1e9)
    i, f, g, o = gates.view(4, -1).double()
    exact = x.double()
    for found, right in ((i, exact.sigmoid()), (f, exact.sigmoid()), (g, exact.tanh())):
        inside = x.abs() < 80
        torch.testing.assert_close(found[inside], right[inside], rtol=5e-7, atol=0)
        torch.testing.assert_close(found, right, rtol=0, atol=2e-7)
    assert torch.equal(i, o)


@needs_kernels
def test_what_is_no_number_stays_so():
    config = LSTMConfig(cell_dim=20, projection_dim=3, cell_clip=3.0, projection_clip=3.0)
    steps = FusedSteps(config, weights_of(20, 3, 4, is_projected=True), kernels())
    inputs = torch.full((2, 4), torch.nan)
    trace, last = steps.forward(
        Reading(inputs, (1, 1), torch.zeros(1, 3), torch.zeros(1, 20)), for_gradient=False
    )
    assert trace.outputs.isnan().all()
    assert last.isnan().all()


@needs_kernels
@pytest.mark.parametrize("cell_dim", [16, 37])
def test_bits_of_a_row_do_not_depend_on_its_place(cell_dim):
    """With weights of zero, so that products, which are not theirs, play no part."""
    torch.manual_seed(1)
    rows = torch.randn(1, 4 * cell_dim).repeat(40, 1)
    c = torch.randn(1, cell_dim).repeat(40, 1)
    steps = torch.zeros(4 * cell_dim, cell_dim), None, 3.0, 3.0
    results = []
    for number in (1, 2, 7, 40):
        gates, cells, hidden = rows[:number].clone(), c[:number].clone(), c[:number].clone()
        h = torch.zeros(number, cell_dim)
        kernels().forward(gates, h, cells, hidden, None, [number], *steps)
        given = gates, c[:number].clone(), cells, hidden
        by_gates, by_hidden = torch.empty_like(gates), torch.empty_like(c[:number])
        by_c = c[:number].clone()
        work = *given, by_gates, by_hidden, c[:number].clone()
        kernels().backward(*work, h, by_c, [number], *steps)
        results.append((gates, cells, hidden, by_gates, by_hidden, by_c))
    alone = results[0]
    for result in results:
        for got, expected in zip(result, alone, strict=True):
            assert torch.equal(got, expected.expand_as(got))


@needs_kernels
def test_states_that_are_views_are_read_and_left_as_they_are():
    config = LSTMConfig(cell_dim=8, projection_dim=3)
    weights = weights_of(8, 3, 4, is_projected=True)
    h, c = torch.randn(3, 2).t(), torch.randn(1, 8).expand(2, 8)
    before = h.clone(), c.clone()
    reading = Reading(torch.randn(4, 4), (2, 2), h, c)
    gradients = torch.ones(1, 1).expand(4, 3), torch.randn(8, 2).t()
    expected = forward_and_back(Steps(config, weights, torch.float32), reading, *gradients)
    found = forward_and_back(FusedSteps(config, weights, kernels()), reading, *gradients)
    assert_close(found, expected)
    assert torch.equal(h, before[0])
    assert torch.equal(c, before[1])


@needs_kernels
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gates": torch.zeros(2, 31)}, r"gates must be a contiguous float32 matrix \(2, 32\)"),
        ({"c": torch.zeros(8, 2).t()}, "c must be a contiguous"),
        ({"outputs": torch.zeros(2, 3, dtype=torch.float64)}, "outputs must be"),
        ({"sizes": [2, 1]}, "3 of 2 positions"),
        ({"sizes": [3]}, "3 of 2 rows"),
        ({"projection": None}, "without a projection D is H"),
    ],
)
def test_memory_that_is_not_as_it_must_be_is_refused(change, message):
    arguments = {
        "gates": torch.zeros(2, 32),
        "h": torch.zeros(2, 3),
        "c": torch.zeros(2, 8),
        "outputs": torch.zeros(2, 3),
        "cells": None,
        "sizes": [2],
        "recurrent": torch.zeros(32, 3),
        "projection": torch.zeros(3, 8),
        **change,
    }
    with pytest.raises(RuntimeError, match=message):
        kernels().forward(*arguments.values(), 3.0, 3.0)


@needs_kernels
@given(rows=st.integers(1, 40), cell_dim=st.integers(1, 70), clip=st.sampled_from([0.3, 1e9]))
@settings(max_examples=30, deadline=None)
def test_a_cell_of_halves_is_that_of_torch_and_its_bits_are_those_of_its_row(rows, cell_dim, clip):
    gates, c = 3 * torch.randn(rows, 4 * cell_dim), torch.randn(rows, cell_dim)
    expected_c = c.clone()
    expected = product_steps._cell_of_halves(gates.clone(), expected_c, clip)
    found_c = c.clone()
    found = kernels().cell_of_halves(gates, found_c, clip)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found_c, expected_c, rtol=1e-5, atol=1e-6)
    alone = kernels().cell_of_halves(gates[-1:].clone(), c[-1:], clip)
    assert torch.equal(alone[0], found[-1])


@needs_kernels
@pytest.mark.parametrize("spread", [1.0, 0.01], ids=["one code", "two codes"])
def test_codes_are_those_of_torch(fresh_kernels, monkeypatch, spread):
    product = Int8Product(torch.randn(9, 7), None, Activations(-1.0, 2.0, spread))
    inputs = torch.cat([torch.randn(50, 7), torch.full((1, 7), 9.0), torch.full((1, 7), -9.0)])
    found = product._codes(inputs)
    kernels.cache_clear()
    monkeypatch.setitem(sys.modules, "elmokit_kernels", None)
    expected = product._codes(inputs)
    assert len(found) == len(expected) == 1 + (spread < 1)
    for got, right in zip(found, expected, strict=True):
        assert got.step == right.step
        assert got.zero_point == right.zero_point
        assert torch.equal(got.values, right.values)


@needs_kernels
def test_float32_on_the_cpu_is_what_they_are_for():
    config, weights = LSTMConfig(), weights_of(8, 3, 4, is_projected=True)
    assert type(make_steps(config, weights, torch.float32)) is FusedSteps
    doubles = Weights(*(weight.double() for weight in weights))
    elsewhere = Weights(*(weight.to("meta") for weight in weights))
    assert type(make_steps(config, doubles, torch.float64)) is Steps
    assert type(make_steps(config, elsewhere, torch.float32)) is Steps
    assert type(make_steps(config, weights, torch.bfloat16)) is Steps


def run_small_layer():
    torch.manual_seed(5)
    layer = ProjectedLSTM(LSTMConfig(cell_dim=10, projection_dim=6), 7).requires_grad_(False)
    reading = Reading(torch.randn(3, 7), (2, 1), torch.zeros(2, 6), torch.zeros(2, 10))
    return run_layers([layer], [reading])[0]


def test_without_them_torch_makes_the_steps(fresh_kernels, monkeypatch, caplog):
    expected = run_small_layer()
    kernels.cache_clear()
    monkeypatch.setitem(sys.modules, "elmokit_kernels", None)  # as if it were not installed
    assert kernels() is None
    weights = weights_of(8, 3, 4, is_projected=True)
    assert type(make_steps(LSTMConfig(), weights, torch.float32)) is Steps
    for got, right in zip(run_small_layer(), expected, strict=True):
        torch.testing.assert_close(got, right, rtol=1e-5, atol=1e-6)
    assert not caplog.records


BROKEN = {
    "numbers": (
        SimpleNamespace(
            forward=lambda *_: None,
            backward=lambda *_: None,
            cell_of_halves=lambda gates, c, clip: c,
            codes_of=lambda *_: torch.zeros(2, 1, 2, dtype=torch.uint8),
        ),
        "its numbers are wrong",
    ),
    "arguments": (SimpleNamespace(forward=lambda gates: None), "takes 1 positional argument"),
    "import": (ImportError("undefined symbol: _ZN3c10\nand more"), "undefined symbol: _ZN3c10"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_build_is_named_once_and_not_used(fresh_kernels, monkeypatch, caplog, kind):
    broken, message = BROKEN[kind]

    def import_module(name):
        if isinstance(broken, Exception):
            raise broken
        return broken

    monkeypatch.setattr(fused_steps.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(fused_steps.importlib, "import_module", import_module)
    with caplog.at_level(logging.WARNING):
        outputs, _ = run_small_layer()
        run_small_layer()
    assert outputs.isfinite().all()
    (record,) = caplog.records
    assert message in record.getMessage()
    assert "\n" not in record.getMessage()
