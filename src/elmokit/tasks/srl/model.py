"""Roles of predicates: a deep alternating LSTM over words, one of them marked (He et al. 2017).

A sentence is encoded once for each of its predicates; words and ELMo are looked up once.

Letters: B sentences, P predicates of all sentences, T time, W width, K tags.
"""

import math
from collections.abc import Sequence
from itertools import chain

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from elmokit.metrics.roles import VERB
from elmokit.metrics.spans import Scheme, Span, decode, encode, tags_of
from elmokit.nn.crf import viterbi
from elmokit.nn.highway_lstm import AlternatingLSTM
from elmokit.tasks.elmo_at import ElmoAt, beside, dim_at, mixes_of
from elmokit.tasks.readers.roles import RoleSentence
from elmokit.tasks.srl.config import SrlSection
from elmokit.tasks.tagger import IGNORED, allowed_moves
from elmokit.tasks.task import TaskModel
from elmokit.tasks.tokens import TokenVectors, lengths_of

Roles = tuple[tuple[Span, ...], ...]
"""The spans of each predicate of a sentence."""

_SCHEME: Scheme = "IOB2"


class RoleLabeller(TaskModel[RoleSentence, Roles]):
    """The model of `srl`: a tag is scored by itself, an impossible sequence never predicted."""

    forbidden: Tensor
    is_verb: Tensor

    def __init__(
        self, section: SrlSection, words: Sequence[str], labels: Sequence[str], elmo: ElmoAt | None
    ) -> None:
        """Draws the weights.

        Args:
            section: Its sizes.
            words: Those with a vector of their own.
            labels: Those of spans, V among them.
            elmo: ELMo at its places.
        """
        super().__init__()
        self.elmo = elmo
        self.tokens = TokenVectors(section.tokens, words, dim_at(elmo, "input"))
        self.predicate = nn.Embedding(2, section.predicate_dim)
        self.encoder = AlternatingLSTM(
            self.tokens.dim + section.predicate_dim,
            section.hidden_dim,
            section.num_layers,
            section.dropout,
        )
        self._tags = tags_of(labels, _SCHEME)
        self._ids = {tag: place for place, tag in enumerate(self._tags)}
        self.output = nn.Linear(self.encoder.dim + dim_at(elmo, "output"), len(self._tags))
        forbidden = ~allowed_moves(self._tags, _SCHEME)
        self.register_buffer("forbidden", forbidden, persistent=False)
        is_verb = torch.tensor([tag == f"B-{VERB}" for tag in self._tags])
        self.register_buffer("is_verb", is_verb, persistent=False)

    def scores(self, items: Sequence[RoleSentence]) -> tuple[Tensor, Tensor, Tensor]:
        """Scores tags.

        Args:
            items: B sentences with a predicate or more.

        Returns:
            (P, T, K) scores of tags before the softmax, (P, T) bool the predicates, (P,) lengths.
        """
        sentences = [item.tokens for item in items]
        device = self.output.weight.device
        counts = torch.tensor([len(item.predicates) for item in items], device=device)
        lengths = lengths_of(sentences, device).repeat_interleave(counts)
        mixes = mixes_of(self.elmo, sentences)
        words = self.tokens(sentences, mixes.get("input")).repeat_interleave(counts, dim=0)
        at = torch.tensor(list(chain.from_iterable(item.predicates for item in items)))
        is_predicate = torch.arange(words.size(1), device=device) == at.to(device)[:, None]
        marked = self.predicate(is_predicate.long())
        encoded = self.encoder(torch.cat([words, marked], dim=2), lengths)  # (P, T, W)
        output = mixes.get("output")
        if output is not None:
            output = output.repeat_interleave(counts, dim=0)
        return self.output(beside(encoded, output)), is_predicate, lengths

    def loss(self, items: Sequence[RoleSentence]) -> Tensor:
        """Returns the mean negative log-likelihood of words, once for each predicate; 0 without."""
        items = [item for item in items if item.predicates]
        if not items:
            return self.output.bias.sum() * 0.0  # with a gradient, as any loss
        scores, _, _ = self.scores(items)
        rows = [
            torch.tensor([self._ids[tag] for tag in encode(spans, len(item.tokens), _SCHEME)])
            for item in items
            for spans in item.roles or ()
        ]
        tags = pad_sequence(rows, batch_first=True, padding_value=IGNORED).to(scores.device)
        return F.cross_entropy(scores.flatten(0, 1), tags.flatten(), ignore_index=IGNORED)

    def predict(self, items: Sequence[RoleSentence]) -> list[Roles]:
        """Returns the spans of each predicate; V begins there and nowhere else."""
        some = [item for item in items if item.predicates]
        paths: list[list[int]] = []
        if some:
            scores, is_predicate, lengths = self.scores(some)
            scores = scores.masked_fill(is_predicate[:, :, None] != self.is_verb, -math.inf)
            moves = torch.zeros(self.forbidden.shape, device=scores.device)
            paths = viterbi(scores, moves.masked_fill(self.forbidden, -math.inf), lengths)
        left = (tuple(decode([self._tags[tag] for tag in path], _SCHEME)) for path in paths)
        return [tuple(next(left) for _ in item.predicates) for item in items]
