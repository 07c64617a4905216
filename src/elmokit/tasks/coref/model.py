"""End-to-end span ranking (Lee et al. 2017), the coreference model of the paper's section 4.

Sentences are read by a biLSTM; every span of words in them gets a vector and a score as a mention;
the best are kept, and each is linked to the span before it that it refers back to, or to none.

Letters: N words, C candidate spans, M kept spans, A antecedents, B sentences, T time, W width.
"""

from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmokit.embedding.schedule import cut_parts
from elmokit.nn.masks import inside
from elmokit.tasks.coref.antecedents import Antecedents, Ranked
from elmokit.tasks.coref.config import CorefSection
from elmokit.tasks.coref.spans import SpanVectors, kept_spans, num_kept
from elmokit.tasks.elmo_at import ElmoAt, beside, dim_at, mixes_of
from elmokit.tasks.encoder import BiLSTM
from elmokit.tasks.readers.documents import Clusters, Document, Mention, grouped
from elmokit.tasks.task import TaskModel
from elmokit.tasks.tokens import TokenVectors, lengths_of

_LONGEST = 256
"""Words that are read together at most; a longer sentence is cut."""
_WORDS, _SENTENCES = 2048, 256
"""What is read together of a document, so that memory does not grow with all its spans."""


class Spans(NamedTuple):
    """The candidate spans of a document."""

    places: Tensor
    """(C, 2) int64 first and last word."""
    vectors: Tensor
    """(C, S)."""
    scores: Tensor
    """(C,) as mentions."""


class Kept(NamedTuple):
    """The spans of a document that are taken for mentions."""

    mentions: list[Mention]
    """M spans, in order."""
    scores: Tensor
    """(M,) as mentions."""
    ranked: Ranked
    """Their antecedents."""


