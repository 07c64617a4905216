import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from analysis.sweep_data import settings, write_data
from elmokit.analysis.output import write_report
from elmokit.analysis.weights import read_weights
from elmokit.errors import CheckpointError, ConfigError
from elmokit.tasks import saved
from elmokit.tasks.registry import get_task
from elmokit.tasks.run import train

EVEN = 0.01
"""How far weights may be from a third that a large lambda holds there."""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Name -> directory of a model, trained for some steps."""
    folder = tmp_path_factory.mktemp("models")
    write_data(folder)
    found = {}
    for name, elmo in {
        "free": {"l2": 0.0},
        "held": {"l2": 1000.0},
        "both": {"at": "both"},
        "last": {"layers": "last"},
        "none": {"at": "none"},
    }.items():
        data = settings(folder, epochs=4)
        data["elmo"] |= elmo
        task = get_task("tag")
        train(task, task.config.from_dict(data | {"run_dir": str(folder / name)}))
        found[name] = folder / name / "model"
    return found


def test_a_large_lambda_makes_weights_equal(models):
    held, free = (read_weights([models[name]]).data["mixes"][0] for name in ("held", "free"))
    assert held["weights"] == pytest.approx([1 / 3] * 3, abs=EVEN)
    assert np.abs(np.array(free["weights"]) - 1 / 3).max() > 5 * EVEN  # without it they are not
    assert sum(free["weights"]) == pytest.approx(1)


def test_weights_are_those_of_the_model_place_by_place(models):
    report = read_weights([models["both"]])
    elmo = saved.load(models["both"], device="cpu").model.elmo
    for mix, (place, learnt) in zip(report.data["mixes"], elmo.mix_weights().items(), strict=True):
        assert (mix["place"], mix["layers"], mix["task"]) == (place, [0, 1, 2], "tag")
        assert mix["weights"] == pytest.approx(learnt["weights"])
        assert mix["gamma"] == pytest.approx(learnt["gamma"])
    assert [row[0] for row in report.rows] == ["both, input", "both, output"]


def test_several_models_and_layers_that_are_not_mixed(models, tmp_path):
    report = read_weights([models["last"], models["free"]])
    assert report.header == ("model", "layer 0", "layer 1", "layer 2", "gamma")
    assert report.rows[0][:4] == ("last, input", "", "", "1.000")
    assert report.rows[1][1] == f"{report.data['mixes'][1]['weights'][0]:.3f}"
    files = write_report(report, tmp_path / "out")
    assert [path.name for path in files] == ["weights.json", "weights.png", "weights.svg"]
    assert json.loads(files[0].read_text())["mixes"][0]["layers"] == [2]
    svg = files[2].read_text()
    for text in ("last, input", "free, input", "layer 2", "1.00", "gamma"):
        assert text in svg


def test_no_bilm_is_needed(models, tmp_path):
    shutil.copytree(models["free"], tmp_path / "moved")
    path = tmp_path / "moved" / "config.json"
    data = json.loads(path.read_text())
    data["config"]["elmo"]["model"] = "gone"
    path.write_text(json.dumps(data))
    assert read_weights([tmp_path / "moved"]).rows[0][0] == "moved, input"


def test_models_that_have_no_weights_to_show(models, tmp_path):
    def refused(*paths, error=CheckpointError):
        with pytest.raises(error) as caught:
            read_weights(paths)
        return str(caught.value)

    assert "reads no ELMo (elmo.at: none); give a model" in refused(models["none"])
    assert "reads no ELMo" in refused(models["free"], models["none"])
    assert "no task model: config.json is missing" in refused(tmp_path)
    assert refused(error=ConfigError) == (
        "models: give at least one directory of a trained task model"
    )
    broken = tmp_path / "broken"
    shutil.copytree(models["free"], broken)
    tensors = load_file(broken / "model.safetensors")
    save_file(tensors | {"elmo.mixes.input.weights": torch.zeros(2)}, broken / "model.safetensors")
    assert "holds no mix of 3 layers for the input" in refused(broken)
    (broken / "model.safetensors").write_bytes(b"xx")
    assert "truncated or damaged" in refused(broken)
