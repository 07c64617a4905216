import dataclasses
import json
import sys

import pytest

from analysis.sweep_data import FakeTraining, base, write_data
from elmokit.analysis import runs
from elmokit.analysis.layers import compare_layers
from elmokit.analysis.placement import compare_places
from elmokit.analysis.runs import Run, Sweep
from elmokit.errors import CheckpointError, InputError, MissingExtraError, OutputError
from elmokit.training import run_directory


@pytest.fixture
def folder(tmp_path):
    write_data(tmp_path)
    return tmp_path


def training(monkeypatch, fails_at=None):
    fake = FakeTraining(lambda config: [0.1, 0.2 + config.seed / 100], fails_at)
    monkeypatch.setattr(runs, "train_task", fake)
    return fake


def test_a_sweep_that_was_cut_off_trains_only_what_is_missing(folder, monkeypatch):
    task, config = base(folder)
    fake = training(monkeypatch, fails_at=4)
    with pytest.raises(RuntimeError):
        compare_places(task, config, folder / "out", seeds=[1, 2])
    kept = [name for name in fake.names if (folder / "out/runs" / name / "results.json").exists()]
    assert kept == ["none-seed-1", "input-seed-1", "output-seed-1"]

    again = training(monkeypatch)
    report = compare_places(task, config, folder / "out", seeds=[1, 2])
    others = [f"{arm}-seed-2" for arm in ("none", "input", "output", "both")]
    # The one that was begun is resumed, the others begin.
    assert again.calls == [("both-seed-1", True), *((name, False) for name in others)]
    assert [len(arm["runs"]) for arm in report.data["arms"]] == [2, 2, 2, 2]

    more = training(monkeypatch)
    compare_places(task, config, folder / "out", seeds=[2, 5])
    assert more.names == [f"{arm}-seed-5" for arm in ("none", "input", "output", "both")]
    assert not list((folder / "out").rglob("checkpoint.pt"))


def test_scores_go_by_the_epoch_that_a_line_of_the_log_tells(folder, monkeypatch):
    task, config = base(folder)
    training(monkeypatch)
    sweep = Sweep(folder / "out", "efficiency", task, config)
    sweep.train([Run(name="a", config=config)])
    log = sweep.place("a") / "log.jsonl"
    first, second = log.read_text().splitlines(keepends=True)
    scores = sweep.scores("a")
    assert scores == [json.loads(first)["accuracy"], json.loads(second)["accuracy"]]
    log.write_text(second + first.replace("0.1", "0.9") + first)
    assert sweep.scores("a") == scores
    for text in (first, first + second[:-9], first + "[]\n"):
        log.write_text(text)
        with pytest.raises(CheckpointError, match=r"log\.jsonl: does not tell .*; remove .*a, and"):
            sweep.scores("a")


def test_runs_share_layers_in_the_directory_or_where_the_settings_have_them(folder, monkeypatch):
    task, config = base(folder)
    seen = []
    fake = FakeTraining(lambda config: seen.append(config.cache.directory) or [0.5])
    monkeypatch.setattr(runs, "train_task", fake)
    Sweep(folder / "out", "layers", task, config).train([Run(name="a", config=config)])
    elsewhere = dataclasses.replace(
        config, cache=dataclasses.replace(config.cache, directory="elsewhere")
    )
    Sweep(folder / "out", "layers", task, elsewhere).train([Run(name="b", config=elsewhere)])
    assert seen == [str(folder / "out/layers"), "elsewhere"]


def test_other_settings_are_refused_by_name(folder, monkeypatch):
    task, config = base(folder)
    fake = training(monkeypatch)
    out = folder / "out"
    compare_places(task, config, out, seeds=[1])

    def refused(config, error=OutputError):
        with pytest.raises(error) as caught:
            compare_places(task, config, out, seeds=[1])
        return str(caught.value)

    message = refused(base(folder, epochs=9)[1])
    assert "cannot go on with other settings (fit.epochs: 2 -> 9); change them back" in message
    with (folder / "train.conll").open("a") as file:
        file.write("\nthe DET\n")
    assert "(data.train: has another content)" in refused(config)
    assert len(fake.calls) == 4


def test_settings_may_change_until_something_is_trained(folder, monkeypatch):
    task, config = base(folder)

    def fails(task, config, resume=False):
        raise InputError("dev has a label that training has not")

    monkeypatch.setattr(runs, "train_task", fails)
    with pytest.raises(InputError):
        compare_places(task, config, folder / "out", seeds=[1])
    fake = training(monkeypatch)
    compare_places(task, base(folder, epochs=9)[1], folder / "out", seeds=[1])
    assert len(fake.calls) == 4


def test_a_directory_of_something_else_is_refused(folder, monkeypatch):
    task, config = base(folder)
    training(monkeypatch)
    compare_places(task, config, folder / "out", seeds=[1])
    with pytest.raises(OutputError, match="holds placement of tag, not layers of tag; give"):
        compare_layers(task, config, folder / "out", seeds=[1])
    (folder / "mine" / "runs").mkdir(parents=True)
    with pytest.raises(OutputError, match="mine: holds other runs; give another folder"):
        compare_layers(task, config, folder / "mine", seeds=[1])
    with pytest.raises(OutputError, match="is a file; give a folder"):
        compare_layers(task, config, folder / "train.conll", seeds=[1])
    (folder / "out" / "sweep.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"sweep\.json: not complete JSON"):
        compare_places(task, config, folder / "out", seeds=[1])


def test_one_process_at_a_time(folder, monkeypatch):
    task, config = base(folder)
    fake = training(monkeypatch)
    (folder / "out").mkdir()
    with (
        run_directory.claimed(folder / "out"),
        pytest.raises(OutputError, match="another process"),
    ):
        compare_places(task, config, folder / "out", seeds=[1])
    assert fake.calls == []


def test_what_is_missing_shows_before_anything_is_trained(folder, monkeypatch):
    task, config = base(folder)
    fake = training(monkeypatch)

    def refused(error, **changes):
        config_ = dataclasses.replace(config, **changes)
        with pytest.raises(error) as caught:
            compare_places(task, config_, folder / "out", seeds=[1])
        return str(caught.value)

    data = config.data
    gone, piped = (dataclasses.replace(data, dev=dev) for dev in ("gone", "-"))
    assert refused(InputError, data=gone) == "gone: cannot be read: No such file or directory"
    assert "give a file" in refused(InputError, data=piped)
    assert "nomodel" in refused(
        CheckpointError, elmo=dataclasses.replace(config.elmo, model="nomodel")
    )
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert 'pip install "elmokit[analysis]"' in refused(MissingExtraError)
    assert fake.calls == []
    assert not (folder / "out").exists()


def test_the_file_of_the_sweep_says_what_its_runs_have_in_common(folder, monkeypatch):
    task, config = base(folder)
    training(monkeypatch)
    compare_places(task, config, folder / "out", seeds=[1])
    common = json.loads((folder / "out" / "sweep.json").read_text())
    assert (common["analysis"], common["task"]) == ("placement", "tag")
    assert common["settings"]["fit"]["epochs"] == 2
    assert set(common["contents"]) == {"data.train", "data.dev", "elmo.model"}
