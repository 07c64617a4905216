"""What every checkpoint format reads and writes: a biLM as plain data, without layers."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from elmokit.characters import Alphabet
from elmokit.config import ActivationRanges, BiLMConfig, Card
from elmokit.errors import CheckpointError
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
    activations: ActivationRanges | None = None
    """What int8 takes its scales from, where it was measured."""

    def halved(self) -> Self:
        """Returns the model with its tensors rounded to float16, at half the size.

        Raises:
            CheckpointError: A number is too large for float16.
        """
        tensors = {name: tensor.to(torch.float16) for name, tensor in self.tensors.items()}
        for name, tensor in tensors.items():
            if (tensor.isinf() & self.tensors[name].isfinite()).any():
                largest = f"{torch.finfo(torch.float16).max:,.0f}"
                raise CheckpointError(
                    f"{name} has numbers beyond {largest}, the largest of float16; write float32"
                )
        return replace(self, tensors=tensors)
