import threading

import pytest
import torch

from elmokit.config import LSTMConfig
from elmokit.nn import lstm_steps, side_by_side
from elmokit.nn.lstm_steps import Reading
from elmokit.nn.projected_lstm import ProjectedLSTM, run_layers

SIZES = (4, 4, 3, 1, 1)


def layer(**changes) -> ProjectedLSTM:
    torch.manual_seed(5)
    settings = {"cell_dim": 10, "projection_dim": 6, "cell_clip": 0.2, "projection_clip": 0.03}
    module = ProjectedLSTM(LSTMConfig(**{**settings, **changes}), 7)
    for parameter in module.parameters():
        parameter.data.mul_(3)
    return module


def run(module, *reading):
    return run_layers([module], [Reading(*reading)])[0]


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
        in_place = run(module, inputs, SIZES, h, c)
    with_graph = run(module, inputs, SIZES, h, c)
    assert with_graph[0].requires_grad
    for got in (in_place, with_graph):
        torch.testing.assert_close(got[0], expected[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(got[1], expected[1], rtol=1e-5, atol=1e-6)
    assert torch.equal(c, before), "the caller's state was overwritten"


def test_chunk_length_changes_nothing(monkeypatch):
    module = layer().requires_grad_(False)
    inputs, h, c = torch.randn(sum(SIZES), 7), torch.zeros(4, 6), torch.zeros(4, 10)
    whole = run(module, inputs, SIZES, h, c)
    for rows in (1, 5, 8):
        monkeypatch.setattr(lstm_steps, "_CHUNK_ROWS", rows)
        for got, expected in zip(run(module, inputs, SIZES, h, c), whole, strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)


def test_clips_act():
    module = layer().requires_grad_(False)
    inputs = torch.randn(sum(SIZES), 7)
    outputs, cells = run(module, inputs, SIZES, torch.zeros(4, 6), torch.zeros(4, 10))
    assert outputs.abs().max() == pytest.approx(0.03)
    assert cells.abs().max() == pytest.approx(0.2)


CLIPPED = {"cell_clip": 0.2, "projection_clip": 0.05}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "changes",
    [
        {"cell_clip": None, "projection_clip": None},
        CLIPPED,
        {"forget_bias": 1.0},
        {"cell_dim": 6, "recurrent_projection": False},
    ],
)
def test_gradients_equal_finite_differences(monkeypatch, changes, threads):
    monkeypatch.setattr(lstm_steps, "_CHUNK_ROWS", 3)
    monkeypatch.setattr(side_by_side, "_FEW_PRODUCTS", 0)
    modules = [layer(**changes).double() for _ in range(2)]
    sources = []
    for module in modules:
        for shape in ((9, 7), (4, 6), (4, module.config.cell_dim)):
            sources.append(torch.randn(shape, dtype=torch.float64, requires_grad=True))
        sources += module.parameters()

    def outputs(*sources):
        half = len(sources) // 2
        readings = [Reading(x, (4, 3, 2), h, c) for x, h, c in (sources[:3], sources[half:][:3])]
        return [part for result in run_layers(modules, readings) for part in result]

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert torch.autograd.gradcheck(outputs, sources, fast_mode=True)
    finally:
        torch.set_num_threads(before)


def test_no_gradient_passes_a_clip():
    module = layer(**CLIPPED)
    inputs = torch.randn(sum(SIZES), 7, requires_grad=True)
    outputs, _ = run(module, inputs, SIZES, torch.zeros(4, 6), torch.zeros(4, 10))
    at_clip = outputs.abs() == 0.05
    assert at_clip.any()
    assert not at_clip.all()
    (gradient,) = torch.autograd.grad(outputs[at_clip].sum(), inputs)
    assert not gradient.any()


def test_autocast_multiplies_in_its_type_and_keeps_the_state_in_float32():
    module = layer(cell_clip=None, projection_clip=None)
    inputs, h, c = torch.randn(sum(SIZES), 7), torch.randn(4, 6) / 9, torch.randn(4, 10) / 9
    expected = run(module, inputs, SIZES, h, c)
    with torch.autocast("cpu", torch.bfloat16):
        found = run(module, inputs.bfloat16(), SIZES, h, c)
        with torch.no_grad():
            again = run(module, inputs.bfloat16(), SIZES, h, c)
    for got, same, whole in zip(found, again, expected, strict=True):
        assert got.dtype == torch.float32
        assert not torch.equal(got, whole)
        torch.testing.assert_close(got, whole, rtol=0.1, atol=0.02)
        torch.testing.assert_close(got, same, rtol=0, atol=0)
    gradients = []
    for outputs, _ in (expected, found):
        module.zero_grad()
        outputs.square().sum().backward()
        gradients.append([parameter.grad.clone() for parameter in module.parameters()])
    for exact, rounded in zip(*gradients, strict=True):
        assert rounded.dtype == torch.float32
        assert torch.nn.functional.cosine_similarity(exact, rounded, dim=-1).min() > 0.98


@pytest.mark.parametrize(("rows", "is_few"), [(7, True), (8, False)])
def test_few_rows_stay_on_one_thread(monkeypatch, rows, is_few):
    """Of the shape of the model that ships."""
    threads = set()
    compute = lstm_steps.Steps.forward

    def forward(*args, **kwargs):
        threads.add(threading.get_ident())
        return compute(*args, **kwargs)

    monkeypatch.setattr(lstm_steps.Steps, "forward", forward)
    module = ProjectedLSTM(LSTMConfig(cell_dim=512, projection_dim=128), 7).requires_grad_(False)
    h, c = torch.zeros(rows, 128), torch.zeros(rows, 512)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        run_layers([module] * 2, [Reading(torch.randn(rows + 1, 7), (rows, 1), h, c)] * 2)
    finally:
        torch.set_num_threads(before)
    assert (threads == {threading.get_ident()}) == is_few
