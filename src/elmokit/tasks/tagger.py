"""A tag for each word: biLSTM over word vectors, with a CRF or a softmax on top (paper, section 4).

Letters: B rows, T time, K tags.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from elmokit.limits import check_least, check_share
from elmokit.metrics.spans import Scheme, may_follow
from elmokit.nn.crf import CRF
from elmokit.tasks.config import ModelSection
from elmokit.tasks.elmo_at import ElmoAt, beside, dim_at, mixes_of
from elmokit.tasks.encoder import BiLSTM
from elmokit.tasks.readers.items import Sentence
from elmokit.tasks.task import TaskModel
from elmokit.tasks.tokens import TokenVectors, lengths_of

IGNORED = -100
"""What cross-entropy passes over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggerSection(ModelSection):
    """The tagger."""

    hidden_dim: int = 200
    """Width of the LSTM in each direction."""
    num_layers: int = 2
    """Layers of the LSTM."""
    dropout: float = 0.5
    """Chance of dropping an element of the LSTM's output, and between its layers."""
    crf: bool = True
    """Score whole sequences of tags, or each tag by itself."""

    def __post_init__(self) -> None:
        check_least(1, self, "hidden_dim", "num_layers")
        check_share(self, "dropout")


class Tagger(TaskModel[Sentence, tuple[str, ...]]):
    """The model of `ner` and `tag`."""

    def __init__(
        self,
        section: TaggerSection,
        words: Sequence[str],
        tags: Sequence[str],
        scheme: Scheme | None,
        elmo: ElmoAt | None,
    ) -> None:
        """Draws the weights.

        Args:
            section: Its sizes.
            words: Those with a vector of their own.
            tags: What it chooses from.
            scheme: How tags write spans, for the CRF to forbid the impossible; None if they do not.
            elmo: ELMo at its places.
        """
        super().__init__()
        self.elmo = elmo
        self.tokens = TokenVectors(section.tokens, words, dim_at(elmo, "input"))
        self.encoder = BiLSTM(
            self.tokens.dim, section.hidden_dim, section.num_layers, section.dropout
        )
        self.dropout = nn.Dropout(section.dropout)
        self.output = nn.Linear(self.encoder.dim + dim_at(elmo, "output"), len(tags))
        self.crf = CRF(allowed_moves(tags, scheme)) if section.crf else None
        self._tags = list(tags)
        self._ids = {tag: place for place, tag in enumerate(tags)}

    def scores(self, items: Sequence[Sentence]) -> tuple[Tensor, Tensor]:
        """Returns (B, T, K) scores of tags before the CRF or softmax, and (B,) lengths."""
        sentences = [item.tokens for item in items]
        lengths = lengths_of(sentences, self.output.weight.device)
        mixes = mixes_of(self.elmo, sentences)
        encoded = self.encoder(self.tokens(sentences, mixes.get("input")), lengths)
        return self.output(beside(self.dropout(encoded), mixes.get("output"))), lengths

    def loss(self, items: Sequence[Sentence]) -> Tensor:
        """Returns the mean negative log-likelihood: of sentences with a CRF, else of words."""
        scores, lengths = self.scores(items)
        rows = [torch.tensor([self._ids[tag] for tag in item.tags or ()]) for item in items]
        tags = pad_sequence(rows, batch_first=True, padding_value=IGNORED).to(scores.device)
        if self.crf is not None:
            return self.crf(scores, tags.clamp(min=0), lengths).mean()  # type: ignore[no-any-return]
        return F.cross_entropy(scores.flatten(0, 1), tags.flatten(), ignore_index=IGNORED)

    def predict(self, items: Sequence[Sentence]) -> list[tuple[str, ...]]:
        """Returns the tags of each sentence."""
        scores, lengths = self.scores(items)
        if self.crf is not None:
            paths = self.crf.decode(scores, lengths)
        else:
            best = scores.argmax(dim=2).tolist()
            paths = [row[:length] for row, length in zip(best, lengths.tolist(), strict=True)]
        return [tuple(self._tags[tag] for tag in path) for path in paths]


def allowed_moves(tags: Sequence[str], scheme: Scheme | None) -> Tensor:
    """Tells which tag may come after which.

    Args:
        tags: The K tags.
        scheme: How they write spans; None for tags that may follow each other in any order.

    Returns:
        (K+1, K+1) bool, from row to column, the boundary last.
    """
    ends = [*tags, None]
    rows = [
        [scheme is None or may_follow(before, after, scheme) for after in ends] for before in ends
    ]
    return torch.tensor(rows)
