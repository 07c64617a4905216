import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from elmokit.training.config import OptimizerSection
from elmokit.training.optimizers import Optimizers, clip_gradients, rate_factor

ROWS, WIDTH = 6, 3


def parameter(seed, *shape):
    return nn.Parameter(torch.randn(shape, generator=torch.Generator().manual_seed(seed)))


def sparse_gradient(seed, rows=(1, 4, 1)):
    """A gradient as a sampled softmax has it: some rows, one of them twice."""
    values = torch.randn(len(rows), WIDTH, generator=torch.Generator().manual_seed(seed))
    return torch.sparse_coo_tensor(
        torch.tensor([rows]), values, (ROWS, WIDTH), check_invariants=False
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_adagrad_is_tensorflows(sparse):
    weight = parameter(0, ROWS, WIDTH)
    optimizers = Optimizers(
        OptimizerSection(learning_rate=0.2, clip_norm=100), [weight], [weight] if sparse else []
    )
    expected = weight.detach().double()
    accumulator = torch.ones(ROWS, WIDTH, dtype=torch.float64)
    for step in range(3):
        gradient = sparse_gradient(step)
        weight.grad = gradient if sparse else gradient.to_dense()
        optimizers.clip()
        assert optimizers.step(step, 3) == 0.2
        assert weight.grad is None
        dense = gradient.to_dense().double()
        accumulator += dense**2
        expected -= 0.2 * dense / accumulator.sqrt()
    torch.testing.assert_close(weight.detach().double(), expected, rtol=0, atol=1e-6)
    untouched = [row for row in range(ROWS) if row not in (1, 4)]
    assert torch.equal(weight[untouched], parameter(0, ROWS, WIDTH)[untouched])
    (state,) = optimizers.state_dict()
    torch.testing.assert_close(state["state"][0]["sum"].double(), accumulator)


def test_adagrad_leaves_alone_what_has_no_gradient():
    frozen, moving = parameter(0, 2), parameter(1, 2)
    optimizers = Optimizers(OptimizerSection(), [frozen, moving], [])
    moving.grad = torch.ones(2)
    optimizers.clip()
    optimizers.step(0, 1)
    assert torch.equal(frozen, parameter(0, 2))
    assert not torch.equal(moving, parameter(1, 2))


def test_under_adamw_sparse_gradients_have_an_optimizer_of_their_own():
    section = OptimizerSection(
        name="adamw", learning_rate=0.01, weight_decay=0.1, clip_norm=100, decay="linear"
    )
    dense, sparse = parameter(0, WIDTH), parameter(1, ROWS, WIDTH)
    optimizers = Optimizers(section, [dense, sparse], [sparse])
    one, other = parameter(0, WIDTH), parameter(1, ROWS, WIDTH)
    references = (
        torch.optim.AdamW([one], 0.01, weight_decay=0.1),
        torch.optim.SparseAdam([other], 0.01),
    )
    for step in range(4):
        dense.grad, sparse.grad = torch.full((WIDTH,), 1.0 + step), sparse_gradient(step)
        one.grad, other.grad = torch.full((WIDTH,), 1.0 + step), sparse_gradient(step)
        optimizers.clip()
        rate = optimizers.step(step, 4)
        assert rate == 0.01 * (4 - step) / 4
        for reference in references:
            reference.param_groups[0]["lr"] = rate
            reference.step()
    torch.testing.assert_close(dense, one, rtol=0, atol=0)
    torch.testing.assert_close(sparse, other, rtol=0, atol=1e-7)
    assert not torch.equal(sparse, parameter(1, ROWS, WIDTH))


def test_adamw_alone_for_dense_gradients_and_sparse_adam_alone_for_sparse_ones():
    section = OptimizerSection(name="adamw", learning_rate=0.01)
    weight = parameter(0, ROWS, WIDTH)
    for sparse, gradient in (
        ([], torch.ones(ROWS, WIDTH)),
        ([weight], sparse_gradient(0)),
    ):
        before = weight.detach().clone()
        optimizers = Optimizers(section, [weight], sparse)
        weight.grad = gradient
        optimizers.clip()
        optimizers.step(0, 1)
        assert not torch.equal(weight, before)
        assert len(optimizers.state_dict()) == 1


@pytest.mark.parametrize("name", ["adagrad", "adamw"])
def test_a_restored_optimizer_goes_on_alike(name):
    section = OptimizerSection(name=name, learning_rate=0.1)

    def steps(optimizers, parameters, numbers):
        for number in numbers:
            parameters[0].grad = torch.full((WIDTH,), math.sin(number))
            parameters[1].grad = sparse_gradient(number)
            optimizers.clip()
            optimizers.step(number, 6)

    straight = [parameter(0, WIDTH), parameter(1, ROWS, WIDTH)]
    optimizers = Optimizers(section, straight, straight[1:])
    steps(optimizers, straight, range(3))
    resumed = [nn.Parameter(weight.detach().clone()) for weight in straight]
    restored = Optimizers(section, resumed, resumed[1:])
    restored.load_state_dict(copy.deepcopy(optimizers.state_dict()))
    steps(optimizers, straight, range(3, 6))
    steps(restored, resumed, range(3, 6))
    for one, other in zip(straight, resumed, strict=True):
        assert torch.equal(one, other)


# The limit of gradients


def gradients(seed=0):
    """Three parameters: one with a dense gradient, one with a sparse one, one with none."""
    dense, sparse, none = parameter(0, 4), parameter(1, ROWS, WIDTH), parameter(2, 2)
    dense.grad, sparse.grad = torch.arange(4.0), sparse_gradient(seed)
    return dense, sparse, none


def dense_norm(parameters):
    parts = [p.grad.to_dense().flatten() for p in parameters if p.grad is not None]
    return torch.cat(parts).norm().item()


def test_the_norm_is_that_of_all_gradients_with_repeated_rows_summed():
    parameters = gradients()
    norm = dense_norm(parameters)
    assert clip_gradients(parameters, 0.5) == pytest.approx(norm, rel=1e-6)
    assert norm > 0.5
    assert dense_norm(parameters) == pytest.approx(0.5, rel=1e-6)
    dense, sparse, none = parameters
    factor = 0.5 / norm
    torch.testing.assert_close(dense.grad, torch.arange(4.0) * factor)
    torch.testing.assert_close(sparse.grad.to_dense(), sparse_gradient(0).to_dense() * factor)
    assert none.grad is None


def test_gradients_within_the_limit_stay():
    parameters = gradients()
    norm = dense_norm(parameters)
    assert clip_gradients(parameters, norm * 1.001) == pytest.approx(norm, rel=1e-6)
    assert torch.equal(parameters[0].grad, torch.arange(4.0))
    assert torch.equal(parameters[1].grad.to_dense(), sparse_gradient(0).to_dense())


def test_the_limit_is_that_of_torch_for_dense_gradients():
    one, other = ([parameter(seed, 5) for seed in (0, 1)] for _ in range(2))
    for weights in (one, other):
        for seed, weight in enumerate(weights):
            weight.grad = parameter(seed + 2, 5).detach()
    norm = clip_gradients(one, 0.3)
    assert norm == pytest.approx(nn.utils.clip_grad_norm_(other, 0.3).item(), rel=1e-6)
    for weight, reference in zip(one, other, strict=True):
        torch.testing.assert_close(weight.grad, reference.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_gradient_that_is_not_finite_shows_in_the_norm(value):
    parameters = gradients()
    parameters[0].grad[1] = value
    assert not math.isfinite(clip_gradients(parameters, 1.0))


def test_no_gradient_at_all_has_a_norm_of_zero():
    assert clip_gradients([parameter(0, 2)], 1.0) == 0


# The learning rate


def factors(num_steps, **settings):
    section = OptimizerSection(**settings)
    return [rate_factor(section, step, num_steps) for step in range(num_steps)]


def test_the_rate_rises_then_falls():
    assert factors(3) == [1, 1, 1]
    assert factors(6, warmup_steps=4) == [0.25, 0.5, 0.75, 1, 1, 1]
    assert factors(4, decay="linear") == [1, 0.75, 0.5, 0.25]
    assert factors(6, warmup_steps=2, decay="linear") == [0.5, 1, 1, 0.75, 0.5, 0.25]
    half = math.sqrt(0.5) / 2
    assert factors(4, decay="cosine") == pytest.approx([1, 0.5 + half, 0.5, 0.5 - half])
    assert factors(2, warmup_steps=5) == [0.2, 0.4]  # a run that ends while it warms up


@given(st.integers(1, 40), st.integers(0, 50), st.sampled_from(["constant", "linear", "cosine"]))
def test_the_rate_never_leaves_its_range(num_steps, warmup_steps, decay):
    found = factors(num_steps, warmup_steps=warmup_steps, decay=decay)
    assert all(0 < factor <= 1 for factor in found)
    assert found[:warmup_steps] == sorted(found[:warmup_steps])
    assert found[warmup_steps:] == sorted(found[warmup_steps:], reverse=True)
    section = OptimizerSection(warmup_steps=warmup_steps, decay=decay)
    assert 0 <= rate_factor(section, num_steps + warmup_steps + 1, num_steps) <= 1
