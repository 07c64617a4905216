"""`elmo analyze` for task models: what a user sees, and can get wrong."""

import json
import sys

import pytest

from analysis.sweep_data import FakeTraining, settings, write_data
from elmokit.analysis import runs


@pytest.fixture
def folder(tmp_path):
    write_data(tmp_path)
    config = settings(tmp_path, epochs=1)
    del config["run_dir"]
    (tmp_path / "tag.yaml").write_text(json.dumps(config))  # JSON is YAML
    return tmp_path


def test_layers_from_the_table_to_the_figure_and_what_their_models_learnt(elmo, folder):
    command = ["analyze", "layers", "tag", "--config", folder / "tag.yaml", "-o", folder / "out"]
    first = elmo(*command, "--seeds", 1, "--lambdas", 0.5)
    assert first.code == 0, first.err
    header, *rows, summary, written = first.out.splitlines()
    assert header.split() == ["set-up", "dev", "accuracy", "lowest", "highest", "gain"]
    titles = ["without ELMo", "last layer", "all layers, lambda = 0.5"]
    assert [row.partition("  ")[0] for row in rows] == titles
    assert summary.startswith("tag: best is ")
    assert written.startswith("written: ")
    assert "run 3 of 3: all-0.5-seed-1\n" in first.err
    kept = {path: path.stat().st_mtime_ns for path in (folder / "out/runs").rglob("*")}

    again = elmo(*command, "--seeds", 1, "--lambdas", 0.5)
    assert again.out == first.out
    assert "run 3 of 3: all-0.5-seed-1, finished before\n" in again.err
    assert {path: path.stat().st_mtime_ns for path in (folder / "out/runs").rglob("*")} == kept
    report = json.loads((folder / "out" / "layers.json").read_text())
    assert len(report["arms"]) == 3
    assert (report["task"], report["examples"]) == ("tag", 20)
    assert len(report["model"]["sha256"]) == 64
    for suffix in ("png", "svg"):
        assert (folder / "out" / f"layers.{suffix}").stat().st_size > 1000

    model = folder / "out/runs/all-0.5-seed-1/model"
    shown = elmo("analyze", "weights", model)
    assert shown.code == 0, shown.err
    assert shown.out.splitlines()[1].startswith("all-0.5-seed-1, input  0.3")
    assert elmo("analyze", "weights", model, "-o", folder / "weights").code == 0
    assert (folder / "weights" / "weights.svg").exists()
    refused = elmo("analyze", "weights", model, "-o", folder / "weights")
    assert "use --overwrite" in refused.err


def test_places_and_sizes(elmo, folder, monkeypatch):
    monkeypatch.setattr(runs, "train_task", FakeTraining(lambda config: [0.5]))
    common = ["tag", "--config", folder / "tag.yaml", "--seeds", 1, 2]
    ran = elmo("analyze", "placement", *common, "-o", folder / "places")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[4].startswith("at both ")
    options = ["--fractions", 0.05, 0.5, "-o", folder / "sizes"]
    ran = elmo("analyze", "efficiency", *common, *options)
    assert ran.code == 0, ran.err
    assert [row.split()[0] for row in ran.out.splitlines()[1:4]] == ["1", "10", "20"]


def test_bad_input_is_one_line(refused, folder, monkeypatch):
    out = ["-o", folder / "out"]
    given = ["--config", folder / "tag.yaml", *out]
    assert "see elmo analyze layers --help" in refused("analyze", "layers", "tagg", *given)
    assert "data.train: is missing" in refused("analyze", "layers", "tag", *out)
    fractions = ["--fractions", "0.5", "1.5"]
    assert refused("analyze", "efficiency", "tag", *given, *fractions) == (
        "fractions: 1.5 must be above 0 and not above 1"
    )
    assert "(did you mean 'epochs'?)" in refused(
        "analyze", "placement", "tag", *given, "--set", "fit.epoch=3"
    )
    assert "leaves nothing to compare" in refused(
        "analyze", "layers", "tag", *given, "--elmo-at", "none"
    )
    assert "give at least one" in refused("analyze", "weights")
    assert "no task model" in refused("analyze", "weights", folder)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert 'pip install "elmokit[analysis]"' in refused("analyze", "layers", "tag", *given)


def test_a_directory_of_another_sweep_is_refused(elmo, refused, folder, monkeypatch):
    monkeypatch.setattr(runs, "train_task", FakeTraining(lambda config: [0.5]))
    given = ["tag", "--config", folder / "tag.yaml", "-o", folder / "out"]
    assert elmo("analyze", "placement", *given).code == 0
    assert refused("analyze", "layers", *given) == (
        f"{folder / 'out'}: holds placement of tag, not layers of tag; give another folder with -o"
    )
    assert "fit.epochs: 1 -> 5" in refused("analyze", "placement", *given, "--set", "fit.epochs=5")
