import torch

from elmokit.config import LSTMConfig
from elmokit.nn.stacked_lstm import StackedLSTM


def test_a_row_does_not_depend_on_longer_rows():
    torch.manual_seed(0)
    module = StackedLSTM(LSTMConfig(kind="stacked", num_layers=2, cell_dim=5, projection_dim=3))
    long, short = torch.randn(4, 3), torch.randn(2, 3)
    packed = torch.stack([long[0], short[0], long[1], short[1], long[2], long[3]])
    together = module(packed, (2, 2, 1, 1))
    alone = module(short, (1, 1))
    for half, expected in zip(together, alone, strict=True):
        torch.testing.assert_close(half[[1, 3]], expected)
