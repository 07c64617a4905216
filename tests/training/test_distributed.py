import datetime

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing

from elmokit.errors import ConfigError, OutputError
from elmokit.training import distributed, pretrain
from elmokit.training.distributed import Processes, joined
from training.runs import (
    assert_same,
    assert_same_run,
    models,
    records,
    run_as_one_of_two,
    saved,
    two_processes_config,
    write_corpus,
)

ALONE = Processes(0, 1, torch.device("cpu"))


def test_a_process_alone_waits_for_nobody():
    gradient = torch.sparse_coo_tensor([[0]], [[1.0]], (2, 1), check_invariants=False)
    ALONE.wait()
    assert ALONE.is_first
    assert (ALONE.gather(3), ALONE.share("x"), ALONE.mean([1.0, 2.0])) == ([3], "x", [1.0, 2.0])
    assert (ALONE.any(True), ALONE.any(False)) == (True, False)
    assert ALONE.mean_rows(gradient) is gradient


def test_without_torchrun_a_process_is_alone():
    with joined("cpu") as processes:
        assert processes == ALONE
        assert not dist.is_initialized()


def test_an_unknown_device_is_told():
    with pytest.raises(ConfigError, match="device: 'gpu' cannot be used here"), joined("gpu"):
        pass


@pytest.mark.parametrize(("name", "backend"), [("cpu", "gloo"), ("cuda", "nccl")])
def test_torchrun_decides_who_takes_part(monkeypatch, name, backend):
    said = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(dist, "is_initialized", lambda: bool(said))
    monkeypatch.setattr(dist, "init_process_group", lambda *a, **s: said.append((a, s)))
    monkeypatch.setattr(dist, "destroy_process_group", lambda: said.append("left"))
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(distributed, "find_device", torch.device)
    monkeypatch.setattr(torch.cuda, "set_device", said.append)
    with joined(name) as processes:
        assert (processes.rank, processes.world_size) == (1, 2)
        assert processes.device == torch.device("cuda:1" if name == "cuda" else "cpu")
        assert not processes.is_first
    assert ((backend,), {"timeout": datetime.timedelta(days=1)}) in said
    assert said[-1] == "left"
    assert (torch.device("cuda:1") in said) == (name == "cuda")


# Two processes


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What two processes made, and in `one` what one process makes of twice the rows."""
    folder = write_corpus(tmp_path_factory.mktemp("both"), lengths=range(7, 8))
    torch.multiprocessing.spawn(run_as_one_of_two, (folder,), nprocs=2)
    pretrain.pretrain(two_processes_config(folder, folder / "one", schedule__batch_size=4))
    return folder


TOLERANCE = 1e-4
"""Of two processes against one with twice the rows: float32 sums in another order."""


def test_two_processes_learn_as_one_with_twice_the_rows(both):
    found, expected = records(both / "straight"), records(both / "one")
    assert len(found) == len(expected) > 16
    for line, other in zip(found, expected, strict=True):
        assert (line["kind"], line["step"]) == (other["kind"], other["step"])
        names = ("loss_forward", "loss_backward") if line["kind"] == "train" else ("mean",)
        for name in names:
            assert line[name] == pytest.approx(other[name], rel=TOLERANCE)
    for name, tensor in models(both / "one").items():
        torch.testing.assert_close(models(both / "straight")[name], tensor, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["straight", "cut"])
def test_both_processes_have_the_same_weights(both, name):
    first, second = (torch.load(both / f"{name}-{rank}.pt") for rank in (0, 1))
    assert_same(first, second)
    assert_same(first, saved(both / name)["model"])


def test_two_processes_go_on_as_if_they_had_not_stopped(both):
    assert_same_run(both / "cut", both / "whole")


def test_each_process_has_its_own_share_of_the_text(both):
    first, second = (own["stream"] for own in saved(both / "straight")["ranks"])
    assert (first["rank"], second["rank"]) == (0, 1)
    assert first["forward"]["places"] != second["forward"]["places"]


def test_another_number_of_processes_is_refused(both):
    with pytest.raises(OutputError) as caught:
        pretrain.pretrain(two_processes_config(both, both / "straight"), resume=True)
    assert str(caught.value) == (
        f"{both / 'straight'}: cannot resume with other settings (processes: 2 -> 1); start as "
        "many processes as before"
    )
