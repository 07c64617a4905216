"""A pooled classifier: a biLSTM, the mean and the maximum of its outputs, a layer on top.

Letters: B rows, K labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from elmokit.limits import check_least, check_share
from elmokit.tasks.config import ModelSection
from elmokit.tasks.elmo_at import ElmoAt, beside, dim_at, mixes_of
from elmokit.tasks.encoder import BiLSTM
from elmokit.tasks.labelling import LabelModel, mean_and_max
from elmokit.tasks.readers.items import Text
from elmokit.tasks.tokens import TokenVectors, lengths_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledSection(ModelSection):
    """The pooled classifier."""

    hidden_dim: int = 150
    """Width of the LSTM in each direction."""
    num_layers: int = 1
    """Layers of the LSTM."""
    dropout: float = 0.5
    """Chance of dropping an element of what is pooled."""

    def __post_init__(self) -> None:
        check_least(1, self, "hidden_dim", "num_layers")
        check_share(self, "dropout")


class PooledClassifier(LabelModel[Text]):
    """The model of `classify`."""

    def __init__(
        self,
        section: PooledSection,
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
        self.elmo = elmo
        self.tokens = TokenVectors(section.tokens, words, dim_at(elmo, "input"))
        self.encoder = BiLSTM(
            self.tokens.dim, section.hidden_dim, section.num_layers, section.dropout
        )
        width = self.encoder.dim + dim_at(elmo, "output")
        self.output = nn.Sequential(nn.Dropout(section.dropout), nn.Linear(2 * width, len(labels)))

    def scores(self, items: Sequence[Text]) -> Tensor:
        """Returns the (B, K) scores of labels."""
        sentences = [item.tokens for item in items]
        lengths = lengths_of(sentences, next(self.output.parameters()).device)
        mixes = mixes_of(self.elmo, sentences)
        encoded = self.encoder(self.tokens(sentences, mixes.get("input")), lengths)
        found = beside(encoded, mixes.get("output"))
        return self.output(mean_and_max(found, lengths))  # type: ignore[no-any-return]
