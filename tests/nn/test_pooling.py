import pytest
import torch

from elmokit.errors import ConfigError
from elmokit.nn.pooling import pool

LENGTHS = torch.tensor([2, 0, 3, 1])


@pytest.mark.parametrize("leading", [(), (3,)])
@pytest.mark.parametrize("pooling", ["mean", "max", "mean+max"])
def test_equals_a_loop_over_sentences(pooling, leading):
    vectors = torch.randn(*leading, 6, 4)
    expected = []
    for piece in vectors.split(LENGTHS.tolist(), dim=-2):
        parts = {
            "mean": lambda piece=piece: piece.mean(-2),
            "max": lambda piece=piece: piece.amax(-2),
        }
        empty = torch.zeros(*leading, 4)
        names = pooling.split("+")
        expected.append(
            torch.cat([parts[name]() if piece.size(-2) else empty for name in names], dim=-1)
        )
    torch.testing.assert_close(pool(vectors, LENGTHS, pooling), torch.stack(expected, dim=-2))


def test_refuses_an_unknown_pooling():
    with pytest.raises(ConfigError, match="'min' is not one of mean, max"):
        pool(torch.zeros(6, 4), LENGTHS, "min")
