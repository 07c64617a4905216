import numpy as np
import pytest
import torch

from builders import char_bilm, sentences_of_lengths
from elmokit import BiLM, Embedder
from elmokit.embedding.devices import find_device, multiply_in_bf16, prepare
from elmokit.errors import ConfigError


def test_auto_and_the_cpu_are_always_there():
    assert find_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    for name in ("cpu", "cpu:0", torch.device("cpu")):
        assert find_device(name).type == "cpu"


@pytest.mark.parametrize("name", ["gpu", "", "cuda:", "cuda:x", " cpu", "CPU", "cpu:-1"])
def test_a_name_that_torch_does_not_know_is_refused(name):
    with pytest.raises(ConfigError) as caught:
        find_device(name)
    assert str(caught.value) == (
        f"device: {name!r} cannot be used here (no such device); try auto or cpu"
    )


@pytest.mark.parametrize(
    "name",
    ["hpu", "privateuseone", "meta", "mkldnn", "opengl", "vulkan", "xla", "maia", "cuda:99"],
)
def test_a_device_that_is_not_there_is_one_short_line(name):
    with pytest.raises(ConfigError) as caught:
        find_device(name)
    message = str(caught.value)
    assert message.startswith(f"device: {name!r} cannot be used here (")
    assert message.endswith("); try auto or cpu")
    assert len(message) < 200
    assert "\n" not in message


@pytest.mark.parametrize("name", [None, 0, 3.5, ["cpu"]])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(ConfigError, match=r"^device: .* is no name of a device; try auto or cpu$"):
        find_device(name)


def test_matrices_in_bfloat16_multiply_in_it_and_all_else_is_float32():
    sentences = sentences_of_lengths([1, 7, 30], seed=4)
    rounded, multiplied = (Embedder(char_bilm(), precision="bf16") for _ in range(2))
    multiply_in_bf16(multiplied.bilm)
    kinds = {name: tensor.dtype for name, tensor in multiplied.bilm.network.named_parameters()}
    halves = [name for name, kind in kinds.items() if kind == torch.bfloat16]
    assert {name.split(".")[0] for name in halves} == {"forward_lstm", "backward_lstm"}
    assert {name.split(".")[-1] for name in halves} == {
        *("input_weight", "recurrent_weight", "projection")
    }
    pairs = zip(rounded.embed(sentences), multiplied.embed(sentences), strict=True)
    for expected, found in pairs:
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found[0], expected[0])
        assert not np.array_equal(found[1:], expected[1:])
        np.testing.assert_allclose(found, expected, rtol=0.05, atol=0.02)


def test_a_gpu_is_asked_to_multiply_in_bfloat16(monkeypatch):
    # The device is the CPU under a GPU's name, so that there is something to look at.
    monkeypatch.setattr(BiLM, "to", lambda self, *_: self)
    model = prepare(char_bilm(), torch.device("cuda:0"), "bf16")
    assert model.network.forward_lstm[0].recurrent_weight.dtype == torch.bfloat16
    assert (
        prepare(char_bilm(), torch.device("cuda:0"), "fp32")
        .network.forward_lstm[0]
        .recurrent_weight.dtype
        == torch.float32
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("cell_dim", [16, 24])
def test_a_real_gpu_gives_the_vectors_of_the_cpu(cell_dim):
    sentences = sentences_of_lengths([1, 7, 30, 0, 12], seed=4)
    bilm = char_bilm(cell_dim=cell_dim)
    for expected, found in zip(
        Embedder(bilm, device="cpu").embed(sentences),
        Embedder(bilm, device="cuda", batch_tokens=20).embed(sentences),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=3e-5)
