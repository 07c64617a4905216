"""Which span before it a span refers back to.

Every span is scored with every one before it by a coarse, bilinear score; the best of them by a
network that sees both (Lee et al. 2017, section 3; the coarse score is that of Lee et al. 2018,
as are spans refined by their antecedents).

Letters: M kept spans, R of them at a time, A antecedents of each, S width of a span's vector.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

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

    def __init__(
        self, span_dim: int, max_antecedents: int, num_refinements: int, dropout: float
    ) -> None:
        super().__init__()
        self._most = max_antecedents
        self._num_refinements = num_refinements
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
        if num_refinements:
            self.gate = nn.Linear(2 * span_dim, span_dim)

    def forward(self, vectors: Tensor, mention_scores: Tensor, speakers: Tensor) -> Ranked:
        """Ranks what is before each span.

        Args:
            vectors: (M, S), the spans in order.
            mention_scores: (M,).
            speakers: (M,) int64 number of each span's speaker, 0 where it is not known.
        """
        vectors = self.dropout(self.norm(vectors))
        places, coarse = self._choose(vectors, mention_scores)
        scores = coarse + self._fine(vectors, places, speakers)
        for _ in range(self._num_refinements):
            vectors = self._refine(vectors, Ranked(places, scores))
            scores = coarse + self._fine(vectors, places, speakers)
        return Ranked(places, scores)

    def _choose(self, vectors: Tensor, mention_scores: Tensor) -> tuple[Tensor, Tensor]:
        """(M, A) places and coarse scores of the antecedents that are scored in full."""
        count = len(vectors)
        parts = []
        for rows in torch.split(torch.arange(count, device=vectors.device), _ROWS):
            coarse = self.coarse(vectors[rows]) @ vectors.T / math.sqrt(vectors.size(1))  # (R, M)
            coarse = coarse + mention_scores[rows, None] + mention_scores
            follows = torch.arange(count, device=vectors.device) >= rows[:, None]
            parts.append(coarse.masked_fill(follows, -torch.inf).topk(min(self._most, count)))
        return torch.cat([part.indices for part in parts]), torch.cat([p.values for p in parts])

    def _fine(self, vectors: Tensor, places: Tensor, speakers: Tensor) -> Tensor:
        """(M, A) scores of pairs by the network that sees both."""
        known = (vectors, self.span(vectors), self.antecedent(vectors), places, speakers)
        blocks = torch.split(torch.arange(len(vectors), device=vectors.device), _ROWS)
        if len(blocks) == 1:
            return self._score_pairs(blocks[0], *known)
        # What many pairs leave for the way back is gigabytes; it is computed again instead.
        return torch.cat(
            [checkpoint(self._score_pairs, rows, *known, use_reentrant=False) for rows in blocks]
        )

    def _score_pairs(
        self,
        rows: Tensor,
        vectors: Tensor,
        own: Tensor,
        other: Tensor,
        places: Tensor,
        speakers: Tensor,
    ) -> Tensor:
        """(R, A) scores of some spans with their antecedents."""
        before = places[rows]  # (R, A)
        hidden = (
            own[rows, None]
            + F.embedding(before, other)
            + self.both(vectors[rows, None] * F.embedding(before, vectors))
            + self.distance(_bucket(rows[:, None] - before))
            + self.speaker(_alike(speakers[rows, None], speakers[before]))
        )  # (R, A, S)
        scores: Tensor = self.output(self.dropout(hidden.relu()))
        return scores.squeeze(2)

    def _refine(self, vectors: Tensor, ranked: Ranked) -> Tensor:
        """(M, S) spans moved towards what they are expected to refer to (Lee et al. 2018).

        A span without an antecedent refers to itself; a gate says how much of each element stays.
        """
        chances = F.pad(ranked.scores, (1, 0)).softmax(dim=1)  # none first: (M, 1 + A)
        referred = chances[:, :1] * vectors + F.embedding_bag(
            ranked.places, vectors, mode="sum", per_sample_weights=chances[:, 1:].contiguous()
        )
        gate = self.gate(torch.cat([vectors, referred], dim=1)).sigmoid()
        return torch.lerp(referred, vectors, gate)


def _bucket(distances: Tensor) -> Tensor:
    """Number of the bucket that each distance falls into."""
    begins = torch.tensor(_DISTANCES, device=distances.device)
    return torch.bucketize(distances, begins, right=True)


def _alike(one: Tensor, other: Tensor) -> Tensor:
    """How numbers of speakers, 0 for unknown, stand to each other."""
    alike = torch.where(one == other, _SAME, _OTHER)
    return alike.masked_fill((one == 0) | (other == 0), _UNKNOWN)
