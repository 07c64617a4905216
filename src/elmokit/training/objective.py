"""The biLM's objective: both directions predict the next word from one shared token encoder.

Letters: B rows, W window, U word types, V words of the softmax.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmokit.batch import Batch
from elmokit.embedding.scoring import output_layer
from elmokit.model import BiLM
from elmokit.nn import State
from elmokit.nn.softmax import Negatives


class Targets(NamedTuple):
    """The words to predict, in the packed order of a batch of windows."""

    forward: Tensor
    """(W * B,) int64 words after each position."""
    backward: Tensor
    """(W * B,) int64 words before each position, in the order of the backward reading."""


class Losses(NamedTuple):
    """Mean cross-entropies of a window, in nats."""

    forward: Tensor
    """()"""
    backward: Tensor
    """()"""


class Objective(nn.Module):
    """A biLM with its softmax as one module, so that data-parallel training can wrap it.

    Dropout is bilm-tf's: on the input of every LSTM layer and on the top layer's output.
    """

    def __init__(self, bilm: BiLM, *, dropout: float = 0.0, sparse: bool = False) -> None:
        """Prepares the objective.

        Args:
            bilm: A model with a softmax.
            dropout: Chance of dropping an element, in training mode.
            sparse: Whether the sampled softmax has a sparse gradient.

        Raises:
            ConfigError: The model has no softmax, or a stacked LSTM, which cannot learn to predict.
        """
        super().__init__()
        output_layer(bilm)
        self.bilm = bilm
        self.dropout = dropout
        self.sparse = sparse

    def forward(
        self,
        batch: Batch,
        targets: Targets,
        state: State | None,
        negatives: Negatives | None = None,
    ) -> tuple[Losses, State]:
        """Computes the losses of a window and the state after it.

        Args:
            batch: Windows of B rows, from `Batch.from_windows`.
            targets: The words to predict.
            state: The state before the window; the model's initial state if absent.
            negatives: Sampled words; None for the full softmax.

        Returns:
            The losses; the state without its graph, for back-propagation ends at the window.
        """
        network, softmax = self.bilm.network, self.bilm.softmax
        assert softmax is not None
        dropout = self.dropout if self.training else 0.0
        vectors = network.encode_types(batch.types)
        layers, after = network.run(vectors, batch, state, dropout=dropout)
        assert after is not None
        hidden = torch.cat([layers.forward[-1], layers.backward[-1]])
        if dropout:
            hidden = F.dropout(hidden, dropout)
        words = torch.cat(targets)
        if negatives is None:
            losses = softmax.loss(hidden, words)
        else:
            losses = softmax.sampled_loss(hidden, words, negatives, sparse=self.sparse)
        forward, backward = losses.chunk(2)
        return Losses(forward.mean(), backward.mean()), State(*(x.detach() for x in after))
