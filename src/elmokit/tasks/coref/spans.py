"""Spans of words: a vector for each, its score as a mention, and which are kept.

Letters: N words, C candidate spans, K widest span, E width of a word's vector, X width of its
vector in context, S width of a span's vector.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SpanVectors(nn.Module):
    """Vectors of all spans up to a width, within sentences (Lee et al. 2017, section 3.2).

    A span is its first and last word in context, its words by an attention that looks for the head,
    and its width, all through one linear map. That map comes first here: words are projected once,
    and not anew in each of the spans that they are in.
    """

    def __init__(self, word_dim: int, context_dim: int, span_dim: int, max_width: int) -> None:
        super().__init__()
        self.start = nn.Linear(context_dim, span_dim)
        self.end = nn.Linear(context_dim, span_dim, bias=False)
        self.head = nn.Linear(word_dim, span_dim, bias=False)
        self.width = nn.Embedding(max_width, span_dim)
        nn.init.zeros_(self.width.weight)  # drawn like words, it would drown them at first
        self.attention = nn.Linear(context_dim, 1)

    def forward(self, words: Tensor, contexts: Tensor, sentences: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the spans.

        Args:
            words: (N, E).
            contexts: (N, X).
            sentences: (N,) int64 number of each word's sentence, never falling.

        Returns:
            (C, 2) int64 first and last word, in order; and (C, S) vectors.
        """
        num_words, max_width = len(words), self.width.num_embeddings
        steps = torch.arange(max_width, device=words.device)
        ends = torch.arange(num_words, device=words.device)[:, None] + steps  # (N, K)
        is_span = ends < num_words
        ends = ends.clamp(max=num_words - 1)
        is_span &= sentences[ends] == sentences[:, None]
        # Row k of a start's weights: softmax over its first k + 1 words.
        scores = F.embedding(ends, self.attention(contexts)).transpose(1, 2)  # (N, 1, K)
        scores = scores.expand(-1, max_width, -1)
        weights = scores.masked_fill(steps[:, None] < steps, -torch.inf).softmax(dim=2)
        vectors = (
            self.start(contexts)[:, None]
            + F.embedding(ends, self.end(contexts))
            + weights @ F.embedding(ends, self.head(words))
            + self.width.weight
        )  # (N, K, S)
        starts = torch.arange(num_words, device=words.device)[:, None].expand_as(ends)
        return torch.stack([starts[is_span], ends[is_span]], dim=1), vectors[is_span]


def kept_spans(spans: Sequence[Sequence[int]], scores: Tensor, number: int) -> list[int]:
    """Returns the places of the best spans, in order, no two of which cross.

    Args:
        spans: The first and the last word of C spans, in order.
        scores: (C,).
        number: How many are wanted; fewer if the others all cross.
    """
    kept: list[int] = []
    longest_from: dict[int, int] = {}  # first word -> last word of the longest kept span there
    longest_to: dict[int, int] = {}  # last word -> first word of the longest kept span there
    for place in scores.argsort(descending=True, stable=True).tolist():
        start, end = spans[place]
        inside = range(start + 1, end + 1)
        if any(longest_from.get(word, word) > end for word in inside) or any(
            longest_to.get(word - 1, word) < start for word in inside
        ):
            continue
        kept.append(place)
        longest_from[start] = max(end, longest_from.get(start, end))
        longest_to[end] = min(start, longest_to.get(end, start))
        if len(kept) == number:
            break
    return sorted(kept)


def num_kept(num_words: int, spans_per_word: float, num_spans: int) -> int:
    """Returns how many of the spans of a document are kept at most."""
    return math.ceil(min(num_words * spans_per_word, num_spans))
