import pytest
import torch

from elmokit.config import LSTMConfig
from elmokit.nn import projected_lstm
from elmokit.nn.projected_lstm import ProjectedLSTM

SIZES = (4, 4, 3, 1, 1)


def layer(**changes) -> ProjectedLSTM:
    torch.manual_seed(5)
    settings = {"cell_dim": 10, "projection_dim": 6, "cell_clip": 0.2, "projection_clip": 0.03}
    module = ProjectedLSTM(LSTMConfig(**{**settings, **changes}), 7)
    for parameter in module.parameters():
        parameter.data.mul_(3)
    return module


def by_definition(module, inputs, batch_sizes, h, c):
    """Row by row, step by step."""
    config = module.config
    outputs, cells, offset = [], c.clone(), 0
    h = h.clone()
    for size in batch_sizes:
        for row in range(size):
            gates = (
                module.input_weight @ inputs[offset + row]
                + module.recurrent_weight @ h[row]
                + module.bias
            )
            i, f, g, o = gates.chunk(4)
            cell = torch.sigmoid(f + config.forget_bias) * cells[row]
            cell = cell + torch.sigmoid(i) * torch.tanh(g)
            if config.cell_clip:
                cell = cell.clamp(-config.cell_clip, config.cell_clip)
            hidden = torch.sigmoid(o) * torch.tanh(cell)
            if module.projection is not None:
                hidden = module.projection @ hidden
            if module.projection is not None and config.projection_clip:
                hidden = hidden.clamp(-config.projection_clip, config.projection_clip)
            h[row], cells[row] = hidden, cell
            outputs.append(hidden)
        offset += size
    return torch.stack(outputs), cells


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"forget_bias": 1.0},
        {"cell_clip": None, "projection_clip": None},
        {"cell_dim": 6, "recurrent_projection": False},
    ],
)
def test_equals_the_definition_with_and_without_graph(changes):
    module = layer(**changes)
    inputs, h = torch.randn(sum(SIZES), 7), torch.randn(4, 6) / 9
    c = torch.randn(4, module.config.cell_dim) / 9
    before = c.clone()
    with torch.no_grad():
        expected = by_definition(module, inputs, SIZES, h, c)
        in_place = module(inputs, SIZES, h, c)
    with_graph = module(inputs, SIZES, h, c)
    assert with_graph[0].requires_grad
    for got in (in_place, with_graph):
        torch.testing.assert_close(got[0], expected[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(got[1], expected[1], rtol=1e-5, atol=1e-6)
    assert torch.equal(c, before), "the caller's state was overwritten"


def test_chunk_length_changes_nothing(monkeypatch):
    module = layer().requires_grad_(False)
    inputs, h, c = torch.randn(sum(SIZES), 7), torch.zeros(4, 6), torch.zeros(4, 10)
    whole = module(inputs, SIZES, h, c)
    for rows in (1, 5, 8):
        monkeypatch.setattr(projected_lstm, "_CHUNK_ROWS", rows)
        for got, expected in zip(module(inputs, SIZES, h, c), whole, strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)


def test_clips_act():
    module = layer().requires_grad_(False)
    outputs, cells = module(
        torch.randn(sum(SIZES), 7), SIZES, torch.zeros(4, 6), torch.zeros(4, 10)
    )
    assert outputs.abs().max() == pytest.approx(0.03)
    assert cells.abs().max() == pytest.approx(0.2)


def test_gradients_equal_finite_differences():
    module = layer(cell_clip=None, projection_clip=None).double()
    inputs = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    h = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    c = torch.randn(3, 10, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda *args: module(args[0], (3, 2), *args[1:]), (inputs, h, c)
    )
