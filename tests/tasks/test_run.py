"""The directory of a task's run; what is in it is tested with every task."""

import pytest

from elmokit.errors import OutputError
from elmokit.tasks.registry import get_task
from elmokit.tasks.run import train
from elmokit.training import run_directory
from tasks.test_ner import SMALL, content


@pytest.fixture
def run_dir(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def start(tmp_path, run_dir):
    """Begins a run, or goes on with it."""
    place = tmp_path / "train.conll"
    place.write_text(content("IOB2"), encoding="utf-8")

    def start(*, resume=False, **changes):
        task = get_task("ner")
        config = {
            "run_dir": str(run_dir),
            "data": {"train": str(place), "dev": str(place)},
            "model": SMALL,
            "elmo": {"at": "none"},
            "fit": {"epochs": 1},
            "device": "cpu",
        }
        return train(task, task.config.from_dict(config | changes), resume=resume)

    return start


def test_one_run_at_a_time_works_in_a_directory(run_dir, start):
    run_dir.mkdir()
    with (
        run_directory.claimed(run_dir),
        pytest.raises(OutputError, match="another process trains in"),
    ):
        start()
    assert list(run_dir.iterdir()) == []
    start()
    finished = {path.name: path.stat().st_mtime_ns for path in run_dir.iterdir()}
    with (
        run_directory.claimed(run_dir),
        pytest.raises(OutputError, match="another process trains in"),
    ):
        start(resume=True, fit={"epochs": 2})
    assert {path.name: path.stat().st_mtime_ns for path in run_dir.iterdir()} == finished


def test_a_run_keeps_others_out_while_it_learns(run_dir, start, monkeypatch):
    refused = []

    def evaluate(trained, items):
        with pytest.raises(OutputError, match="another process trains in"):
            start(resume=True)
        refused.append(1)
        return {"f1": 0.5}

    monkeypatch.setattr("elmokit.tasks.fit.evaluate", evaluate)
    start()
    assert refused == [1]
    with run_directory.claimed(run_dir):  # it is free again
        pass


def test_a_run_is_not_begun_over_another(run_dir, start):
    start()
    with pytest.raises(OutputError, match=r"holds a run \(checkpoint.pt\); go on with it by --res"):
        start()


@pytest.mark.parametrize("name", ["log.jsonl", "results.json"])
def test_files_of_others_are_not_overwritten(run_dir, start, name):
    run_dir.mkdir()
    (run_dir / name).write_text("mine")
    with pytest.raises(OutputError, match=f"{name} exists and would be overwritten"):
        start()
    assert (run_dir / name).read_text() == "mine"


def test_a_run_that_was_cut_off_before_its_first_checkpoint(run_dir, start):
    start()
    (run_dir / "checkpoint.pt").unlink()
    with pytest.raises(OutputError, match=r"holds a run \(model\)"):
        start()
    with pytest.raises(OutputError, match="cannot resume with other settings"):
        start(resume=True, seed=1)
    assert start(resume=True)["epochs"] == 1
