import sys
from types import SimpleNamespace

import pytest
import torch

from elmokit.nn import cell as module
from elmokit.nn.cell import Cell, cell_for

ON_GPU = SimpleNamespace(is_cuda=True, dtype=torch.float32, device=torch.device("cpu"))
"""What is asked of a tensor on a GPU; the kernels are tried out where `device` says."""


class Kernels(Cell):
    """Stands for the cell of kernels."""

    def __init__(self, hidden_type):
        self.hidden_type = hidden_type


class Broken(Kernels):
    def forward(self, *arguments):
        raise RuntimeError("Failed to find C compiler.\nPlease specify one.")


@pytest.fixture
def triton(monkeypatch):
    """Sets what `elmokit.nn.triton_cell` holds; None if it cannot be imported."""
    monkeypatch.setattr(module, "_kernels", module._kernels.__wrapped__)

    def install(kernels):
        found = kernels and SimpleNamespace(TritonCell=kernels)
        monkeypatch.setitem(sys.modules, "elmokit.nn.triton_cell", found)

    return install


def test_kernels_are_for_float32_on_a_gpu(triton):
    triton(Kernels)
    found = cell_for(ON_GPU, torch.bfloat16)
    assert type(found) is Kernels
    assert found.hidden_type == torch.bfloat16
    double = SimpleNamespace(is_cuda=True, dtype=torch.float64, device=ON_GPU.device)
    assert type(cell_for(double, torch.float64)) is Cell
    assert type(cell_for(torch.zeros(1), torch.float32)) is Cell


def test_without_triton_torch_computes(triton, caplog):
    triton(None)
    assert type(cell_for(ON_GPU, torch.float32)) is Cell
    assert not caplog.messages


def test_where_kernels_fail_torch_computes_and_says_so(triton, caplog):
    triton(Broken)
    assert type(cell_for(ON_GPU, torch.float32)) is Cell
    assert caplog.messages == [
        "cpu: LSTMs run without Triton's kernels, more slowly: Failed to find C compiler."
    ]
