"""Deep LSTM of alternating directions with highway connections (He et al. 2017, section 2.2).

Letters: B rows, T time, I input width, H width of a layer.
"""

import torch
from torch import Tensor, nn

from elmokit.nn.masks import inside, reversal


class HighwayLSTM(nn.Module):
    """One layer, which reads from left to right.

    The cell is the paper's own: a gate r, which sees the input and the output before, mixes the
    LSTM's output with a linear map of the input, and what it makes is also what recurs:

        h'_t = o_t * tanh(c_t)
        h_t = z * (r_t * h'_t + (1 - r_t) * W x_t)

    z is the mask of recurrent dropout, drawn once a row. torch's own LSTM has no place for r and z
    inside of its recurrence, so steps are taken here. What the input alone decides is one product
    for all steps; a step is a product and ten small operations, which the product outweighs from
    some twenty rows on.
    """

    def __init__(self, input_dim: int, hidden_dim: int, dropout: float) -> None:
        """Draws the weights: orthogonal ones, and 1 as the bias of the forget gate.

        Args:
            input_dim: I.
            hidden_dim: H.
            dropout: Chance of dropping an element of the output, at all steps of a row alike.
        """
        super().__init__()
        self.hidden_dim, self.dropout = hidden_dim, dropout
        # Input, forget, output and highway gate, then the new content.
        self.inputs = nn.Linear(input_dim, 5 * hidden_dim)
        self.recurrent = nn.Linear(hidden_dim, 5 * hidden_dim, bias=False)
        self.carry = nn.Linear(input_dim, hidden_dim, bias=False)
        with torch.no_grad():
            for linear in (self.inputs, self.recurrent, self.carry):
                for block in torch.split(linear.weight, hidden_dim):
                    nn.init.orthogonal_(block)
            self.inputs.bias.zero_()
            self.inputs.bias[hidden_dim : 2 * hidden_dim] = 1.0

    def forward(self, inputs: Tensor) -> Tensor:
        """Reads rows.

        Args:
            inputs: (T, B, I).

        Returns:
            (T, B, H).
        """
        hidden = cell = inputs.new_zeros(inputs.size(1), self.hidden_dim)
        mask = nn.functional.dropout(torch.ones_like(cell), self.dropout, self.training)
        recurrent = self.recurrent.weight.t()
        outputs = []
        for gates, carried in zip(
            self.inputs(inputs).unbind(), self.carry(inputs).unbind(), strict=True
        ):
            gates = torch.addmm(gates, hidden, recurrent)  # (B, 5H)
            opened, content = torch.split(gates, [4 * self.hidden_dim, self.hidden_dim], dim=1)
            enter, keep, leave, highway = torch.sigmoid(opened).chunk(4, dim=1)
            cell = torch.addcmul(keep * cell, enter, torch.tanh(content))
            hidden = mask * torch.lerp(carried, leave * torch.tanh(cell), highway)
            outputs.append(hidden)
        return torch.stack(outputs)


class AlternatingLSTM(nn.Module):
    """Layers that read in turn from left to right and from right to left.

    Every second layer reads its rows reversed in place, each within its own length, so that no word
    sees padding and the results are those of packed rows.

    Attributes:
        dim: H.
    """

    def __init__(self, input_dim: int, hidden_dim: int, num_layers: int, dropout: float) -> None:
        """Draws the weights.

        Args:
            input_dim: I.
            hidden_dim: H.
            num_layers: How many; the first reads from left to right.
            dropout: That of each layer; see `HighwayLSTM`.
        """
        super().__init__()
        self.dim = hidden_dim
        widths = [input_dim] + [hidden_dim] * (num_layers - 1)
        self.layers = nn.ModuleList(HighwayLSTM(width, hidden_dim, dropout) for width in widths)

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Encodes rows.

        Args:
            inputs: (B, T, I).
            lengths: (B,) int64, 1 or more.

        Returns:
            (B, T, H); rows of padding are zero.
        """
        places = reversal(lengths, inputs.size(1)).t()[:, :, None]
        hidden = inputs.transpose(0, 1)  # (T, B, I)
        for depth, layer in enumerate(self.layers):
            if depth:
                hidden = _reordered(hidden, places)
            hidden = layer(hidden)
        if len(self.layers) % 2 == 0:  # the last one has read backwards
            hidden = _reordered(hidden, places)
        mask = inside(lengths, inputs.size(1))
        return hidden.transpose(0, 1).masked_fill(~mask[:, :, None], 0.0)


def _reordered(rows: Tensor, places: Tensor) -> Tensor:
    """(T, B, W) -> (T, B, W), each row's steps by (T, B, 1) places."""
    return rows.gather(0, places.expand(-1, -1, rows.size(2)))
