"""Against the enumeration of every path."""

import itertools
import math

import pytest
import torch

from elmokit.metrics.spans import first_invalid
from elmokit.nn.crf import CRF, log_partition, viterbi
from elmokit.tasks.tagger import allowed_moves

LENGTHS = torch.tensor([4, 1, 3, 2])
TAGS = ["O", "B-X", "I-X", "B-Y", "I-Y"]


def problem(seed, num_tags=5, share_forbidden=0.0):
    """Emissions and moves; the diagonal, and the ways in and out of tag 0, are always allowed."""
    generator = torch.Generator().manual_seed(seed)
    emissions = torch.randn(len(LENGTHS), int(LENGTHS.max()), num_tags, generator=generator)
    scores = torch.randn(num_tags + 1, num_tags + 1, generator=generator)
    allowed = torch.rand(scores.shape, generator=generator) >= share_forbidden
    allowed[0, :] = allowed[:, 0] = True
    return emissions.double(), scores.double(), allowed


def paths_of(emissions, scores, length):
    """Yields each path with its score."""
    num_tags = emissions.size(1)
    for path in itertools.product(range(num_tags), repeat=length):
        steps = itertools.pairwise([num_tags, *path, num_tags])
        total = sum(float(scores[step]) for step in steps)
        yield path, total + sum(float(emissions[place, tag]) for place, tag in enumerate(path))


@pytest.mark.parametrize("share_forbidden", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_losses_and_best_paths_are_those_of_enumeration(seed, share_forbidden):
    emissions, scores, allowed = problem(seed, share_forbidden=share_forbidden)
    crf = CRF(allowed).double()
    crf.moves.data = scores
    masked = scores.masked_fill(~allowed, -math.inf)
    decoded = crf.decode(emissions, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        paths = list(paths_of(emissions[row], masked, length))
        total = torch.logsumexp(torch.tensor([score for _, score in paths], dtype=torch.float64), 0)
        for path, score in paths[:: max(1, len(paths) // 20)]:
            tags = torch.full((len(LENGTHS), 4), 4)
            tags[row, :length] = torch.tensor(path)
            loss = crf(emissions, tags, LENGTHS)[row]
            assert loss.item() == pytest.approx(float(total) - score)
        assert tuple(decoded[row]) == max(paths, key=lambda pair: pair[1])[0]


@pytest.mark.parametrize("share_forbidden", [0.0, 0.5, 0.95])
def test_gradients_are_finite_and_those_of_enumeration(share_forbidden):
    emissions, scores, allowed = problem(1, num_tags=3, share_forbidden=share_forbidden)
    emissions.requires_grad_()
    scores.requires_grad_()
    masked = scores.masked_fill(~allowed, -math.inf)
    log_partition(emissions, masked, LENGTHS).sum().backward()
    expected = torch.zeros_like(emissions)
    for row, length in enumerate(LENGTHS.tolist()):
        paths = list(paths_of(emissions[row].detach(), masked.detach(), length))
        weights = torch.softmax(torch.tensor([score for _, score in paths]).double(), 0)
        for (path, _), weight in zip(paths, weights, strict=True):
            for place, tag in enumerate(path):
                expected[row, place, tag] += weight
    assert emissions.grad is not None
    assert scores.grad is not None
    torch.testing.assert_close(emissions.grad, expected.detach())
    assert scores.grad.isfinite().all()
    assert not scores.grad[~allowed].any()


def test_no_way_through_is_no_number_and_no_crash():
    emissions, scores, allowed = problem(0)
    allowed[:] = False
    emissions.requires_grad_()
    masked = scores.masked_fill(~allowed, -math.inf)
    partition = log_partition(emissions, masked, LENGTHS)
    assert partition.tolist() == [-math.inf] * len(LENGTHS)
    assert list(map(len, viterbi(emissions, masked, LENGTHS))) == LENGTHS.tolist()
    partition.sum().backward()
    assert emissions.grad is not None
    assert not emissions.grad.any()


def test_a_right_path_with_a_forbidden_move_costs_infinitely_much():
    crf = CRF(allowed_moves(TAGS, "IOB2"))
    emissions = torch.zeros(1, 2, len(TAGS))
    assert crf(emissions, torch.tensor([[0, 2]]), torch.tensor([2])).item() == math.inf
    assert crf(emissions, torch.tensor([[1, 2]]), torch.tensor([2])).item() < math.inf


def test_what_stands_behind_a_rows_end_does_not_count():
    emissions, _, allowed = problem(2)
    crf = CRF(allowed).double()
    tags = torch.zeros(4, 4, dtype=torch.int64)
    losses, paths = crf(emissions, tags, LENGTHS), crf.decode(emissions, LENGTHS)
    behind = torch.arange(4) >= LENGTHS[:, None]
    emissions[behind] = 1e6
    tags[behind] = 3
    assert torch.equal(crf(emissions, tags, LENGTHS), losses)
    assert crf.decode(emissions, LENGTHS) == paths


def test_decoded_tags_are_valid():
    crf = CRF(allowed_moves(TAGS, "IOB2"))
    generator = torch.Generator().manual_seed(0)
    emissions = 5 * torch.randn(50, 6, len(TAGS), generator=generator)
    for path in crf.decode(emissions, torch.full((50,), 6)):
        assert first_invalid([TAGS[tag] for tag in path], "IOB2") is None
