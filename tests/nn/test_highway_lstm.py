import pytest
import torch
from torch import nn

from elmokit.nn.highway_lstm import AlternatingLSTM, HighwayLSTM

LENGTHS = torch.tensor([4, 1, 6])


def by_hand(layer, row):
    """The paper's equations for one row, a step and a gate at a time."""
    size = layer.hidden_dim
    hidden = cell = torch.zeros(size)
    outputs = []
    for x in row:

        def gate(number, x=x, hidden=hidden):
            part = slice(number * size, (number + 1) * size)
            of_input = layer.inputs.weight[part] @ x + layer.inputs.bias[part]
            return of_input + layer.recurrent.weight[part] @ hidden

        i, f, o, r = (torch.sigmoid(gate(number)) for number in range(4))
        cell = i * torch.tanh(gate(4)) + f * cell
        hidden = r * o * torch.tanh(cell) + (1 - r) * (layer.carry.weight @ x)
        outputs.append(hidden)
    return torch.stack(outputs)


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_numbers_are_those_of_the_equations_in_alternating_directions(num_layers):
    torch.manual_seed(0)
    lstm, inputs = AlternatingLSTM(5, 3, num_layers, dropout=0.5).eval(), torch.randn(3, 6, 5)
    found = lstm(inputs, LENGTHS)
    assert found.shape == (3, 6, 3)
    for row, length in enumerate(LENGTHS.tolist()):
        expected = inputs[row, :length]
        for depth, layer in enumerate(lstm.layers):
            expected = (
                by_hand(layer, expected.flip(0)).flip(0) if depth % 2 else by_hand(layer, expected)
            )
        torch.testing.assert_close(found[row, :length], expected)
        assert not found[row, length:].any()


def test_without_highway_and_dropout_it_is_torchs_lstm():
    torch.manual_seed(0)
    ours, theirs = HighwayLSTM(5, 3, 0.0), nn.LSTM(5, 3)
    with torch.no_grad():
        ours.inputs.bias[9:12] = 1e4  # the highway gate lets nothing but the LSTM through
        # torch has the content before the output gate.
        order = torch.cat([torch.arange(6), torch.arange(12, 15), torch.arange(6, 9)])
        theirs.weight_ih_l0.copy_(ours.inputs.weight[order])
        theirs.bias_ih_l0.copy_(ours.inputs.bias[order])
        theirs.weight_hh_l0.copy_(ours.recurrent.weight[order])
        theirs.bias_hh_l0.zero_()
    inputs = torch.randn(7, 4, 5)
    torch.testing.assert_close(ours(inputs), theirs(inputs)[0])


def test_what_stands_behind_a_rows_end_does_not_count():
    lstm, inputs = AlternatingLSTM(5, 3, 3, 0.0), torch.randn(3, 6, 5)
    before = lstm(inputs, LENGTHS)
    inputs[torch.arange(6) >= LENGTHS[:, None]] = 1e3
    assert torch.equal(lstm(inputs, LENGTHS), before)


def test_dropout_is_one_mask_a_row_in_training_alone():
    torch.manual_seed(0)
    layer, inputs = HighwayLSTM(5, 40, 0.5), torch.randn(6, 3, 5)
    dropped = layer(inputs) == 0  # (T, B, H)
    assert torch.equal(dropped.all(dim=0), dropped.any(dim=0))
    assert 0.3 < dropped.float().mean() < 0.7
    assert not torch.equal(dropped[0, 0], dropped[0, 1])
    assert (layer.eval()(inputs) != 0).all()


def test_weights_start_orthogonal():
    layer = HighwayLSTM(8, 4, 0.0)
    for block in torch.split(layer.recurrent.weight, 4):
        torch.testing.assert_close(block @ block.T, torch.eye(4))
    assert layer.inputs.bias.tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 12
