"""The benchmark for a GPU, tried without one."""

import json
import sys
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def gpu(monkeypatch):
    """The script as a module; it and those beside it are forgotten afterwards."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import gpu

    threads = torch.get_num_threads()
    yield gpu
    torch.set_num_threads(threads)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(BENCHMARKS)):
            del sys.modules[name]


def test_without_a_gpu_it_says_so(gpu, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as caught:
        gpu.main(gpu.Settings())
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert not out
    assert err == "gpu.py: there is no GPU here; try it with --device cpu --quick\n"


def test_a_quick_run_measures_all_and_agrees_with_the_cpu(gpu, capsys, tmp_path):
    gpu.main(gpu.Settings(device="cpu", quick=True, output=tmp_path / "report.json"))
    report = json.loads((tmp_path / "report.json").read_text())
    loop, fp32, bf16 = report["embedding"]
    assert loop["contender"].startswith("per-step loop")
    assert (fp32["precision"], bf16["precision"]) == ("fp32", "bf16")
    assert loop["difference"] < 1e-5  # the restatement is the same network
    assert fp32["difference"] < 1e-6
    assert bf16["least_cosine"] > 0.99
    assert [row["precision"] for row in report["training"]] == ["fp32", "bf16"]
    rows = report["embedding"] + report["training"]
    assert all(row["tokens_per_second"] > 0 and row["share"] > 0 for row in rows)
    printed = capsys.readouterr().out
    assert "| small | per-step loop, batch 64 | fp32 |" in printed


def test_vectors_that_differ_fail_the_run(gpu, monkeypatch):
    row = {"model": "small", "contender": "per-step loop", "precision": "fp32", "share": 0.1}
    row |= {"tokens_per_second": 1.0, "difference": 0.1, "least_cosine": 1.0, "peak_mib": None}
    monkeypatch.setattr(gpu, "embedding_rows", lambda *_: [row])
    monkeypatch.setattr(gpu, "training_rows", lambda *_: [])
    with pytest.raises(SystemExit, match=r"vectors differ from the CPU's by more than 0\.001"):
        gpu.main(gpu.Settings(device="cpu", quick=True))
