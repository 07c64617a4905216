import pytest
import torch

from builders import char_bilm, sentences_of_lengths
from elmokit import BiLM, Elmo, Embedder
from elmokit.errors import ConfigError
from elmokit.tasks.config import ElmoSection
from elmokit.tasks.elmo_at import ElmoAt

CPU = torch.device("cpu")
SENTENCES = sentences_of_lengths([5, 1, 7])


def elmo_at(**settings):
    return ElmoAt(char_bilm(), ElmoSection(**{"at": "both", "dropout": 0.0, **settings}), CPU)


@pytest.mark.parametrize("trainable", [False, True])
def test_mixes_are_those_of_elmo(trainable):
    elmo = Elmo(char_bilm(), num_outputs=2, dropout=0.0)
    ours = elmo_at(trainable=trainable)
    for number, place in enumerate(("input", "output")):
        weights = torch.randn(3, generator=torch.Generator().manual_seed(number))
        for mix in (elmo.scalar_mixes[number], ours.mixes[place]):
            mix.weights.data, mix.gamma.data = weights.clone(), torch.tensor(1.5 + number)
    expected, _ = elmo(elmo.bilm.encode(SENTENCES))
    found = ours(SENTENCES)
    assert list(found) == ["input", "output"]
    for one, other in zip(found.values(), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    torch.testing.assert_close(ours.penalty(), elmo.penalty())
    assert ours.mix_weights()["output"]["gamma"] == 2.5


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize(
    ("layers", "numbers"), [("all", [0, 1, 2]), ("last", [2]), (0, [0]), (1, [1])]
)
def test_layers(trainable, layers, numbers):
    ours = elmo_at(at="input", layers=layers, trainable=trainable)
    expected = Embedder(char_bilm(), device="cpu").embed(SENTENCES, layers=numbers)
    found = ours(SENTENCES)["input"]
    assert found.shape == (3, 7, 16)
    for row, layers_of_row in zip(found, expected, strict=True):
        mean = torch.from_numpy(layers_of_row).mean(dim=0)
        torch.testing.assert_close(row[: len(mean)], mean, rtol=0, atol=1e-5)
        assert not row[len(mean) :].any()


def test_a_layer_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="there is no layer 3; default has 0 to 2"):
        elmo_at(layers=3)
    with pytest.raises(ConfigError, match="no layer -1"):
        elmo_at(layers=-1)


def test_only_a_trainable_bilm_learns():
    for trainable in (False, True):
        ours = elmo_at(trainable=trainable)
        ours(SENTENCES)["input"].pow(2).sum().backward()
        names = {name for name, p in ours.named_parameters() if p.grad is not None and p.grad.any()}
        assert {"mixes.input.weights", "mixes.input.gamma"} <= names
        assert any(name.startswith("bilm.") for name in names) == trainable
        assert any(name.startswith("bilm.") for name in ours.state_dict()) == trainable


def test_the_softmax_does_not_learn(trained):
    """No mix depends on it."""
    bilm = BiLM.from_pretrained(trained)
    ours = ElmoAt(bilm, ElmoSection(trainable=True), CPU)
    learning = {name for name, p in ours.bilm.named_parameters() if p.requires_grad}
    assert learning == {f"network.{name}" for name, _ in bilm.network.named_parameters()}
    assert torch.equal(ours.bilm.softmax.weight, bilm.softmax.weight)


def test_layer_norm_keeps_padding_zero():
    found = elmo_at(layer_norm=True)(SENTENCES)["output"]
    assert not found[1, 1:].any()
    assert found[0, :5].any()


def test_dropout_drops_while_training_only():
    ours = elmo_at(dropout=0.5)
    torch.manual_seed(0)
    share = (ours(SENTENCES)["input"][2] == 0).float().mean().item()
    assert 0.3 < share < 0.7
    assert ours.eval()(SENTENCES)["input"][2].all()
