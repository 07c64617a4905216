"""A bidirectional LSTM over rows of any lengths.

Letters: B rows, T time, I input width, H width of a direction.
"""

import torch
from torch import Tensor, nn

from elmokit.nn.masks import inside, reversal


class BiLSTM(nn.Module):
    """Layers of forward and backward LSTMs, with dropout between them.

    The backward LSTM reads each row reversed in place, so that rows need not be packed: learning
    from packed rows, torch fills a gradient of all steps anew at every step.

    Attributes:
        dim: 2H, width of an output.
    """

    def __init__(self, input_dim: int, hidden_dim: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        self.dim = 2 * hidden_dim
        widths = [input_dim] + [self.dim] * (num_layers - 1)
        self.forwards, self.backwards = (
            nn.ModuleList(nn.LSTM(width, hidden_dim, batch_first=True) for width in widths)
            for _ in ("forward", "backward")
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Encodes rows.

        Args:
            inputs: (B, T, I).
            lengths: (B,) int64, 1 or more.

        Returns:
            (B, T, 2H); rows of padding are zero.
        """
        mask = inside(lengths, inputs.size(1))
        places = reversal(lengths, inputs.size(1))[:, :, None]
        for depth, (ahead, back) in enumerate(zip(self.forwards, self.backwards, strict=True)):
            inputs = self.dropout(inputs) if depth else inputs
            forward, _ = ahead(inputs)
            backward, _ = back(_reordered(inputs, places))
            inputs = torch.cat([forward, _reordered(backward, places)], dim=2)
        return inputs.masked_fill(~mask[:, :, None], 0.0)


def _reordered(rows: Tensor, places: Tensor) -> Tensor:
    """(B, T, W) -> (B, T, W), each row's steps by (B, T, 1) places."""
    return rows.gather(1, places.expand(-1, -1, rows.size(2)))
