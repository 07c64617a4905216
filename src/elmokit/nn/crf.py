"""Linear-chain conditional random field in log space.

A sentence is a path through tags, one a word, from the boundary to the boundary. The moves are one
matrix (K+1, K+1), from row to column, whose last row and column are the boundary; a forbidden move
is -inf, so that no path with one has any probability.

Letters: B rows, T time, K tags.
"""

import math

import torch
from torch import Tensor, nn

from elmokit.nn.masks import inside


class CRF(nn.Module):
    """Scores of moves between tags, learnt with the emissions of the layers below."""

    forbidden: Tensor

    def __init__(self, allowed: Tensor) -> None:
        """Starts from moves that all score 0.

        Args:
            allowed: (K+1, K+1) bool, which moves there are: from row to column, the boundary last.
        """
        super().__init__()
        self.moves = nn.Parameter(torch.zeros(allowed.shape))
        self.register_buffer("forbidden", ~allowed, persistent=False)

    def forward(self, emissions: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """Returns the negative log-likelihood of tags.

        Args:
            emissions: (B, T, K) float, the score of each tag at each word.
            tags: (B, T) int64 the right ones; what stands behind a row's end does not count.
            lengths: (B,) int64, 1 or more.

        Returns:
            (B,); inf where the right path has a forbidden move.
        """
        moves = self._scores()
        return log_partition(emissions, moves, lengths) - path_scores(
            emissions, moves, tags, lengths
        )

    def decode(self, emissions: Tensor, lengths: Tensor) -> list[list[int]]:
        """Returns the best tags of each row; see `viterbi`."""
        return viterbi(emissions, self._scores(), lengths)

    def _scores(self) -> Tensor:
        return self.moves.masked_fill(self.forbidden, -math.inf)


def log_partition(emissions: Tensor, moves: Tensor, lengths: Tensor) -> Tensor:
    """Returns the logarithm of the summed exponentials of all paths' scores.

    Args:
        emissions: (B, T, K) float.
        moves: (K+1, K+1) float, -inf where forbidden.
        lengths: (B,) int64, 1 or more.

    Returns:
        (B,); -inf where every path has a forbidden move.
    """
    alpha = moves[-1, :-1] + emissions[:, 0]  # (B, K)
    for step in range(1, emissions.size(1)):
        arrived = _logsumexp(alpha[:, :, None] + moves[:-1, :-1])
        goes_on = (step < lengths)[:, None]
        alpha = torch.where(goes_on, arrived + emissions[:, step], alpha)
    return _logsumexp((alpha + moves[:-1, -1])[:, :, None])[:, 0]


def path_scores(emissions: Tensor, moves: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
    """Returns the score of one path per row: its emissions and its moves.

    Args:
        emissions: (B, T, K) float.
        moves: (K+1, K+1) float, -inf where forbidden.
        tags: (B, T) int64.
        lengths: (B,) int64, 1 or more.

    Returns:
        (B,).
    """
    num_rows, num_steps, boundary = emissions.shape
    mask = inside(lengths, num_steps)
    tags = torch.where(mask, tags, boundary)
    edge = tags.new_full((num_rows, 1), boundary)
    path = torch.cat([edge, tags, edge], dim=1)  # (B, T+2), boundaries behind a row's end
    taken = moves[path[:, :-1], path[:, 1:]]
    # From boundary to boundary, behind a row's end, is no move.
    taken = torch.where(inside(lengths + 1, num_steps + 1), taken, 0)
    read = emissions.gather(2, torch.where(mask, tags, 0)[:, :, None])[:, :, 0]
    return taken.sum(dim=1) + torch.where(mask, read, 0).sum(dim=1)


@torch.no_grad()
def viterbi(emissions: Tensor, moves: Tensor, lengths: Tensor) -> list[list[int]]:
    """Finds the path of the highest score.

    Args:
        emissions: (B, T, K) float.
        moves: (K+1, K+1) float, -inf where forbidden.
        lengths: (B,) int64, 1 or more.

    Returns:
        For each row its tags; any path where all have a forbidden move.
    """
    best = moves[-1, :-1] + emissions[:, 0]  # (B, K)
    came_from = []
    for step in range(1, emissions.size(1)):
        arrived, source = (best[:, :, None] + moves[:-1, :-1]).max(dim=1)
        goes_on = (step < lengths)[:, None]
        best = torch.where(goes_on, arrived + emissions[:, step], best)
        # Behind a row's end a tag comes from itself.
        came_from.append(
            torch.where(goes_on, source, torch.arange(best.size(1), device=best.device))
        )
    tag = (best + moves[:-1, -1]).argmax(dim=1, keepdim=True)  # (B, 1)
    path = [tag]
    for source in reversed(came_from):
        path.append(source.gather(1, path[-1]))
    paths = torch.cat(path[::-1], dim=1).tolist()
    return [row[:length] for row, length in zip(paths, lengths.tolist(), strict=True)]


def _logsumexp(scores: Tensor) -> Tensor:
    """(B, K, J) -> (B, J); where all are -inf the gradient is 0, which torch's own has not."""
    dead = (scores == -math.inf).all(dim=1, keepdim=True)
    total = torch.logsumexp(scores.masked_fill(dead, 0.0), dim=1)
    return total.masked_fill(dead[:, 0], -math.inf)
