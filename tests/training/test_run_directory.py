import errno
from pathlib import Path

import pytest

from builders import char_bilm
from elmokit import BiLM
from elmokit.errors import CheckpointError, OutputError
from elmokit.training import run_directory
from training.runs import make_config

MODEL_FILES = {"config.json", "model.safetensors", "characters.json"}


def names(folder):
    return {path.name for path in folder.iterdir()}


def refusal(run_dir, config):
    with pytest.raises(OutputError) as caught:
        run_directory.begin(run_dir, config)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_run_begins_with_its_settings(tmp_path):
    config = make_config(tmp_path, tmp_path / "deep" / "run")
    run_directory.begin(tmp_path / "deep" / "run", config)
    assert names(tmp_path / "deep" / "run") == {"run.json"}
    settings = run_directory.read_settings(tmp_path / "deep" / "run")
    assert type(config).from_dict(settings) == config


def test_a_run_that_has_learnt_nothing_may_begin_again(tmp_path):
    config = make_config(tmp_path, tmp_path / "run")
    run_directory.begin(tmp_path / "run", config)
    (tmp_path / "run" / "vocab.txt").touch()
    run_directory.begin(tmp_path / "run", make_config(tmp_path, tmp_path / "run", seed=1))
    assert run_directory.read_settings(tmp_path / "run")["seed"] == 1


@pytest.mark.parametrize("name", ["checkpoint.pt", "model", "model.old"])
def test_a_run_is_not_begun_over_another(tmp_path, name):
    config = make_config(tmp_path, tmp_path)
    run_directory.begin(tmp_path, config)
    (tmp_path / name).touch()
    assert refusal(tmp_path, config) == (
        f"run_dir: {tmp_path} holds a run ({name}); go on with it by --resume, or give another "
        "run_dir"
    )


@pytest.mark.parametrize("name", ["vocab.txt", "log.jsonl", "corpus", "heldout", "last"])
def test_files_of_others_are_not_overwritten(tmp_path, name):
    (tmp_path / name).write_text("mine")
    assert refusal(tmp_path, make_config(tmp_path, tmp_path)) == (
        f"run_dir: {tmp_path / name} exists and would be overwritten; give another run_dir"
    )
    assert names(tmp_path) == {name}


def test_other_files_may_lie_beside(tmp_path):
    (tmp_path / "config.yaml").write_text("mine")
    run_directory.begin(tmp_path, make_config(tmp_path, tmp_path))
    assert names(tmp_path) == {"config.yaml", "run.json"}


@pytest.mark.parametrize("place", ["", "run", "deep/run"])
def test_a_run_does_not_write_into_the_model_it_starts_from(tmp_path, place):
    char_bilm().save_pretrained(tmp_path / "source")
    run_dir = tmp_path / "source" / place
    config = make_config(tmp_path, run_dir, start={"model": str(tmp_path / "source")})
    assert refusal(run_dir, config) == (
        f"run_dir: {run_dir} lies in the model to start from, which is never written to; give "
        "another run_dir"
    )
    assert names(tmp_path / "source") == MODEL_FILES


def test_a_missing_start_model_is_told_before_anything_is_made(tmp_path):
    config = make_config(tmp_path, tmp_path / "run", start={"model": str(tmp_path / "none")})
    with pytest.raises(CheckpointError, match="none: no such file or directory"):
        run_directory.begin(tmp_path / "run", config)
    assert not (tmp_path / "run").exists()


def test_a_directory_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()
    run_dir = tmp_path / "file" / "run"
    assert refusal(run_dir, make_config(tmp_path, run_dir)) == (
        f"run_dir: {run_dir} cannot be written: Not a directory"
    )


def test_a_file_is_no_directory(tmp_path):
    (tmp_path / "file").touch()
    assert refusal(tmp_path / "file", make_config(tmp_path, tmp_path)) == (
        f"run_dir: {tmp_path / 'file'} is a file; give the name of a folder"
    )


def test_one_process_at_a_time_works_in_a_directory(tmp_path):
    config = make_config(tmp_path, tmp_path / "run")
    run_directory.begin(tmp_path / "run", config)
    with run_directory.claimed(tmp_path / "run"):
        other = make_config(tmp_path, tmp_path / "run", seed=1)
        assert refusal(tmp_path / "run", other) == (
            f"run_dir: another process trains in {tmp_path / 'run'}; wait for its end, or give "
            "another run_dir"
        )
        assert run_directory.read_settings(tmp_path / "run")["seed"] == 0
    with run_directory.claimed(tmp_path / "run"):
        pass
    assert names(tmp_path / "run") == {"run.json"}


def test_a_file_system_without_locks_will_do(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with run_directory.claimed(tmp_path), run_directory.claimed(tmp_path):
        pass


def test_where_a_relative_path_counts_from_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError) as caught:
        run_directory.read_settings(Path("run"))
    assert str(caught.value) == (
        "run_dir: run holds no run to resume; start without --resume, or where the run began: "
        f"relative paths count from {tmp_path} now"
    )


def test_there_must_be_a_run(tmp_path):
    with pytest.raises(CheckpointError) as caught:
        run_directory.read_settings(tmp_path)
    assert str(caught.value) == (
        f"run_dir: {tmp_path} holds no run to resume; start without --resume"
    )


def test_a_model_takes_the_place_of_another(tmp_path):
    for seed in (0, 1):
        run_directory.write_model(char_bilm(seed), tmp_path)
    assert names(tmp_path) == {"model"}
    found = BiLM.from_pretrained(tmp_path / "model").network.state_dict()
    for name, tensor in char_bilm(1).network.state_dict().items():
        assert found[name].equal(tensor)


def test_what_a_killed_process_left_is_cleared_away(tmp_path):
    for name in ("model.new", ".model.new.0a.part", "corpus/preparing-x", "heldout/preparing-y"):
        (tmp_path / name / "deep").mkdir(parents=True)
    for name in ("checkpoint.pt.tmp", "log.jsonl.tmp", "mine.new", "mine.tmp"):
        (tmp_path / name).touch()
    run_directory.tidy(tmp_path)
    assert names(tmp_path) == {"corpus", "heldout", "mine.new", "mine.tmp"}
    assert not names(tmp_path / "corpus") | names(tmp_path / "heldout")


@pytest.mark.parametrize("name", ["model", "last"])
def test_a_model_that_was_on_its_way_out_comes_back(tmp_path, name):
    run_directory.write_model(char_bilm(), tmp_path, name)
    (tmp_path / name).rename(tmp_path / f"{name}.old")
    run_directory.tidy(tmp_path)
    assert names(tmp_path) == {name}
    (tmp_path / f"{name}.old").mkdir()
    run_directory.tidy(tmp_path)
    assert names(tmp_path) == {name}
    assert names(tmp_path / name) == MODEL_FILES
