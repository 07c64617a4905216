import copy
import pickle

import pytest
import torch

from elmokit.nn import products
from elmokit.nn.products import Activations, Int8Product, Linear, MeasuringProduct, int8_problem

NARROW, WIDE = Activations(-3.0, 2.0, 1.0), Activations(-3.0, 2.0, 0.1)


def matrix(num_outputs, width):
    torch.manual_seed(num_outputs)
    return torch.randn(num_outputs, width) / width**0.5


def rows(number, width):
    return torch.randn(number, width).clamp(-3, 2)


@pytest.mark.parametrize(("activations", "error"), [(NARROW, 0.06), (WIDE, 0.04)])
def test_is_close_to_the_product_in_float32(activations, error):
    weight, bias, inputs = matrix(300, 64), torch.randn(300), rows(50, 64)
    product = Int8Product(weight, bias, activations)
    right = inputs @ weight.t()
    torch.testing.assert_close(product(inputs), right + bias, rtol=0, atol=error)
    total = torch.randn(50, 300)
    added = product.add_to(total.clone(), inputs)
    torch.testing.assert_close(added, total + right, rtol=0, atol=error)


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 2.0), (-3.0, 0.0), (-0.01, 5.0)])
def test_codes_meet_zero_and_an_end_and_stop_at_both(low, high):
    product = Int8Product(torch.eye(300), None, Activations(low, high, 1.0))
    found = product(torch.linspace(low, high, 300).repeat(300, 1).t())
    assert 120 <= len(found[:, 0].unique()) <= 128
    beyond = product(torch.tensor([[-9.0] * 300, [0.0] * 300, [9.0] * 300]))[:, 0]
    torch.testing.assert_close(beyond, torch.tensor([low, 0.0, high]), rtol=0, atol=0.02)
    assert beyond[1] == 0
    assert min(abs(beyond[0] - low), abs(beyond[2] - high)) < 1e-6


def test_wide_activations_have_room_beyond_what_was_measured():
    product = Int8Product(torch.eye(300), None, WIDE)
    inputs = torch.linspace(-6, 4, 300).repeat(300, 1)
    torch.testing.assert_close(product(inputs), inputs, rtol=0, atol=0.003)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_sums_do_not_stop_at_16_bits(sign):
    weight, inputs = torch.full((300, 512), sign), torch.ones(40, 512)
    product = Int8Product(weight, None, Activations(0.0, 1.0, 1.0))
    torch.testing.assert_close(product(inputs), torch.full((40, 300), 512 * sign))


@pytest.mark.parametrize("activations", [NARROW, WIDE])
@pytest.mark.parametrize("shape", [(8, 3), (16, 30), (40, 20), (64, 64), (256, 18), (512, 96)])
def test_a_row_has_the_same_bits_beside_any_others(shape, activations):
    product = Int8Product(matrix(*shape), torch.randn(shape[0]), activations)
    inputs, total = rows(70, shape[1]), torch.randn(70, shape[0])
    together, added = product(inputs), product.add_to(total.clone(), inputs)
    for first, last in ((0, 1), (5, 7), (20, 36), (0, 33), (69, 70)):
        some = slice(first, last)
        assert torch.equal(product(inputs[some]), together[some])
        assert torch.equal(product.add_to(total[some].clone(), inputs[some]), added[some])


def test_outputs_of_zeros_and_inputs_of_zeros():
    weight = matrix(20, 8)
    weight[3] = 0
    assert not Int8Product(weight, None, NARROW)(rows(4, 8))[:, 3].any()
    assert not Int8Product(weight, None, Activations(0.0, 0.0, 0.0))(torch.zeros(4, 8)).any()


def test_copies_and_pickles_multiply_alike():
    product = Int8Product(matrix(40, 16), None, NARROW)
    inputs = rows(5, 16)
    for copied in (copy.deepcopy(product), pickle.loads(pickle.dumps(product))):
        assert torch.equal(copied(inputs), product(inputs))


def test_a_measuring_product_multiplies_and_keeps_account():
    weight, bias = matrix(4, 6), torch.randn(4)
    product = MeasuringProduct(weight, bias)
    parts = torch.rand(3, 6) + 1, torch.rand(2, 6) - 3
    for part in parts:
        torch.testing.assert_close(product(part), part @ weight.t() + bias)
    total = torch.ones(1, 4)
    added = MeasuringProduct(weight, None).add_to(total.clone(), parts[0][:1])
    torch.testing.assert_close(added, total + parts[0][:1] @ weight.t())
    seen, all_parts = product.activations, torch.cat(parts).double()
    assert seen.low == all_parts.min()
    assert seen.high == all_parts.max()
    assert seen.spread == pytest.approx(float(all_parts.std(correction=0)))


def test_zero_is_always_within_what_was_measured():
    product = MeasuringProduct(matrix(4, 6), None)
    product(torch.full((2, 6), 5.0))
    assert product.activations == (0.0, 5.0, 0.0)


def test_a_linear_layer_multiplies_as_it_is_told():
    layer, inputs = Linear(6, 300), rows(3, 6)
    before = layer(inputs)
    layer.use_products(lambda name, weight, bias: Int8Product(weight, bias, NARROW), "it")
    assert not torch.equal(layer(inputs), before)
    torch.testing.assert_close(layer(inputs), before, rtol=0, atol=0.1)
    assert layer.state_dict().keys() == {"weight", "bias"}
    layer.use_products(None, "it")
    assert torch.equal(layer(inputs), before)


@pytest.fixture
def unknown_problem():
    """What was found out is forgotten before and after."""
    int8_problem.cache_clear()
    yield
    int8_problem.cache_clear()


def test_no_problem_here(unknown_problem):
    assert int8_problem() is None


def test_what_torch_lacks_is_a_problem(unknown_problem, monkeypatch):
    def pack(product):
        raise NotImplementedError("no such thing\nand more")

    monkeypatch.setattr(products.Int8Product, "_pack", pack)
    assert int8_problem() == "no such thing"


def test_wrong_sums_are_a_problem(unknown_problem, monkeypatch):
    codes = products.Int8Product._codes
    monkeypatch.setattr(products.Int8Product, "_codes", lambda self, x: codes(self, x * 0.9))
    assert int8_problem() == "it multiplies wrongly"
