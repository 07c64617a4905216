"""Settings of `coref`; needs no torch."""

from dataclasses import dataclass

from elmokit.limits import check_least, check_positive, check_share
from elmokit.tasks.config import FitSection, ModelSection


@dataclass(frozen=True, slots=True, kw_only=True)
class CorefSection(ModelSection):
    """The span ranker."""

    singletons: bool = False
    """Whether the data marks mentions that nothing else refers to, as LitBank does and OntoNotes
    does not: they are then learnt, predicted and scored, and else left out everywhere."""
    hidden_dim: int = 100
    """Width of the LSTM in each direction."""
    num_layers: int = 1
    """Layers of the LSTM."""
    span_dim: int = 150
    """Width of a span's vector, and of the layer that scores pairs."""
    max_width: int = 10
    """Words of the longest span."""
    spans_per_word: float = 0.4
    """The paper's lambda: spans that are kept as mentions, for each word of the document."""
    max_antecedents: int = 50
    """Spans before a mention that are scored in full, the best by a coarse score."""
    num_refinements: int = 0
    """Times the vector of a mention is refined by those before it, and pairs are scored anew:
    higher-order inference (Lee et al. 2018, where it is 1)."""
    dropout: float = 0.3
    """Chance of dropping an element of the LSTM's output, and of the vectors of spans and pairs."""

    def __post_init__(self) -> None:
        check_least(1, self, "hidden_dim", "num_layers", "span_dim", "max_width", "max_antecedents")
        check_least(0, self, "num_refinements")
        check_positive(self, "spans_per_word")
        check_share(self, "dropout")


@dataclass(frozen=True, slots=True, kw_only=True)
class CorefFit(FitSection):
    """How the span ranker learns: documents are long, so each is a step by itself."""

    batch_size: int = 1
    """Documents per step."""
