import torch

from elmokit.tasks.labelling import attend, mean_and_max

LENGTHS = torch.tensor([3, 1])
VECTORS = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))


def test_pools_are_over_a_rows_own_words():
    pooled = mean_and_max(VECTORS, LENGTHS)
    for row, length in enumerate(LENGTHS):
        own = VECTORS[row, :length]
        torch.testing.assert_close(pooled[row], torch.cat([own.mean(dim=0), own.amax(dim=0)]))


def test_attention_is_over_a_rows_own_words():
    scores = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(1))
    found = attend(scores, LENGTHS, VECTORS)
    for row, length in enumerate(LENGTHS):
        weights = torch.softmax(scores[row, :, :length], dim=1)
        torch.testing.assert_close(found[row], weights @ VECTORS[row, :length])
