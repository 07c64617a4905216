"""The directory of a task's run; what is in it is tested with every task."""

import dataclasses
import shutil

import pytest
import torch
from safetensors.torch import load_file

from builders import char_bilm
from elmokit.errors import CheckpointError, OutputError
from elmokit.nn.threads import threads
from elmokit.tasks import saved
from elmokit.tasks.registry import get_task
from elmokit.tasks.run import evaluate_file, predict_file, train
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


@pytest.mark.parametrize("trainable", [False, True])
def test_a_run_goes_on_from_what_it_began_with_alone(tmp_path, start, trainable):
    place, model = tmp_path / "train.conll", tmp_path / "elmo"
    begun = place.read_text()
    char_bilm().save_pretrained(model)
    elmo = {"model": str(model), "trainable": trainable}
    start(elmo=elmo)

    def refused():
        with pytest.raises(OutputError) as caught:
            start(resume=True, elmo=elmo, fit={"epochs": 2})
        return str(caught.value)

    place.write_text(begun.replace("Ada", "Eva"))  # as many words
    files = "data.train: has another content; data.dev: has another content"
    assert f"biLM ({files}; words and labels: has another content); put them back" in refused()
    place.write_text(f"{begun}new X O\n")
    assert "words and labels" in refused()
    place.write_text(begun)
    shutil.rmtree(model)
    char_bilm(seed=1).save_pretrained(model)
    assert "(elmo.model: has another content)" in refused()
    shutil.rmtree(model)
    char_bilm().save_pretrained(model)
    assert start(resume=True, elmo=elmo, fit={"epochs": 2})["epochs"] == 2


def test_a_run_of_an_elmokit_that_noted_no_contents(tmp_path, run_dir, start):
    start()
    content = torch.load(run_dir / "checkpoint.pt", weights_only=True)
    del content["contents"]
    torch.save(content, run_dir / "checkpoint.pt")
    place = tmp_path / "train.conll"
    begun = place.read_text()
    place.write_text(f"{begun}new X O\n")
    with pytest.raises(CheckpointError, match="its tensors do not fit the model"):
        start(resume=True, fit={"epochs": 2})
    place.write_text(begun)
    assert start(resume=True, fit={"epochs": 2})["epochs"] == 2


def test_the_model_of_the_best_epoch_is_kept(tmp_path, run_dir, start, monkeypatch):
    start(fit={"epochs": 2}, run_dir=str(tmp_path / "shorter"))
    second = torch.load(tmp_path / "shorter" / "checkpoint.pt", weights_only=True)["model"]
    scores = iter([0.2, 0.9, 0.1])
    monkeypatch.setattr("elmokit.tasks.fit.evaluate", lambda *_: {"f1": next(scores)})
    results = start(fit={"epochs": 3})
    assert (results["best_epoch"], results["score"]) == (2, 0.9)
    kept = load_file(run_dir / "model" / "model.safetensors")
    assert all(torch.equal(kept[name], tensor) for name, tensor in second.items())


def test_a_trained_model_takes_the_threads_that_torch_has(tmp_path, run_dir, start):
    start(threads=1)
    source = str(tmp_path / "train.conll")
    with threads(2):
        trained = saved.load(run_dir / "model", device="cpu")
        assert evaluate_file(trained, source)["environment"]["threads"] == 2
        work, seen = trained.model.predict, []
        trained.model.predict = lambda some: seen.append(torch.get_num_threads()) or work(some)
        predict_file(trained, source, tmp_path / "out")
        assert set(seen) == {2}


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig"])
def test_predictions_have_the_encoding_of_the_source(tmp_path, start, run_dir, encoding):
    place = tmp_path / "train.conll"
    place.write_text(place.read_text(encoding="utf-8").replace("Ada", "Zoë"), encoding=encoding)
    start(data={"train": str(place), "dev": str(place), "encoding": encoding})
    trained, output = saved.load(run_dir / "model", device="cpu"), tmp_path / "out.conll"
    predict_file(trained, str(place), output)
    assert "Zoë" in output.read_text(encoding=encoding)
    assert evaluate_file(trained, str(output))["skipped"] == 0


def test_what_cannot_be_written_is_named(tmp_path, start, run_dir):
    start()
    trained = saved.load(run_dir / "model", device="cpu")
    data = dataclasses.replace(trained.config.data, encoding="latin-1")
    trained = dataclasses.replace(trained, config=dataclasses.replace(trained.config, data=data))
    trained.model.predict = lambda items: [("B-ИМЯ",) for _ in items]
    plain = tmp_path / "plain"
    plain.write_text("Ann\n", encoding="latin-1")
    with pytest.raises(OutputError, match=r"out: .* cannot be written in latin-1 \(data.encoding"):
        predict_file(trained, str(plain), tmp_path / "out", format="text")
    for act in (predict_file, evaluate_file):
        with pytest.raises(OutputError, match=r"is not compressed; give a name without \.gz"):
            act(trained, str(plain), tmp_path / "out.gz")
    assert not list(tmp_path.glob("out*"))


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
