import torch

from elmokit.nn.masks import inside, reversal


def test_rows_end_where_their_lengths_say():
    found = inside(torch.tensor([2, 0, 3]), 3)
    assert found.tolist() == [[True, True, False], [False, False, False], [True, True, True]]


def test_reversal_reads_rows_backwards_and_leaves_padding():
    places = reversal(torch.tensor([3, 1, 4]), 4)
    assert places.tolist() == [[2, 1, 0, 3], [0, 1, 2, 3], [3, 2, 1, 0]]
    assert torch.equal(places.gather(1, places), torch.arange(4).expand(3, 4))
