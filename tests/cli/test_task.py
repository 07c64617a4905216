"""`elmo task`: what a user can get wrong. What it does is tested with every task."""

import shutil

import pytest

from elmokit.tasks.registry import get_task
from elmokit.tasks.run import train
from tasks.test_ner import SMALL, content


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    place = tmp_path_factory.mktemp("data") / "train.conll"
    place.write_text(content("IOB2"), encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def trained(data):
    """The directory of a model."""
    task = get_task("ner")
    config = {
        "run_dir": str(data.parent / "run"),
        "data": {"train": str(data), "dev": str(data)},
        "model": SMALL,
        "elmo": {"at": "none"},
        "fit": {"epochs": 1},
        "device": "cpu",
    }
    train(task, task.config.from_dict(config))
    return data.parent / "run" / "model"


def test_a_group_needs_a_command(refused):
    assert refused("task") == "task: give train, eval or predict; see elmo task --help"
    assert "unknown command 'trian' (did you mean 'train'?)" in refused("task", "trian")
    assert "see elmo task eval --help" in refused("task", "eval", "nerr", "m", "d")


def test_help_of_a_group_and_its_commands(elmo):
    for arguments in (["task", "--help"], ["task", "predict", "--help"]):
        ran = elmo(*arguments)
        assert ran.code == 0
        assert "elmo task" in ran.out


def test_settings_of_a_run(refused, data, tmp_path):
    run = ["task", "train", "ner", "-o", tmp_path / "run"]
    assert refused(*run) == "data.train: is missing; give a file with --train"
    assert "data.dev: is missing" in refused(*run, "--train", data)
    files = ["--train", data, "--dev", data]
    assert "(did you mean 'epochs'?)" in refused(*run, *files, "--set", "fit.epoch=3")
    assert "expected int" in refused(*run, *files, "--set", "fit.epochs=x")
    assert "nofile: cannot be read" in refused(*run, "--train", "nofile", "--dev", data)
    assert "there is no layer 9" in refused(*run, *files, "--set", "elmo.layers=9")
    assert "holds no run to resume" in refused(*run, *files, "--resume")
    assert "nomodel" in refused(*run, *files, "--elmo", "nomodel")


def test_a_yaml_file_and_options_that_win_over_it(elmo, data, tmp_path):
    config = tmp_path / "ner.yaml"
    config.write_text(
        f"data: {{train: {data}, dev: nofile}}\nfit: {{epochs: 1}}\nelmo: {{at: both}}\n"
        "model: {hidden_dim: 8, num_layers: 1, tokens: {word_dim: 4, character_filters: 4}}\n"
    )
    run = tmp_path / "run"
    ran = elmo(
        *("task", "train", "ner", "-o", run, "--config", config, "--dev", data),
        *("--elmo-at", "none", "--set", "device=cpu"),
    )
    assert ran.code == 0, ran.err
    assert ran.out.startswith(f"{run / 'model'}: dev f1 ")
    assert "no ELMo" in ran.err


def test_models_that_cannot_be_used(refused, trained, data, tmp_path):
    assert "no task model: config.json is missing" in refused("task", "eval", "ner", "x", data)
    assert "is a model for ner, not for tag" in refused("task", "eval", "tag", trained, data)
    for name, damage, message in (
        ("lists.json", b"{}", "lists.json: the list 'words' is missing"),
        ("lists.json", b'{"words": 3}', "expected a list"),
        ("model.safetensors", b"xx", "truncated or damaged"),
        ("config.json", b"[1", "not complete JSON"),
        ("config.json", b'{"schema_version": 9}', "is newer than this elmokit reads"),
        ("config.json", b'{"schema_version": 1, "task": "nr"}', "did you mean 'ner'?"),
    ):
        broken = tmp_path / "broken"
        shutil.copytree(trained, broken)
        (broken / name).write_bytes(damage)
        assert message in refused("task", "eval", "ner", broken, data)
        shutil.rmtree(broken)


def test_places_of_predictions(refused, elmo, trained, data, tmp_path):
    command = ["task", "predict", "ner", trained, data, "--device", "cpu", "-o"]
    assert "its folder does not exist" in refused(*command, tmp_path / "no" / "out")
    (tmp_path / "out").write_text("kept")
    assert "exists; give another file, or --overwrite" in refused(*command, tmp_path / "out")
    assert elmo(*command, tmp_path / "out", "--overwrite").code == 0
    assert (tmp_path / "out").read_text().startswith("-DOCSTART-")
    assert "takes settings of data. only" in refused(
        *command, tmp_path / "new", "--set", "fit.epochs=2"
    )
