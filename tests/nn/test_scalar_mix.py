import json

import numpy as np
import pytest
import torch

from elmokit.errors import ConfigError
from elmokit.nn import ScalarMix

CASES = range(6)


@pytest.mark.parametrize("case", CASES)
def test_equals_allennlp_with_gradients(fixtures, case):
    info = json.loads((fixtures / "D_units/scalar_mix.json").read_text())[case]
    data = {
        name.removeprefix(f"case{case}_"): torch.from_numpy(value)
        for name, value in np.load(fixtures / "D_units/scalar_mix.npz").items()
        if name.startswith(f"case{case}_")
    }
    mix = ScalarMix(
        info["n_tensors"], layer_norm=info["do_layer_norm"], weights=info["scalar_parameters"]
    )
    mix.gamma.data.fill_(info["gamma"])
    layers = [data[f"x{i}"].requires_grad_() for i in range(info["n_tensors"])]
    mixed = mix(layers, data["mask"])
    torch.testing.assert_close(mixed, data["y"], rtol=1e-5, atol=1e-5)
    (mixed * data["upstream"]).sum().backward()
    for i, layer in enumerate(layers):
        torch.testing.assert_close(layer.grad, data[f"grad_x{i}"], rtol=1e-5, atol=1e-5)
    expected = data["grad_scalar_parameters"]
    torch.testing.assert_close(mix.weights.grad, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(mix.gamma.grad, data["grad_gamma"][0], rtol=1e-5, atol=1e-5)


def test_normalized_weights_sum_to_one():
    mix = ScalarMix(3, weights=[0.5, -1.0, 2.0])
    torch.testing.assert_close(mix.normalized_weights, torch.softmax(mix.weights, 0))
    torch.testing.assert_close(mix.normalized_weights.sum(), torch.tensor(1.0))


def test_refuses_another_number_of_layers():
    with pytest.raises(ConfigError, match="expected 3, one per layer, found 2"):
        ScalarMix(3, weights=[1.0, 2.0])
    with pytest.raises(ConfigError, match="built for 3 layers, given 2"):
        ScalarMix(3)([torch.zeros(1, 2)] * 2)


def test_a_mask_of_zeros_and_ones_is_a_mask():
    mix, layer = ScalarMix(1, layer_norm=True), torch.randn(2, 3, 4)
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    assert torch.equal(mix([layer], mask), mix([layer], mask.bool()))
