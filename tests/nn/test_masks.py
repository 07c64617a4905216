import torch

from elmokit.nn.masks import inside


def test_rows_end_where_their_lengths_say():
    found = inside(torch.tensor([2, 0, 3]), 3)
    assert found.tolist() == [[True, True, False], [False, False, False], [True, True, True]]
