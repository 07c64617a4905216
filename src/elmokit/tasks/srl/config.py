"""Settings of `srl`; needs no torch."""

from dataclasses import dataclass

from elmokit.limits import check_least, check_share
from elmokit.tasks.config import DataSection, ModelSection
from elmokit.tasks.readers.roles import RoleFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class SrlData(DataSection):
    """Columns with a word a line, one column of arguments for each predicate."""

    format: RoleFormat = "auto"
    """auto: conll2012 where a sentence's first line has 12 columns or more with numbers in the
    second and third, else conll2005."""
    predicate_column: int = 7
    """Where predicates are in conll2005, 1 for the first column; the first column has words, and
    arguments begin after this one. In conll2012 predicates are in column 8."""

    def __post_init__(self) -> None:
        super(SrlData, self).__post_init__()
        check_least(2, self, "predicate_column")


@dataclass(frozen=True, slots=True, kw_only=True)
class SrlSection(ModelSection):
    """The labeller of roles. The paper's has 8 layers of width 300."""

    predicate_dim: int = 100
    """Width of the vector that tells the predicate from other words."""
    hidden_dim: int = 200
    """Width of a layer of the LSTM."""
    num_layers: int = 4
    """Layers of the LSTM, which read in turn from left to right and from right to left."""
    dropout: float = 0.1
    """Chance of dropping an element of a layer's output, for all words of a sentence alike."""

    def __post_init__(self) -> None:
        check_least(1, self, "predicate_dim", "hidden_dim", "num_layers")
        check_share(self, "dropout")
