"""Elmo: a biLM with scalar mixes and dropout, for use inside a task model (paper, section 3.3).

Letters: B rows, T time, C characters, D projection width, N packed positions.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmokit.batch import Batch
from elmokit.characters import ByteAlphabet
from elmokit.config import StatePolicy
from elmokit.errors import ConfigError, InputError
from elmokit.model import BiLM, batch_to_ids
from elmokit.nn import CarriedState, ScalarMix


class ElmoOutput(NamedTuple):
    """What `Elmo` returns."""

    representations: list[Tensor]
    """One (B, T, 2D) float tensor per output; rows of padding are zero."""
    mask: Tensor
    """(B, T) bool, True at a token (and at a boundary, if these are kept)."""


class Elmo(nn.Module):
    """Mixes of a biLM's layers as inputs of a task model.

    A frozen biLM shares its tensors with the model given; a trainable one is a copy of its own, so
    that fine-tuning changes no other user of the model.

    Attributes:
        bilm: The biLM in use; save it with `bilm.save_pretrained` after fine-tuning.
        scalar_mixes: One mix per output.
    """

    def __init__(
        self,
        bilm: BiLM,
        *,
        num_outputs: int = 1,
        dropout: float = 0.5,
        layer_norm: bool = False,
        keep_boundaries: bool = False,
        trainable: bool = False,
        train_mix: bool = True,
        mix_weights: Sequence[float] | None = None,
        l2: float = 0.001,
        state: StatePolicy = "fresh",
    ) -> None:
        """Builds the module.

        Args:
            bilm: The model to draw on.
            num_outputs: How many mixes, such as one for the input and one for the output of an RNN.
            dropout: Probability of dropping an element of a representation while training.
            layer_norm: Whether layers are normalised before mixing; see `ScalarMix`.
            keep_boundaries: Whether the vectors of the two boundary words are kept.
            trainable: Whether the biLM itself learns (in float32).
            train_mix: Whether the mix weights and gammas learn.
            mix_weights: Raw weights (logits) that every mix starts from; an even mix if absent.
            l2: Strength of `penalty`, the paper's lambda.
            state: "fresh" starts every sentence from the initial state; "carry" continues each row
                of the batch before, as AllenNLP's stateful module does.

        Raises:
            ConfigError: An argument is out of its range.
        """
        super().__init__()
        if not isinstance(bilm, BiLM):
            raise ConfigError(
                f"bilm: expected a BiLM, found {type(bilm).__name__}; load one with "
                "BiLM.from_pretrained(...)"
            )
        if num_outputs < 1:
            raise ConfigError(f"num_outputs: {num_outputs} must be 1 or more")
        if not 0 <= dropout < 1:
            raise ConfigError(f"dropout: {dropout} must lie in [0, 1)")
        if state not in get_args(StatePolicy):
            raise ConfigError(f"state: {state!r} is not one of {', '.join(get_args(StatePolicy))}")
        model = learning_copy(bilm) if trainable else bilm.frozen()
        self.bilm = model.with_card(state=state)
        self.scalar_mixes = nn.ModuleList(
            ScalarMix(
                bilm.config.num_outputs,
                layer_norm=layer_norm,
                weights=mix_weights,
                trainable=train_mix,
            )
            for _ in range(num_outputs)
        )
        self.dropout = nn.Dropout(dropout)
        self.keep_boundaries = keep_boundaries
        self.l2 = l2
        self._carried = CarriedState() if state == "carry" else None

    @property
    def dim(self) -> int:
        """2D, the width of a representation."""
        return self.bilm.config.dim

    def forward(self, inputs: Batch | Tensor) -> ElmoOutput:
        """Embeds a batch.

        Args:
            inputs: A `Batch` from `bilm.encode`, or (B, T, C) int64 ids of the byte alphabet from
                `batch_to_ids`, zeros where a row has ended.

        Returns:
            Representations (B, T, 2D) and mask (B, T). T is the ids' T or the longest sentence,
            plus 2 if boundaries are kept.

        Raises:
            InputError: The input is no batch, or the ids have a wrong shape.
            ConfigError: Ids were given to a model that does not read the byte alphabet.
        """
        if not isinstance(inputs, Batch | Tensor):
            raise InputError(
                f"inputs: expected a Batch or character ids, found {type(inputs).__name__}; give "
                "bilm.encode(sentences)"
            )
        if isinstance(inputs, Tensor):
            batch, num_tokens = self._pack(inputs), inputs.size(1)
        else:
            batch, num_tokens = inputs, int(inputs.lengths.max()) - 2
        layers = self._run(batch)
        place, mask = self._places(batch, num_tokens)
        representations = []
        for mix in self._mixes():
            # Row 0 is what padding reads; padding rows of the result are zero.
            table = F.pad(mix(layers), (0, 0, 1, 0))
            representations.append(self.dropout(F.embedding(place, table)))
        return ElmoOutput(representations, mask)

    def penalty(self) -> Tensor:
        """Returns l2 times the sum of the squared raw weights of all mixes, of shape ()."""
        squares = [(mix.weights**2).sum() for mix in self._mixes()]
        return self.l2 * torch.stack(squares).sum()

    def reset(self) -> None:
        """Forgets the carried state of every row."""
        if self._carried is not None:
            self._carried.reset()

    def _mixes(self) -> Iterator[ScalarMix]:
        for mix in self.scalar_mixes:
            assert isinstance(mix, ScalarMix)
            yield mix

    def _pack(self, char_ids: Tensor) -> Batch:
        alphabet = self.bilm.alphabet
        if not isinstance(alphabet, ByteAlphabet) or self.bilm.words is not None:
            raise ConfigError(
                "character ids: this model does not read the byte alphabet; "
                "give bilm.encode(sentences)"
            )
        _check_ids(char_ids, alphabet.num_characters)
        begin, end = batch_to_ids([self.bilm.boundaries], alphabet.max_characters)[0]
        return Batch.from_ids(char_ids.to(self.bilm.device, torch.int64), begin, end)

    def _run(self, batch: Batch) -> list[Tensor]:
        """Returns the (N, 2D) layers of a packed batch."""
        network = self.bilm.network
        carried = self._carried if network.has_state else None
        state = carried.take(batch.rows, network.initial_state) if carried else None
        layers, state = network.run(network.encode_types(batch.types), batch, state)
        if carried and state:
            carried.put(batch.rows, state)
        flipped = batch.flipped()
        return [layers.join(layer, flipped) for layer in range(len(layers))]

    def _places(self, batch: Batch, num_tokens: int) -> tuple[Tensor, Tensor]:
        """(B, T) packed position + 1 of each token of the caller's rows, 0 at padding; the mask."""
        positions, kept = batch.unpacked(boundaries=self.keep_boundaries)
        width = num_tokens + 2 * self.keep_boundaries
        place = torch.zeros(len(kept), width, dtype=torch.int64, device=positions.device)
        mask = torch.arange(width, device=place.device) < kept[:, None]
        place[mask] = positions + 1
        caller_order = torch.argsort(batch.rows)
        return place[caller_order], mask[caller_order]


def learning_copy(bilm: BiLM) -> BiLM:
    """Returns a copy whose network learns, in float32; an LM softmax, which no mix reads, stays."""
    model = copy.deepcopy(bilm).requires_grad_(False)
    model.network.requires_grad_(True)
    model.network.use_products(None)  # those of an int8 model let nothing be learnt
    return model


def _check_ids(char_ids: Tensor, most: int) -> None:
    """Raises InputError if these cannot be character ids."""
    if char_ids.is_floating_point() or char_ids.is_complex() or char_ids.dtype == torch.bool:
        raise InputError(
            f"character ids: expected integers, found {char_ids.dtype}; make them with batch_to_ids"
        )
    if char_ids.numel() and not 0 <= int(char_ids.min()) <= int(char_ids.max()) <= most:
        raise InputError(
            f"character ids: expected 0..{most}, found {int(char_ids.min())} to "
            f"{int(char_ids.max())}; make them with batch_to_ids"
        )
