"""A bidirectional LSTM over rows of any lengths.

Letters: B rows, T time, I input width, H width of a direction.
"""

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class BiLSTM(nn.Module):
    """Layers of forward and backward LSTMs, with dropout between them.

    Attributes:
        dim: 2H, width of an output.
    """

    def __init__(self, input_dim: int, hidden_dim: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        self.lstm = nn.LSTM(
            input_dim,
            hidden_dim,
            num_layers,
            batch_first=True,
            bidirectional=True,
            dropout=dropout if num_layers > 1 else 0.0,
        )
        self.dim = 2 * hidden_dim

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Encodes rows.

        Args:
            inputs: (B, T, I).
            lengths: (B,) int64, 1 or more.

        Returns:
            (B, T, 2H); rows of padding are zero.
        """
        packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, _ = pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, total_length=inputs.size(1)
        )
        return outputs
