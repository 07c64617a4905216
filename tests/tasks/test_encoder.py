import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmokit.tasks.encoder import BiLSTM

LENGTHS = torch.tensor([4, 1, 6])


def test_numbers_are_those_of_torch_over_packed_rows():
    torch.manual_seed(0)
    ours, theirs = BiLSTM(5, 3, 2, 0.0), nn.LSTM(5, 3, 2, batch_first=True, bidirectional=True)
    for layer in range(2):
        for suffix, lstms in (("", ours.forwards), ("_reverse", ours.backwards)):
            for name, tensor in lstms[layer].named_parameters():
                getattr(theirs, f"{name[:-1]}{layer}{suffix}").data = tensor.data.clone()
    inputs = torch.randn(3, 6, 5)
    packed = pack_padded_sequence(inputs, LENGTHS, batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(theirs(packed)[0], batch_first=True)
    torch.testing.assert_close(ours(inputs, LENGTHS), expected)


def test_what_stands_behind_a_rows_end_does_not_count():
    lstm, inputs = BiLSTM(5, 3, 2, 0.0), torch.randn(3, 6, 5)
    before = lstm(inputs, LENGTHS)
    inputs[torch.arange(6) >= LENGTHS[:, None]] = 1e3
    assert torch.equal(lstm(inputs, LENGTHS), before)
