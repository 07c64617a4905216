"""ELMo at the places of a task model, with a mix of its own at each.

Letters: B rows, T time, K layers that are mixed, D projection width.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from elmokit.elmo import learning_copy
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.selection import Selection
from elmokit.errors import ConfigError
from elmokit.model import BiLM
from elmokit.nn import ScalarMix
from elmokit.nn.masks import inside
from elmokit.tasks.config import ElmoSection

LayerSource = Callable[[Sequence[Sequence[str]]], list[Tensor]]
"""Sentences -> for each its layers, (K, T, 2D)."""


class ElmoAt(nn.Module):
    """Mixes of a biLM's layers. Every sentence starts from the initial state (policy "fresh").

    A frozen biLM is no part of the module: its weights are neither moved, trained nor saved with
    it, and its layers may come from elsewhere (`source`). A trainable one is a copy of its own.

    Attributes:
        bilm: The trainable copy; None if the biLM is frozen.
        layers: Numbers of the layers that are mixed.
        source: Where the layers of a frozen biLM come from.
    """

    def __init__(self, bilm: BiLM, section: ElmoSection, device: torch.device) -> None:
        """Prepares a biLM for its places.

        Args:
            bilm: The biLM.
            section: Where it is read, and how.
            device: Where a frozen biLM is to compute.

        Raises:
            ConfigError: There is no such layer.
        """
        super().__init__()
        self.section = section
        self.layers = mixed_layers(section, bilm.config.num_outputs)
        self.dim = bilm.config.dim
        self.bilm: BiLM | None = None
        self.source: LayerSource = self._run
        if section.trainable:
            self.bilm = learning_copy(bilm).with_card(state="fresh")
        else:
            self.source = FrozenLayers(bilm, self.layers, device)
        self.mixes = nn.ModuleDict(
            {
                place: ScalarMix(len(self.layers), layer_norm=section.layer_norm)
                for place in section.places
            }
        )
        self.dropout = nn.Dropout(section.dropout)

    def forward(self, sentences: Sequence[Sequence[str]]) -> Mapping[str, Tensor]:
        """Returns the mix of each place.

        Args:
            sentences: B token lists.

        Returns:
            Place -> (B, T, 2D), T the longest sentence; rows of padding are zero.
        """
        device = next(self.mixes.parameters()).device
        rows = [layers.transpose(0, 1).to(device) for layers in self.source(sentences)]
        lengths = torch.tensor([len(row) for row in rows], device=device)
        layers = pad_sequence(rows, batch_first=True).unbind(dim=2)  # K of (B, T, 2D)
        mask = inside(lengths, layers[0].size(1))
        return {
            place: self.dropout(mix(layers, mask).masked_fill(~mask[:, :, None], 0.0))
            for place, mix in self.mixes.items()
        }

    def penalty(self) -> Tensor:
        """Returns lambda times the sum of the squared raw weights of all mixes, of shape ()."""
        squares = [mix.weights.pow(2).sum() for mix in self.mixes.values()]  # type: ignore[operator]  # they are ScalarMixes
        return self.section.l2 * torch.stack(squares).sum()

    def mix_weights(self) -> dict[str, dict[str, list[float] | float]]:
        """Returns what was learnt of each layer: place -> normalised weights and gamma."""
        return {
            place: {"weights": mix.normalized_weights.tolist(), "gamma": mix.gamma.item()}  # type: ignore[operator]  # they are ScalarMixes
            for place, mix in self.mixes.items()
        }

    def _run(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Runs the trainable biLM, so that gradients reach it."""
        assert self.bilm is not None
        batch, network = self.bilm.encode(sentences), self.bilm.network
        outputs, _ = network.run(network.encode_types(batch.types), batch)
        flipped = batch.flipped()
        stacked = torch.stack([outputs.join(layer, flipped) for layer in self.layers])  # (K, N, 2D)
        positions, lengths = batch.unpacked()
        in_order = torch.split(stacked.index_select(1, positions), lengths.tolist(), dim=1)
        return [in_order[place] for place in torch.argsort(batch.rows).tolist()]


def mixed_layers(section: ElmoSection, num_outputs: int) -> tuple[int, ...]:
    """Returns the numbers of the layers that are mixed.

    Raises:
        ConfigError: There is no such layer.
    """
    if section.layers == "all":
        return tuple(range(num_outputs))
    layer = num_outputs - 1 if section.layers == "last" else section.layers
    if not 0 <= layer < num_outputs:
        raise ConfigError(
            f"elmo.layers: there is no layer {layer}; {section.model} has 0 to {num_outputs - 1}"
        )
    return (layer,)


def dim_at(elmo: ElmoAt | None, place: str) -> int:
    """Returns the width of ELMo's vectors at a place, 0 where it is not read."""
    return elmo.dim if elmo is not None and place in elmo.section.places else 0


def mixes_of(elmo: ElmoAt | None, sentences: Sequence[Sequence[str]]) -> Mapping[str, Tensor]:
    """Returns the mix of each place where ELMo is read."""
    return {} if elmo is None else elmo(sentences)


def beside(vectors: Tensor, mix: Tensor | None) -> Tensor:
    """Sets (B, T, 2D) ELMo beside (B, T, W) vectors, if it is read there."""
    return vectors if mix is None else torch.cat([vectors, mix], dim=2)


class FrozenLayers:
    """The layers of a biLM that does not learn, computed whenever they are asked for."""

    def __init__(self, bilm: BiLM, layers: Sequence[int], device: torch.device) -> None:
        self.emb = Embedder(bilm, device=device)
        self._selection = Selection.parse(tuple(layers), None, bilm.config.num_outputs)

    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Returns the layers of each sentence, (K, T, 2D)."""
        return self.emb.embed_part(sentences, self._selection)
