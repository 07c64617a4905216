"""The plain bidirectional LSTM encoder of some ELMoForManyLangs models.

Letters: N packed positions, D projection width.
"""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from elmokit.config import LSTMConfig


class StackedLSTM(nn.Module):
    """A bidirectional LSTM of several layers, with one projection shared by both directions.

    A layer reads both directions of the layer below, so only the top has two halves that can be
    told apart. Rows are packed: the backward direction starts at each row's own end. (The original
    starts it in the padding, so that its vectors depend on the batch; that accident is not kept.)
    The original carries no state, and neither does this.
    """

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__()
        self.encoder = nn.LSTM(
            config.projection_dim, config.cell_dim, config.num_layers, bidirectional=True
        )
        self.projection = nn.Linear(config.cell_dim, config.projection_dim)

    def forward(self, inputs: Tensor, batch_sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Runs over a packed batch.

        Args:
            inputs: (N, D) packed in the order of the forward reading.
            batch_sizes: Active rows of each step; never rises.

        Returns:
            Forward and backward half, each (N, D), both in the order of the forward reading.
        """
        packed, _ = self.encoder(PackedSequence(inputs, torch.tensor(batch_sizes)))
        forward, backward = packed.data.chunk(2, dim=1)
        return self.projection(forward), self.projection(backward)