class SpanRanker(TaskModel[Document, Clusters]):
    """The model of `coref`."""

    def __init__(self, section: CorefSection, words: Sequence[str], elmo: ElmoAt | None) -> None:
        """Draws the weights.

        Args:
            section: Its sizes.
            words: Those with a vector of their own.
            elmo: ELMo at its places.
        """
        super().__init__()
        self._section = section
        self.elmo = elmo
        self.tokens = TokenVectors(section.tokens, words, dim_at(elmo, "input"))
        self.encoder = BiLSTM(
            self.tokens.dim, section.hidden_dim, section.num_layers, section.dropout
        )
        self.dropout = nn.Dropout(section.dropout)
        context_dim = self.encoder.dim + dim_at(elmo, "output")
        self.spans = SpanVectors(self.tokens.dim, context_dim, section.span_dim, section.max_width)
        self.mention = nn.Linear(section.span_dim, 1)
        # Few candidates are mentions; that alone must not keep the pairs of a span from linking.
        self.rarity = nn.Parameter(torch.tensor(-3.0))
        self.antecedents = Antecedents(
            section.span_dim, section.max_antecedents, section.num_refinements, section.dropout
        )

    def loss(self, items: Sequence[Document]) -> Tensor:
        """Returns the mean over documents of the loss of a kept span, of shape ().

        It is minus the log of the probability of all right antecedents together; a span that is no
        mention, or the first of its cluster, is to have none. Two things are not in Lee et al.: the
        score of every candidate as a mention also learns by itself, by cross-entropy, whether it is
        one (singletons too, where they are kept); and mentions that are right are kept whatever
        their score. Else those that are not among the best at first teach nothing, which thousands
        of documents get over and a few dozen do not.
        """
        losses = []
        for item, spans in zip(items, self._candidates(items), strict=True):
            cluster_of = {
                mention: number
                for number, cluster in enumerate(item.clusters or (), start=1)
                for mention in cluster
            }
            is_right = _are_mentions(spans, cluster_of)
            kept = self._keep(item, spans, spans.scores.detach().masked_fill(is_right, torch.inf))
            loss = _antecedent_loss(kept, cluster_of) + F.binary_cross_entropy_with_logits(
                spans.scores + self.rarity, is_right.to(spans.scores.dtype), reduction="sum"
            )
            losses.append(loss / len(kept.mentions))
        return torch.stack(losses).mean()

    def predict(self, items: Sequence[Document]) -> list[Clusters]:
        """Returns the clusters of each document: every span with its best antecedent.

        It has one if all antecedents together are more probable than none. With singletons,
        spans whose score as a mention says so are clusters by themselves.
        """
        return [
            self._clusters(self._keep(item, spans, spans.scores))
            for item, spans in zip(items, self._candidates(items), strict=True)
        ]

    def _candidates(self, items: Sequence[Document]) -> Iterator[Spans]:
        """Yields the candidate spans of each document; sentences of all are read together."""
        parts, word = [], 0
        sentences = (sentence for item in items for sentence in segments(item))
        for some in cut_parts(sentences, max_rows=_SENTENCES, max_tokens=_WORDS):
            places, vectors = self.spans(*self._read(some))
            scores = self.mention(self.dropout(vectors.relu())).squeeze(1)
            parts.append((places + word, vectors, scores))
            word += sum(map(len, some))
        places, vectors, scores = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
        ends = torch.tensor([len(item.speakers) for item in items], device=places.device).cumsum(0)
        documents = torch.bucketize(places[:, 0].contiguous(), ends, right=True)
        numbers = documents.bincount(minlength=len(items)).tolist()
        start = 0
        for item, *tensors in zip(
            items,
            *(torch.split(tensor, numbers) for tensor in (places, vectors, scores)),
            strict=True,
        ):
            yield Spans(tensors[0] - start, tensors[1], tensors[2])
            start += len(item.speakers)

    def _read(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor, Tensor]:
        """(N, W) vectors of words, by themselves and in context, and (N,) their sentences."""
        lengths = lengths_of(sentences, self.mention.weight.device)
        mixes = mixes_of(self.elmo, sentences)
        words = self.tokens(sentences, mixes.get("input"))  # (B, T, W)
        contexts = beside(self.dropout(self.encoder(words, lengths)), mixes.get("output"))
        mask = inside(lengths, words.size(1))
        return words[mask], contexts[mask], mask.nonzero()[:, 0]

    def _keep(self, item: Document, spans: Spans, order: Tensor) -> Kept:
        """Takes the best candidates by (C,) order, and ranks what is before each."""
        places = spans.places.tolist()
        number = num_kept(len(item.speakers), self._section.spans_per_word, len(places))
        chosen = kept_spans(places, order, number)
        mentions = [Mention(places[place][0], places[place][1] + 1) for place in chosen]
        at = torch.tensor(chosen, device=spans.scores.device)
        vectors, scores = spans.vectors.index_select(0, at), spans.scores.index_select(0, at)
        numbers = _speaker_numbers(item)
        speakers = torch.tensor([numbers[mention.start] for mention in mentions], device=at.device)
        return Kept(mentions, scores, self.antecedents(vectors, scores, speakers))

    def _clusters(self, kept: Kept) -> Clusters:
        which = kept.ranked.scores.argmax(dim=1, keepdim=True)
        antecedent = kept.ranked.places.gather(1, which).squeeze(1).tolist()
        # The loss is of all right antecedents together: so is what they weigh against none.
        has_one = (kept.ranked.scores.logsumexp(dim=1) > 0).tolist()
        first = list(range(len(kept.mentions)))  # mention -> the first of its cluster
        for place in range(len(first)):
            if has_one[place]:
                first[place] = first[antecedent[place]]
        is_linked = {first[place] for place in range(len(first)) if has_one[place]}
        if self._section.singletons:
            is_linked |= {
                place
                for place, score in enumerate((kept.scores + self.rarity).tolist())
                if score > 0
            }
        return grouped(
            {
                mention: first[place]
                for place, mention in enumerate(kept.mentions)
                if first[place] in is_linked
            }
        )


def segments(item: Document) -> list[Sequence[str]]:
    """Returns what is read together: sentences, and pieces of very long ones."""
    return [
        sentence[start : start + _LONGEST]
        for sentence in item.sentences
        for start in range(0, len(sentence), _LONGEST)
    ]


def _antecedent_loss(kept: Kept, cluster_of: dict[Mention, int]) -> Tensor:
    places, scores = kept.ranked
    clusters = torch.tensor(
        [cluster_of.get(mention, 0) for mention in kept.mentions], device=scores.device
    )
    is_right = (clusters[places] == clusters[:, None]) & (clusters > 0)[:, None]  # (M, A)
    is_right &= scores > -torch.inf
    has_none = ~is_right.any(dim=1, keepdim=True)
    scores = F.pad(scores, (1, 0))  # the score of no antecedent is 0
    right = scores.masked_fill(~torch.cat([has_none, is_right], dim=1), -torch.inf)
    return (scores.logsumexp(dim=1) - right.logsumexp(dim=1)).sum()


def _are_mentions(spans: Spans, right: Container[Mention]) -> Tensor:
    """(C,) bool."""
    found = [Mention(start, last + 1) in right for start, last in spans.places.tolist()]
    return torch.tensor(found, device=spans.scores.device)


def _speaker_numbers(item: Document) -> list[int]:
    """Returns a number for the speaker of each word, 0 where it is not known."""
    numbers: dict[str | None, int] = {None: 0}
    return [numbers.setdefault(speaker, len(numbers)) for speaker in item.speakers]
