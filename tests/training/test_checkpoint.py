import pytest
import torch

from elmokit.errors import CheckpointError, OutputError
from elmokit.training import checkpoint
from elmokit.training.checkpoint import differences
from training.runs import assert_same, limited_files, make_config


@pytest.fixture
def config(tmp_path):
    return make_config(tmp_path, tmp_path)


CONTENT = {"step": 3, "model": {"a": torch.arange(5000.0)}, "ranks": [{"x": None, "y": [1, 2]}]}


def loaded(tmp_path, config):
    content = checkpoint.load(tmp_path, config)
    return {name: content[name] for name in CONTENT}


def refusal(tmp_path, config, error=CheckpointError):
    with pytest.raises(error) as caught:
        checkpoint.load(tmp_path, config)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_saved_is_loaded(tmp_path, config):
    checkpoint.save(tmp_path, config, CONTENT)
    assert_same(loaded(tmp_path, config), CONTENT)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_a_full_disk_keeps_the_last_one(tmp_path, config):
    checkpoint.save(tmp_path, config, CONTENT)
    with limited_files(10_000), pytest.raises(OutputError) as caught:
        checkpoint.save(tmp_path, config, {**CONTENT, "step": 4})
    assert str(caught.value) == (
        f"{tmp_path / 'checkpoint.pt'}: cannot be written (File too large); the last checkpoint is "
        "kept: free some space, then go on with --resume"
    )
    assert_same(loaded(tmp_path, config), CONTENT)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_a_disk_that_is_full_at_once_is_told(tmp_path, config):
    (tmp_path / "checkpoint.pt.tmp").symlink_to("/dev/full")
    with pytest.raises(OutputError, match=r"cannot be written \(No space left on device\)"):
        checkpoint.save(tmp_path, config, CONTENT)


def test_a_crash_leaves_the_last_one(tmp_path, config, monkeypatch):
    checkpoint.save(tmp_path, config, CONTENT)
    monkeypatch.setattr("elmokit.training.checkpoint.move_into_place", lambda *_: None)
    checkpoint.save(tmp_path, config, {**CONTENT, "step": 4})
    assert_same(loaded(tmp_path, config), CONTENT)


def test_there_must_be_one(tmp_path, config):
    assert refusal(tmp_path, config) == (
        f"{tmp_path / 'checkpoint.pt'}: there is no checkpoint to resume; start without --resume"
    )


def test_damage_is_told(tmp_path, config):
    checkpoint.save(tmp_path, config, CONTENT)
    path = tmp_path / "checkpoint.pt"
    whole = path.read_bytes()
    for damaged in (whole[:-100], whole[:40], b"", b"text", whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        found = refusal(tmp_path, config)
        assert found.startswith(f"{path}: truncated or damaged (")
        assert found.endswith("; begin a new run")


@pytest.mark.parametrize("content", [[1], {"step": 1}, {"version": 1}])
def test_something_else_is_told(tmp_path, config, content):
    torch.save(content, tmp_path / "checkpoint.pt")
    assert "truncated or damaged (" in refusal(tmp_path, config)


def test_a_program_in_it_is_not_run(tmp_path, config):
    class Evil:
        def __reduce__(self):
            return (tmp_path.joinpath("ran").touch, ())

    torch.save({"version": 1, "config": Evil()}, tmp_path / "checkpoint.pt")
    assert "truncated or damaged (" in refusal(tmp_path, config)
    assert not (tmp_path / "ran").exists()


def test_another_version_is_told(tmp_path, config):
    torch.save({"version": 9, "config": {}}, tmp_path / "checkpoint.pt")
    assert refusal(tmp_path, config).endswith("checkpoint.pt: version 9, this elmokit reads 1")


def test_changed_settings_are_listed(tmp_path, config):
    checkpoint.save(tmp_path, config, CONTENT)
    other = make_config(tmp_path, tmp_path, seed=3, model__filters=[[1, 2]], start={"model": "m"})
    assert refusal(tmp_path, other, OutputError) == (
        f"{tmp_path}: cannot resume with other settings (model.filters: [[1, 4], [2, 4]] -> "
        "[[1, 2]]; seed: 0 -> 3; start.model: None -> m; start.softmax: None -> keep; "
        "start.train_bilm: None -> True); change them back, or begin a new run with another run_dir"
    )


def test_some_settings_may_change(tmp_path, config):
    checkpoint.save(tmp_path, config, CONTENT)
    schedule = {"steps": 7, "epochs": 2, "evaluate_every": 3, "checkpoint_every": 4}
    changes = {f"schedule__{name}": value for name, value in schedule.items()}
    others = {"schedule__log_every": 5, "schedule__patience": 6, "tensorboard": True}
    other = make_config(tmp_path, tmp_path / "x", device="auto", threads=None, **changes, **others)
    assert_same(loaded(tmp_path, other), CONTENT)


def test_lists_and_tuples_are_the_same():
    assert not differences({"a": ((1, 2), 3)}, {"a": [[1, 2], 3]})
    assert differences({"a": [1]}, {"a": [1.5]}) == ["a: [1] -> [1.5]"]
