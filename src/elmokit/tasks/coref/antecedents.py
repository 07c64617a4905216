"""Which span before it a span refers back to.

Every span is scored with every one before it by a coarse, bilinear score; the best of them by a
network that sees both (Lee et al. 2017, section 3; the coarse score is that of Lee et al. 2018).

Letters: M kept spans, R of them at a time, A antecedents of each, S width of a span's vector.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_ROWS = 512
"""Spans whose pairs are in memory together."""
_DISTANCES = (2, 3, 4, 5, 8, 16, 32, 64)
"""Where buckets of distances begin, counted in kept spans; the first is that of 1."""
_UNKNOWN, _OTHER, _SAME = range(3)
"""How the speakers of two spans stand to each other."""


class Ranked(NamedTuple):
    """The antecedents of each span, the best by the coarse score; A may be less than was asked."""

    places: Tensor
    """(M, A) int64 places among the kept spans."""
    scores: Tensor
    """(M, A); minus infinity where there is no such span before."""


class Antecedents(nn.Module):
    """Scores pairs of spans: both as mentions, the coarse score, and the fine one."""

    def __init__(self, span_dim: int, max_antecedents: int, dropout: float) -> None:
        super().__init__()
        self._most = max_antecedents
        self.norm = nn.LayerNorm(span_dim)
        self.coarse = nn.Linear(span_dim, span_dim, bias=False)
        self.span = nn.Linear(span_dim, span_dim)
        self.antecedent = nn.Linear(span_dim, span_dim, bias=False)
        self.both = nn.Linear(span_dim, span_dim, bias=False)
        self.distance = nn.Embedding(len(_DISTANCES) + 1, span_dim)
        self.speaker = nn.Embedding(3, span_dim)
        for embedding in (self.distance, self.speaker):
            nn.init.zeros_(embedding.weight)  # they begin as small as what they are added to
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(span_dim, 1)

    def forward(self, vectors: Tensor, mention_scores: Tensor, speakers: Tensor) -> Ranked:
        """Ranks what is before each span.

        Args:
            vectors: (M, S), the spans in order.
            mention_scores: (M,).
            speakers: (M,) int64 number of each span's speaker, 0 where it is not known.
        """
        vectors = self.dropout(self.norm(vectors))
        parts = [
            self._rank(vectors, mention_scores, speakers, start, min(start + _ROWS, len(vectors)))
            for start in range(0, len(vectors), _ROWS)
        ]
        widest = max(places.size(1) for places, _ in parts)
        return Ranked(
            torch.cat([F.pad(p, (0, widest - p.size(1))) for p, _ in parts]),
            torch.cat([F.pad(s, (0, widest - s.size(1)), value=-torch.inf) for _, s in parts]),
        )

    def _rank(
        self, vectors: Tensor, mention_scores: Tensor, speakers: Tensor, start: int, stop: int
    ) -> tuple[Tensor, Tensor]:
        """(R, A) places and scores of the antecedents of some spans."""
        rows = torch.arange(start, stop, device=vectors.device)
        own, before = vectors[start:stop], vectors[:stop]
        coarse = self.coarse(own) @ before.T / math.sqrt(before.size(1))  # (R, stop)
        coarse = coarse + mention_scores[start:stop, None] + mention_scores[:stop]
        follows = torch.arange(stop, device=vectors.device) >= rows[:, None]
        coarse, places = coarse.masked_fill(follows, -torch.inf).topk(min(self._most, stop))
        hidden = (
            self.span(own)[:, None]
            + F.embedding(places, self.antecedent(before))
            + self.both(own[:, None] * F.embedding(places, before))
            + self.distance(_bucket(rows[:, None] - places))
            + self.speaker(_alike(speakers[start:stop, None], speakers[places]))
        )  # (R, A, S)
        return places, coarse + self.output(self.dropout(hidden.relu())).squeeze(2)


def _bucket(distances: Tensor) -> Tensor:
    """Number of the bucket that each distance falls into."""
    begins = torch.tensor(_DISTANCES, device=distances.device)
    return torch.bucketize(distances, begins, right=True)


def _alike(one: Tensor, other: Tensor) -> Tensor:
    """How numbers of speakers, 0 for unknown, stand to each other."""
    alike = torch.where(one == other, _SAME, _OTHER)
    return alike.masked_fill((one == 0) | (other == 0), _UNKNOWN)
