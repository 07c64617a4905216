import copy
import io
import pickle

import numpy as np
import pytest
import torch

from builders import char_bilm, char_config, sentences_of_lengths
from elmokit.model import BiLM
from elmokit.nn import BiLMNetwork
from elmokit.nn.products import MeasuringProduct
from numpy_bilm import NumpyBiLM


@pytest.mark.parametrize("folder", ["A2_bilm_skip", "A2_bilm_noskip"])
def test_equals_plain_numpy(fixtures, folder):
    files = fixtures / folder
    bilm = BiLM.from_pretrained(files)
    judge = NumpyBiLM(files / "options.json", files / "weights.hdf5")
    for sentence in (["Hello", "world"], [], ["x"], ["naïve", "<S>", "", "a" * 60, "深い"]):
        judge.reset()
        batch = bilm.encode([sentence])
        network = bilm.network
        layers, _ = network.run(network.encode_types(batch.types), batch)
        got = [layers.join(k, batch.flipped()).detach().numpy() for k in range(len(layers))]
        np.testing.assert_allclose(np.stack(got), judge.embed(sentence), rtol=1e-5, atol=3e-5)


@pytest.mark.parametrize(
    "changes", [{"skip_connections": False}, {"num_layers": 1}, {"num_layers": 4}]
)
def test_any_number_of_layers_with_or_without_skip(changes):
    bilm = char_bilm(**changes)
    batch = bilm.encode(sentences_of_lengths([3, 0, 5]))
    layers, state = bilm.network.run(bilm.network.encode_types(batch.types), batch)
    count = changes.get("num_layers", 2)
    assert len(layers) == count + 1
    assert state.h.shape == (count, 2, 3, 8)
    assert state.c.shape == (count, 2, 3, 24)


def test_state_dict_pickle_and_deepcopy_after_a_forward_pass():
    bilm = char_bilm()
    batch = bilm.encode(sentences_of_lengths([3, 1]))
    network = bilm.network
    top = network.run(network.encode_types(batch.types), batch)[0].forward[-1]
    buffer = io.BytesIO()
    torch.save(network.state_dict(), buffer)
    buffer.seek(0)
    fresh = BiLMNetwork(char_config())
    fresh.load_state_dict(torch.load(buffer, weights_only=True))
    for copied in (fresh, copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        again = copied.run(copied.encode_types(batch.types), batch)[0].forward[-1]
        assert torch.equal(again, top)


def test_everything_is_differentiable():
    bilm = char_bilm()
    batch = bilm.encode(sentences_of_lengths([4, 2, 6]))
    layers, state = bilm.network.run(bilm.network.encode_types(batch.types), batch)
    (layers.forward[-1].sum() + layers.backward[-1].sum() + state.c.sum()).backward()
    missing = [
        name for name, p in bilm.network.named_parameters() if p.grad is None or not p.grad.any()
    ]
    assert missing == []


def test_products_of_ones_own_are_made_and_taken_off_again():
    network = char_bilm().network
    batch = char_bilm().encode(sentences_of_lengths([3, 0, 5]))

    def run():
        with torch.no_grad():
            layers, state = network.run(network.encode_types(batch.types), batch)
            return [*layers.forward, *layers.backward, *state]

    right, names = run(), []

    def make(name, weight, bias):
        names.append(name)
        return MeasuringProduct(weight, bias)

    network.use_products(make)
    for found, expected in zip(run(), right, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert len(names) == len(set(names)) == 2 + 2 * 2 * 3
    assert "token_encoder.characters.highways.0" in names
    assert "backward_lstm.1.recurrent_weight" in names
    network.use_products(None)
    for found, expected in zip(run(), right, strict=True):
        assert torch.equal(found, expected)
