import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.characters import ByteAlphabet
from elmokit.config import CharCNNConfig
from elmokit.nn import char_encoder
from elmokit.nn.char_encoder import CharEncoder
from elmokit.nn.products import Activations, Int8Product


@pytest.mark.parametrize("case", [0, 1])
def test_highway_equals_allennlp(fixtures, case):
    # Case 2 has tanh, which no ELMo's highway has.
    info = json.loads((fixtures / "D_units/highway.json").read_text())[case]
    data = np.load(fixtures / "D_units/highway.npz")
    x = torch.from_numpy(data[f"case{case}_x"]).flatten(0, -2)
    for layer in range(info["num_layers"]):
        weight = torch.from_numpy(data[f"case{case}_layer{layer}_weight"])
        bias = torch.from_numpy(data[f"case{case}_layer{layer}_bias"])
        x = char_encoder._highway(x, F.linear(x, weight, bias))
    expected = torch.from_numpy(data[f"case{case}_y"]).flatten(0, -2)
    torch.testing.assert_close(x, expected, rtol=1e-5, atol=1e-5)


def encoder(limit=12, widths=(1, 2, 5), activation="relu") -> CharEncoder:
    torch.manual_seed(3)
    config = CharCNNConfig(
        num_characters=261,
        max_characters=limit,
        embedding_dim=4,
        filters=tuple((width, 5) for width in widths),
        num_highway=1,
        activation=activation,
    )
    return CharEncoder(config)


def untrimmed(module: CharEncoder, char_ids: torch.Tensor) -> torch.Tensor:
    """The CNN over all positions, padding included."""
    characters = F.embedding(char_ids, module.embedding.weight).transpose(1, 2)
    x = torch.cat([F.conv1d(characters, c.weight, c.bias).amax(2) for c in module.convolutions], 1)
    x = torch.relu(x) if module.config.activation == "relu" else torch.tanh(x)
    for highway in module.highways:
        a, gate = highway(x).chunk(2, 1)
        x = torch.sigmoid(gate) * x + (1 - torch.sigmoid(gate)) * torch.relu(a)
    return x


def test_gradients_equal_those_of_a_convolution(monkeypatch):
    monkeypatch.setattr(char_encoder, "_CHUNK_CHARACTERS", 20)
    module = encoder().double()
    words = ["a", "aa", "abba", "longer", "", "the-longest-of-all", "é"]  # with equal windows
    alphabet = ByteAlphabet(max_characters=12)
    char_ids = torch.tensor([(alphabet.encode(word) + [261] * 12)[:12] for word in words])
    gradients = []
    for encode in (module, lambda ids: untrimmed(module, ids)):
        module.zero_grad()
        vectors = encode(char_ids)
        torch.manual_seed(4)
        (vectors * torch.randn_like(vectors)).sum().backward()
        gradients.append([parameter.grad.clone() for parameter in module.parameters()])
    for got, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    words=st.lists(st.text("abé深\ud800", max_size=14), min_size=1, max_size=9),
    activation=st.sampled_from(["relu", "tanh"]),
)
def test_trimming_is_exact(words, activation):
    module = encoder(activation=activation)
    alphabet = ByteAlphabet(max_characters=12)
    ids = torch.tensor([(alphabet.encode(word) + [261] * 12)[:12] for word in words])
    torch.testing.assert_close(module(ids), untrimmed(module, ids), rtol=1e-5, atol=1e-6)


def test_a_word_of_one_repeated_character_keeps_its_windows():
    module = encoder()
    ids = torch.tensor([[7] * 12, [7] * 11 + [8], [7] + [8] * 11, [7, 8] * 6])
    torch.testing.assert_close(module(ids), untrimmed(module, ids), rtol=1e-5, atol=1e-6)


def test_small_chunks_change_nothing(monkeypatch):
    module = encoder()
    ids = torch.randint(1, 262, (40, 12), generator=torch.Generator().manual_seed(1))
    whole = module(ids)
    monkeypatch.setattr(char_encoder, "_CHUNK_CHARACTERS", 30)
    torch.testing.assert_close(module(ids), whole, rtol=1e-5, atol=1e-6)


def test_gradients_reach_every_parameter_and_not_the_empty_row():
    module = encoder()
    module(torch.randint(1, 262, (40, 12))).sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in module.parameters())
    assert not module.embedding.weight.grad[0].any()


def test_a_word_has_the_same_bits_beside_any_others():
    """Else int8, which rounds what comes out, would now and then give it other vectors."""
    module = encoder(limit=30, widths=(1, 2, 3, 4, 7)).requires_grad_(False)
    seen = Activations(-1.0, 3.0, 1.0)
    for highway in module.highways:
        highway.use_products(lambda name, weight, bias: Int8Product(weight, bias, seen), "it")
    alphabet = ByteAlphabet(max_characters=30)
    words = ["kettle"[:length] + "x" * extra for length in range(1, 7) for extra in range(0, 15, 2)]
    ids = torch.tensor([(alphabet.encode(word) + [261] * 30)[:30] for word in words])
    with torch.no_grad():
        together = module(ids)
        for some in (slice(0, 1), slice(3, 10), slice(20, 40), slice(47, 48)):
            assert torch.equal(module(ids[some]), together[some])
