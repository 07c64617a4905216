import numpy as np
import pytest
import torch

from elmokit.embedding.selection import Selection
from elmokit.errors import ConfigError
from elmokit.nn.network import Layers

FORWARD = [torch.full((2, 3), float(layer)) for layer in range(3)]
BACKWARD = [torch.tensor([[10.0 * layer] * 3, [10.0 * layer + 1] * 3]) for layer in range(3)]
LAYERS = Layers(FORWARD, BACKWARD)
FLIPPED = torch.tensor([1, 0])
POSITIONS = torch.tensor([1, 0, 1])
JOINED = [torch.cat([f, b.flip(0)], 1)[POSITIONS] for f, b in zip(FORWARD, BACKWARD, strict=True)]


def select(choice="all", weights=None):
    return Selection.parse(choice, weights, 3).apply(LAYERS, FLIPPED, POSITIONS)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("all", torch.stack(JOINED)),
        ("mean", sum(JOINED) / 3),
        ("top", JOINED[2]),
        (0, JOINED[0]),
        ([2, 0], torch.stack([JOINED[2], JOINED[0]])),
        ((1,), JOINED[1][None]),
    ],
)
def test_choices(choice, expected):
    torch.testing.assert_close(select(choice), expected)


def test_weights_are_final():
    expected = 0.2 * JOINED[0] + 0.3 * JOINED[1] + 0.5 * JOINED[2]
    torch.testing.assert_close(select(weights=[0.2, 0.3, 0.5]), expected)
    assert torch.equal(select(weights=[0, 0, 1]), JOINED[2])
    assert not select(weights=[0, 0, 0]).any()


def test_the_layers_of_the_run_are_not_written_to():
    before = [layer.clone() for layer in FORWARD]
    select("mean")
    assert all(torch.equal(x, y) for x, y in zip(FORWARD, before, strict=True))


@pytest.mark.parametrize("choice", ["last", 3, -1, [], [0, 3], "012", 1.0, [True], None])
def test_unknown_layers_are_refused(choice):
    with pytest.raises(ConfigError, match="layers: "):
        Selection.parse(choice, None, 3)


def test_numbers_of_numpy_and_torch_are_numbers():
    for choice in (np.int64(1), np.array([0, 2]), range(2)):
        assert Selection.parse(choice, None, 3).keep_axis is not isinstance(choice, np.int64)
    with pytest.raises(ConfigError, match="layers"):
        Selection.parse(np.array(1.5), None, 3)


def test_weights_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match="expected 3, one per layer, found 2"):
        Selection.parse("all", [1, 2], 3)
    with pytest.raises(ConfigError, match="expected numbers"):
        Selection.parse("all", [None, 1, 2], 3)
    with pytest.raises(ConfigError, match="not both"):
        Selection.parse("top", [1, 0, 0], 3)
