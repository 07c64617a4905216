"""What `layers` and `placement` share, and what each of them compares."""

import dataclasses

import pytest

from analysis.sweep_data import FakeTraining, base, write_data
from elmokit.analysis import runs
from elmokit.analysis.comparison import WITHOUT, Arm, compare
from elmokit.analysis.layers import compare_layers
from elmokit.analysis.output import write_report
from elmokit.analysis.placement import compare_places
from elmokit.analysis.runs import Sweep
from elmokit.errors import ConfigError

SCORES = {("none", 1): 0.5, ("none", 2): 0.7, ("output", 1): 0.9, ("output", 2): 0.8}


@pytest.fixture
def folder(tmp_path):
    write_data(tmp_path)
    return tmp_path


@pytest.fixture
def fake(monkeypatch):
    fake = FakeTraining(lambda config: [SCORES.get((config.elmo.at, config.seed), 0.6)])
    monkeypatch.setattr(runs, "train_task", fake)
    return fake


def test_scores_are_summed_up_over_seeds(folder, fake):
    task, config = base(folder)
    arms = [WITHOUT, Arm(name="output", title="at the output", elmo={"at": "output"})]
    report = compare(Sweep(folder / "out", "x", task, config), config, arms, seeds=[1, 2])
    assert report.header == ("set-up", "dev accuracy", "lowest", "highest", "gain")
    assert report.rows == (
        ("without ELMo", "60.0", "50.0", "70.0", ""),
        ("at the output", "85.0", "80.0", "90.0", "+25.0"),
    )
    assert report.summary == (
        "tag: best is at the output, dev accuracy 85.0 %, +25.0 over without ELMo (2 seeds)"
    )
    [_, output] = report.data["arms"]
    assert output["score"] == {"mean": pytest.approx(0.85), "lowest": 0.8, "highest": 0.9}
    assert [(run["seed"], run["score"]) for run in output["runs"]] == [(1, 0.9), (2, 0.8)]


def test_layers_differ_in_layers_and_lambda_alone(folder, monkeypatch):
    configs = {}
    fake = FakeTraining(lambda config: configs.update({config.run_dir: config}) or [0.5])
    monkeypatch.setattr(runs, "train_task", fake)
    task, config = base(folder)
    report = compare_layers(task, config, folder / "out", seeds=[7], lambdas=[1, 0.001])
    assert fake.names == ["none-seed-7", "last-seed-7", "all-1-seed-7", "all-0.001-seed-7"]
    assert [arm["name"] for arm in report.data["arms"]] == ["none", "last", "all-1", "all-0.001"]
    found = [*configs.values()]
    elmos = [(one.elmo.at, one.elmo.layers, one.elmo.l2) for one in found]
    assert elmos[0][0] == "none"
    assert elmos[1:] == [("input", "last", 0.001), ("input", "all", 1), ("input", "all", 0.001)]
    for one in found:
        alike = dataclasses.replace(one, elmo=config.elmo, run_dir="unused", cache=config.cache)
        assert alike == dataclasses.replace(config, seed=7)


def test_places(folder, fake):
    task, config = base(folder)
    report = compare_places(task, config, folder / "out", seeds=[1])
    assert [arm["elmo"]["at"] for arm in report.data["arms"]] == ["none", "input", "output", "both"]


def test_files_of_a_report(folder, fake):
    task, config = base(folder)
    report = compare_places(task, config, folder / "out", seeds=[1, 2])
    files = write_report(report, folder / "out")
    assert [path.name for path in files] == ["placement.json", "placement.png", "placement.svg"]
    assert files[1].read_bytes().startswith(b"\x89PNG")
    svg = files[2].read_text()
    for text in ("without ELMo", "at the output", "85.0", "dev accuracy, %"):
        assert text in svg


def test_what_cannot_be_compared(folder, fake):
    task, config = base(folder)

    def refused(**changes):
        asked = {"seeds": [1], "lambdas": [1.0], "config": config, **changes}
        with pytest.raises(ConfigError) as caught:
            compare_layers(task, asked.pop("config"), folder / "out", **asked)
        assert fake.calls == []
        return str(caught.value)

    assert refused(seeds=[]) == "seeds: give at least one"
    assert refused(seeds=[3, 3]) == "seeds: 3 stands there twice"
    assert refused(seeds=[-1]) == "seed: -1 must be 0 or more"
    assert refused(lambdas=[0.1, 0.1]) == "lambdas: 0.1 stands there twice"
    assert refused(lambdas=[-1.0]) == "l2: -1.0 must be 0 or more"
    without = dataclasses.replace(config, elmo=dataclasses.replace(config.elmo, at="none"))
    assert "elmo.at: none leaves nothing to compare" in refused(config=without)
