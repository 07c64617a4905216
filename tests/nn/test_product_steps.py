import pytest
import torch

from elmokit.config import LSTMConfig
from elmokit.nn import lstm_steps
from elmokit.nn.lstm_steps import Reading
from elmokit.nn.products import MeasuringProduct
from elmokit.nn.projected_lstm import ProjectedLSTM, run_layers

SIZES = (4, 4, 3, 1, 1)


def layer_and_reading(**changes):
    torch.manual_seed(5)
    settings = {"cell_dim": 10, "projection_dim": 6, "cell_clip": 0.2, "projection_clip": 0.03}
    config = LSTMConfig(**{**settings, **changes})
    module = ProjectedLSTM(config, 7).requires_grad_(False)
    h, c = torch.randn(4, 6) / 9, torch.randn(4, config.cell_dim) / 9
    return module, Reading(torch.randn(sum(SIZES), 7), SIZES, h, c)


@pytest.mark.parametrize("chunk_rows", [1, 1024])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"forget_bias": 1.0},
        {"cell_clip": None, "projection_clip": None},
        {"cell_dim": 6, "recurrent_projection": False},
    ],
)
def test_equals_the_layer_without_products(monkeypatch, changes, chunk_rows):
    monkeypatch.setattr(lstm_steps, "_CHUNK_ROWS", chunk_rows)
    module, reading = layer_and_reading(**changes)
    before = reading.c.clone()
    (expected,) = run_layers([module], [reading])
    module.use_products(lambda name, weight, bias: MeasuringProduct(weight, bias), "it")
    (found,) = run_layers([module], [reading])
    for got, right in zip(found, expected, strict=True):
        torch.testing.assert_close(got, right, rtol=1e-5, atol=1e-6)
    assert torch.equal(reading.c, before), "the caller's state was overwritten"


@pytest.mark.parametrize("chunk_rows", [3, 1024])
@pytest.mark.parametrize("products", [False, True])
def test_distinct_inputs_and_their_places_are_read_as_inputs(monkeypatch, products, chunk_rows):
    monkeypatch.setattr(lstm_steps, "_CHUNK_ROWS", chunk_rows)
    module, reading = layer_and_reading()
    distinct = reading._replace(
        inputs=reading.inputs[:5], places=torch.tensor([4, 4, 0, 4, 1, 2, 2, 3, 4, 0, 0, 1, 2])
    )
    if products:
        module.use_products(lambda name, weight, bias: MeasuringProduct(weight, bias), "it")
    (expected,) = run_layers([module], [distinct.spread()])
    (found,) = run_layers([module], [distinct])
    for got, right in zip(found, expected, strict=True):
        torch.testing.assert_close(got, right, rtol=1e-5, atol=1e-6)


def test_a_state_may_be_a_view():
    module, reading = layer_and_reading()
    module.use_products(lambda name, weight, bias: MeasuringProduct(weight, bias), "it")
    (expected,) = run_layers([module], [reading])
    turned = reading._replace(h=reading.h.t().contiguous().t(), c=reading.c.t().contiguous().t())
    (found,) = run_layers([module], [turned])
    for got, right in zip(found, expected, strict=True):
        torch.testing.assert_close(got, right, rtol=1e-5, atol=1e-6)


def test_distinct_inputs_are_multiplied_once():
    module, reading = layer_and_reading()
    seen = []

    class Seeing(MeasuringProduct):
        def __call__(self, inputs):
            seen.append(len(inputs))
            return super().__call__(inputs)

    module.use_products(lambda name, weight, bias: Seeing(weight, bias), "it")
    places = torch.tensor([4, 4, 0, 4, 1, 2, 2, 4, 4, 0, 0, 1, 2])
    run_layers([module], [reading._replace(inputs=reading.inputs[:5], places=places)])
    assert seen[0] == 4


def test_a_gradient_goes_through_places():
    module, reading = layer_and_reading()
    module.requires_grad_(True)
    places = torch.randint(0, 5, (sum(SIZES),))
    gradients = []
    for spread in (False, True):
        types = reading.inputs[:5].clone().requires_grad_()
        distinct = reading._replace(inputs=types, places=places)
        ((outputs, _),) = run_layers([module], [distinct.spread() if spread else distinct])
        gradients.append(torch.autograd.grad(outputs.square().sum(), types)[0])
    torch.testing.assert_close(*gradients)
    assert gradients[0].abs().max() > 0


def test_each_product_is_made_of_its_matrix_and_name():
    module, reading = layer_and_reading()
    made = {}

    def make(name, weight, bias):
        assert not weight.requires_grad
        return made.setdefault(name, MeasuringProduct(weight, bias))

    module.requires_grad_(True).use_products(make, "up.0")
    run_layers([module], [reading])
    assert list(made) == ["up.0.input_weight", "up.0.recurrent_weight", "up.0.projection"]
    assert made["up.0.input_weight"].activations.high == reading.inputs.max()
    module.use_products(None, "up.0")
    assert module.products is None


@pytest.mark.parametrize("threads", [1, 3])
def test_the_pointwise_part_has_the_same_bits_beside_any_rows(threads):
    """Where threads cut a tensor, and where it ends, some functions of torch round otherwise."""
    torch.manual_seed(1)
    config = LSTMConfig(cell_dim=1000, projection_dim=8, num_layers=1)
    module = ProjectedLSTM(config, 8)

    class Exact(MeasuringProduct):
        """Sums in float64, for those of float32 depend on other rows and on the threads."""

        def __call__(self, inputs):
            return super().__call__(inputs.double()).float()

    def make(name, weight, bias):
        return Exact(weight.double(), bias if bias is None else bias.double())

    module.use_products(make, "it")
    inputs, before = torch.randn(200, 8), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:

        def step(number):
            zeros = torch.zeros(number, 8), torch.full((number, 1000), 0.1)
            return run_layers([module], [Reading(inputs[:number], (number,), *zeros)])[0]

        together = step(200)
        for number in (1, 3, 64, 99, 128, 150):
            for part, whole in zip(step(number), together, strict=True):
                assert torch.equal(part, whole[:number])
    finally:
        torch.set_num_threads(before)
