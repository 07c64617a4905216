"""The biattentive classification network (McCann et al. 2017), for one text.

A biLSTM reads the words, each word attends to all others, a second biLSTM reads both, and four
pools of it lead to the labels through maxout layers. ELMo at the output stands beside what the
first biLSTM makes, where attention sees it.

Letters: B rows, T time, K labels, W width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from elmokit.limits import check_least, check_share
from elmokit.nn.masks import inside
from elmokit.tasks.config import ModelSection
from elmokit.tasks.elmo_at import ElmoAt, beside, dim_at, mixes_of
from elmokit.tasks.encoder import BiLSTM
from elmokit.tasks.labelling import LabelModel, attend, mean_and_max
from elmokit.tasks.readers.items import Text
from elmokit.tasks.tokens import TokenVectors, lengths_of

_POOL = 4
"""Linear functions of which a maxout unit takes the largest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BiattentiveSection(ModelSection):
    """The biattentive classification network."""

    hidden_dim: int = 150
    """Width of both LSTMs in each direction, and of the layers after them."""
    dropout: float = 0.3
    """Chance of dropping an element between layers."""

    def __post_init__(self) -> None:
        check_least(1, self, "hidden_dim")
        check_share(self, "dropout")


class BiattentiveClassifier(LabelModel[Text]):
    """The model of `sentiment`."""

    def __init__(
        self,
        section: BiattentiveSection,
        words: Sequence[str],
        labels: Sequence[str],
        elmo: ElmoAt | None,
    ) -> None:
        """Draws the weights.

        Args:
            section: Its sizes.
            words: Those with a vector of their own.
            labels: What it chooses from.
            elmo: ELMo at its places.
        """
        super().__init__(labels)
        hidden, dropout = section.hidden_dim, section.dropout
        self.elmo = elmo
        self.tokens = TokenVectors(section.tokens, words, dim_at(elmo, "input"))
        self.before = nn.Sequential(
            nn.Linear(self.tokens.dim, hidden), nn.ReLU(), nn.Dropout(dropout)
        )
        self.encoder = BiLSTM(hidden, hidden, 1, dropout)
        width = self.encoder.dim + dim_at(elmo, "output")
        self.integrator = BiLSTM(3 * width, hidden, 1, dropout)
        self.attention = nn.Linear(self.integrator.dim, 1)
        self.output = nn.Sequential(
            nn.Dropout(dropout),
            _Maxout(4 * self.integrator.dim, hidden),
            nn.Dropout(dropout),
            _Maxout(hidden, hidden),
            nn.Dropout(dropout),
            nn.Linear(hidden, len(labels)),
        )

    def scores(self, items: Sequence[Text]) -> Tensor:
        """Returns the (B, K) scores of labels."""
        sentences = [item.tokens for item in items]
        lengths = lengths_of(sentences, self.attention.weight.device)
        mixes = mixes_of(self.elmo, sentences)
        encoded = self.encoder(self.before(self.tokens(sentences, mixes.get("input"))), lengths)
        found = beside(encoded, mixes.get("output"))
        seen = attend(found @ found.transpose(1, 2), lengths, found)  # (B, T, W)
        both = torch.cat([found, found - seen, found * seen], dim=2)
        return self.output(self._pools(self.integrator(both, lengths), lengths))  # type: ignore[no-any-return]

    def _pools(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, 2H) -> (B, 8H): mean, maximum, minimum, and a learnt weighting."""
        behind = ~inside(lengths, vectors.size(1))[:, :, None]
        lowest = vectors.masked_fill(behind, torch.inf).amin(dim=1)
        weighted = attend(self.attention(vectors).transpose(1, 2), lengths, vectors)[:, 0]
        return torch.cat([mean_and_max(vectors, lengths), lowest, weighted], dim=1)


class _Maxout(nn.Module):
    """The largest of a few linear functions, for each unit."""

    def __init__(self, input_dim: int, output_dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(input_dim, _POOL * output_dim)

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, I) -> (B, O)."""
        return self.linear(inputs).unflatten(1, (-1, _POOL)).amax(dim=2)  # type: ignore[no-any-return]
