"""What every checkpoint format reads and writes: a biLM as plain data, without layers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from elmokit.characters import Alphabet
from elmokit.config import BiLMConfig, Card
from elmokit.vocabulary import InputWords, Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A biLM as configuration, named tensors and word lists.

    The tensors are those of `elmokit.nn.BiLMNetwork(config).state_dict()`, by the same names, and
    `softmax.weight` (V, D) and `softmax.bias` (V,) if `config.softmax_words` is given.
    """

    config: BiLMConfig
    tensors: Mapping[str, Tensor]
    alphabet: Alphabet | None = None
    """Given exactly if `config.characters` is."""
    words: InputWords | None = None
    """Given exactly if `config.words` is."""
    vocabulary: Vocabulary | None = None
    """Words of the training vocabulary, where the source has them; the V words of the softmax."""
    card: Card = field(default_factory=Card)
