"""ESIM, the enhanced sequential inference model (Chen et al. 2017).

A biLSTM reads both texts, each word attends to the other text, and a second biLSTM reads what
comes together. ELMo at the output stands beside what the first biLSTM makes, where attention sees
it (paper, section 5.2).

Letters: B rows, S and T time of premise and hypothesis, K labels, W width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from elmokit.limits import check_least, check_share
from elmokit.tasks.config import ModelSection
from elmokit.tasks.elmo_at import ElmoAt, beside, dim_at, mixes_of
from elmokit.tasks.encoder import BiLSTM
from elmokit.tasks.labelling import LabelModel, attend, mean_and_max
from elmokit.tasks.readers.items import Pair
from elmokit.tasks.tokens import TokenVectors, lengths_of


@dataclass(frozen=True, slots=True, kw_only=True)
class EsimSection(ModelSection):
    """ESIM."""

    hidden_dim: int = 150
    """Width of both LSTMs in each direction, and of the layers between and after them."""
    dropout: float = 0.3
    """Chance of dropping an element between layers."""

    def __post_init__(self) -> None:
        check_least(1, self, "hidden_dim")
        check_share(self, "dropout")


class Esim(LabelModel[Pair]):
    """The model of `entailment`."""

    def __init__(
        self,
        section: EsimSection,
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
        self.encoder = BiLSTM(self.tokens.dim, hidden, 1, dropout)
        width = self.encoder.dim + dim_at(elmo, "output")
        self.projection = nn.Sequential(
            nn.Linear(4 * width, hidden), nn.ReLU(), nn.Dropout(dropout)
        )
        self.composition = BiLSTM(hidden, hidden, 1, dropout)
        self.output = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(4 * self.composition.dim, hidden),
            nn.Tanh(),
            nn.Dropout(dropout),
            nn.Linear(hidden, len(labels)),
        )

    def scores(self, items: Sequence[Pair]) -> Tensor:
        """Returns the (B, K) scores of labels."""
        premise, premise_lengths = self._encode([item.premise for item in items])
        hypothesis, hypothesis_lengths = self._encode([item.hypothesis for item in items])
        alike = premise @ hypothesis.transpose(1, 2)  # (B, S, T)
        to_premise = attend(alike, hypothesis_lengths, hypothesis)
        to_hypothesis = attend(alike.transpose(1, 2), premise_lengths, premise)
        pools = [
            self._compose(premise, to_premise, premise_lengths),
            self._compose(hypothesis, to_hypothesis, hypothesis_lengths),
        ]
        return self.output(torch.cat(pools, dim=1))  # type: ignore[no-any-return]

    def _encode(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """(B, T, W) vectors, and (B,) lengths."""
        lengths = lengths_of(sentences, next(self.output.parameters()).device)
        mixes = mixes_of(self.elmo, sentences)
        encoded = self.encoder(self.tokens(sentences, mixes.get("input")), lengths)
        return beside(encoded, mixes.get("output")), lengths

    def _compose(self, own: Tensor, other: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, W) twice -> (B, 4H)."""
        both = torch.cat([own, other, own - other, own * other], dim=2)
        return mean_and_max(self.composition(self.projection(both), lengths), lengths)
