"""The kernels against torch's own operations, on a GPU or else in Triton's interpreter."""

import os
import subprocess
import sys

import pytest
import torch

from elmokit.config import LSTMConfig
from elmokit.nn import lstm_steps
from elmokit.nn.cell import Cell, Work
from elmokit.nn.lstm_steps import Reading
from elmokit.nn.projected_lstm import ProjectedLSTM, run_layers

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
if DEVICE.type == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # read by Triton where a kernel is defined, its own too
pytest.importorskip("triton", reason="needs Triton: a CUDA build of torch, or its interpreter")

from elmokit.nn.triton_cell import TritonCell  # noqa: E402

ROWS, CELL_DIM = 3, 600  # more cells than a block holds
CLIP = 0.7  # not a number of float32, which has one below it


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def random(*shape, kind=torch.float32) -> torch.Tensor:
    return torch.randn(shape, device=DEVICE).to(kind)


@pytest.mark.parametrize("clip", [None, CLIP])
@pytest.mark.parametrize("kind", [None, torch.float32, torch.bfloat16])
def test_forward(clip, kind):
    torch.manual_seed(1)
    gates, c = 3 * random(ROWS, 4 * CELL_DIM), random(ROWS, CELL_DIM)
    recurrent = None if kind is None else random(*gates.shape, kind=kind)
    expected_gates, expected_c = gates.clone(), c.clone()
    expected = Cell().forward(expected_gates, recurrent, expected_c, clip)
    found = TritonCell(torch.float32).forward(gates, recurrent, c, clip)
    close(found, expected)
    close(gates, expected_gates)
    close(c, expected_c)
    if clip:
        assert (c.abs() == torch.tensor(clip)).any()
    again = TritonCell(torch.bfloat16).forward(random(1, 12), None, random(1, 3), None)
    assert again.dtype == torch.bfloat16


@pytest.mark.parametrize("clip", [None, CLIP])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_backward(clip, kind):
    torch.manual_seed(2)
    gates, cells, c = random(ROWS, 4 * CELL_DIM), random(ROWS, CELL_DIM), random(ROWS, CELL_DIM)
    Cell().forward(gates, None, cells, clip)
    before, by_hidden = random(ROWS, CELL_DIM), random(ROWS, CELL_DIM, kind=kind)
    results = []
    for cell in (Cell(), TritonCell(torch.float32)):
        written = torch.empty_like(gates), torch.empty_like(cells)
        by_cells = c.clone()
        unused = cells.new_empty(ROWS, 0)
        work = Work(gates, before, cells, unused, *written, unused)
        cell.backward(work, by_hidden, by_cells, clip)
        results.append((*written, by_cells))
    for expected, found in zip(*results, strict=True):
        close(found, expected)


def test_numbers_that_are_none_stay_so():
    gates, c = random(1, 16), random(1, 4)
    gates[0, 0] = torch.nan
    hidden = TritonCell(torch.float32).forward(gates, None, c, CLIP)
    assert hidden.isnan().tolist() == [[True, False, False, False]]
    assert c.isnan().tolist() == [[True, False, False, False]]


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("changes", [{}, {"cell_dim": 6, "recurrent_projection": False}])
def test_layers_learn_alike_with_kernels(monkeypatch, changes, autocast):
    torch.manual_seed(3)
    config = {"cell_dim": 10, "projection_dim": 6, "cell_clip": 0.2, "projection_clip": 0.05}
    module = ProjectedLSTM(LSTMConfig(**(config | changes)), 7).to(DEVICE)
    for parameter in module.parameters():
        parameter.data.mul_(3)
    inputs, h = random(9, 7).requires_grad_(), random(4, 6) / 9
    c = (random(module.config.cell_dim, 4) / 9).t()  # not contiguous, as a gradient may be
    weights = random(4, module.config.cell_dim).t().contiguous().t()
    results = []
    for cell_for in (lambda *_: Cell(), lambda _, hidden_type: TritonCell(hidden_type)):
        monkeypatch.setattr(lstm_steps, "cell_for", cell_for)
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=autocast):
            ((outputs, cells),) = run_layers([module], [Reading(inputs, (4, 3, 2), h, c)])
        total = outputs.square().sum() + (cells * weights).sum()
        gradients = torch.autograd.grad(total, [inputs, *module.parameters()])
        results.append((outputs, cells, *gradients))
    for expected, found in zip(*results, strict=True):
        if autocast:  # a last bit of bfloat16 now and then
            torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)
        else:
            close(found, expected)


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from elmokit.nn import triton_cell

for kernel, pointers in ((triton_cell._forward, 4), (triton_cell._backward, 7)):
    names = kernel.arg_names
    signature = dict.fromkeys(names, "constexpr")
    signature |= dict.fromkeys(names[:pointers], "*fp32") | {"cell_dim": "i32", "clip": "fp32"}
    signature |= {name: "*bf16" for name in ("recurrent", "by_hidden") if name in names}
    constants = {(names.index(name),): True for name in names if name.startswith("HAS_")}
    constants[(names.index("BLOCK"),)] = 512
    compiled = triton.compile(
        ASTSource(kernel, signature, constants), target=GPUTarget("cuda", 90, 32)
    )
    print(compiled.asm["ptx"].count(".entry"))
"""


@pytest.mark.slow
def test_kernels_compile_for_a_gpu_that_is_not_here(tmp_path):
    surroundings = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE],
        env=surroundings | {"TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["1"] * 2, done.stderr
