import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.multiprocessing

from elmokit.errors import CheckpointError, OutputError
from elmokit.training import checkpoint, opening, pretrain, run_directory
from elmokit.training.trainer import Trainer
from training.runs import (
    Cut,
    assert_same,
    assert_same_run,
    make_config,
    records,
    saved,
    write_corpus,
)

KINDS = {
    "adagrad": {},
    "adamw": {"optimizer__name": "adamw", "optimizer__learning_rate": 0.01},
    "full": {
        "objective__num_negatives": None,
        "model__num_layers": 2,
        "optimizer__decay": "cosine",
        "optimizer__warmup_steps": 3,
        "schedule__accumulate": 1,
    },
}


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def straight(text, tmp_path_factory):
    """Runs that were never cut off, each made once."""
    folder, made = tmp_path_factory.mktemp("straight"), set()

    def run(kind: str) -> Path:
        if kind not in made:
            made.add(kind)
            pretrain.pretrain(make_config(text, folder / kind, **KINDS[kind]))
        return folder / kind

    return run


@pytest.fixture
def fuse(monkeypatch):
    """Cuts a run off at the n-th call of a function, before or after what it does."""

    def set_fuse(owner: object, name: str, calls: int, error=Cut, *, after: bool = False) -> None:
        function, count = getattr(owner, name), 0

        def fused(*arguments, **settings):
            nonlocal count
            count += 1
            if count == calls and not after:
                raise error
            result = function(*arguments, **settings)
            if count == calls:
                raise error
            return result

        monkeypatch.setattr(owner, name, fused)

    return set_fuse


def refusal(config, error, **settings) -> str:
    with pytest.raises(error) as caught:
        pretrain.pretrain(config, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Exact resume

TIMED = 3
"""Steps that the plan makes and takes back."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_cut_off_twice_equals_one_that_was_not(
    text, straight, tmp_path, fuse, kind, monkeypatch
):
    config = make_config(text, tmp_path / "run", **KINDS[kind])
    for resumed, step in ((False, 4), (True, 8)):  # an epoch has 10 steps
        fuse(Trainer, "advance", TIMED + 7)
        with pytest.raises(Cut):
            pretrain.pretrain(config, resume=resumed)
        assert saved(tmp_path / "run")["step"] == step
        monkeypatch.undo()
    pretrain.pretrain(config, resume=True)
    assert_same_run(tmp_path / "run", straight(kind))


CUTS = {
    "while the text is prepared": (opening, "prepare", 2, False),
    "while the first checkpoint is written": (torch, "save", 1, False),
    "while steps are timed": (Trainer, "advance", 2, True),
    "before the first step is kept": (Trainer, "advance", TIMED + 3, True),
    "while a checkpoint is written": (checkpoint, "move_into_place", 2, False),
    "when a checkpoint is in its place": (checkpoint, "move_into_place", 2, True),
    "while the best model is written": (run_directory, "write_checkpoint", 2, False),
    "when the old model has gone": (Path, "rename", 4, True),
    "when the last step is kept": (checkpoint, "move_into_place", 5, True),
    "while the last model is written": (run_directory, "write_checkpoint", 3, True),
}


@pytest.mark.parametrize("cut", CUTS)
def test_wherever_a_run_is_cut_off_it_goes_on(text, straight, tmp_path, fuse, cut, monkeypatch):
    owner, name, calls, after = CUTS[cut]
    config = make_config(text, tmp_path / "run")
    fuse(owner, name, calls, after=after)
    with pytest.raises(Cut):
        pretrain.pretrain(config)
    monkeypatch.undo()
    pretrain.pretrain(config, resume=True)
    assert_same_run(tmp_path / "run", straight("adagrad"))
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {path.name for path in straight("adagrad").iterdir()}


def test_a_resumed_run_needs_neither_text_nor_word_list(straight, tmp_path, fuse, monkeypatch):
    copy = write_corpus(tmp_path / "text")
    config = make_config(copy, tmp_path / "run")
    fuse(Trainer, "advance", TIMED + 7)
    with pytest.raises(Cut):
        pretrain.pretrain(config)
    monkeypatch.undo()
    shutil.rmtree(copy)
    pretrain.pretrain(config, resume=True)
    assert_same_run(tmp_path / "run", straight("adagrad"))


def test_text_that_vanishes_meanwhile_is_not_missed(straight, tmp_path, monkeypatch):
    copy = write_corpus(tmp_path / "text")
    advance = Trainer.advance

    def lose_text(trainer):
        shutil.rmtree(copy, ignore_errors=True)
        return advance(trainer)

    monkeypatch.setattr(Trainer, "advance", lose_text)
    pretrain.pretrain(make_config(copy, tmp_path / "run"))
    assert_same_run(tmp_path / "run", straight("adagrad"))


def test_what_may_change_changes_no_loss(text, straight, tmp_path, fuse, monkeypatch):
    config = make_config(
        text,
        tmp_path / "run",
        schedule__steps=9,
        schedule__checkpoint_every=3,
        schedule__evaluate_every=100,
    )
    pretrain.pretrain(config)
    (tmp_path / "run").rename(tmp_path / "moved")
    pretrain.pretrain(make_config(text, tmp_path / "moved"), resume=True)
    found, expected = (
        [line for line in records(run_dir) if line["kind"] == "train"]
        for run_dir in (tmp_path / "moved", straight("adagrad"))
    )
    assert found == expected
    assert_same(saved(tmp_path / "moved")["model"], saved(straight("adagrad"))["model"])


def test_a_resumed_run_says_where_it_goes_on(text, straight, tmp_path, caplog):
    shutil.copytree(straight("adagrad"), tmp_path / "run")
    with caplog.at_level(logging.INFO):
        pretrain.pretrain(make_config(text, tmp_path / "run", schedule__steps=15), resume=True)
    assert "going on after step 14, epoch 1.40" in caplog.messages
    assert "finished after 15 steps" in caplog.messages[-1]
    assert "resumed with another" not in caplog.text


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"schedule__steps": 9},
            "the settings ask for 9; steps are not undone; to train longer, raise schedule.steps",
        ),
        (
            {"schedule__steps": None, "schedule__epochs": 1.4},
            "the settings ask for 14; to train longer, raise schedule.epochs",
        ),
        (
            {"schedule__steps": 99, "schedule__patience": 1},
            "it stopped early (schedule.patience: 1); to train longer, raise schedule.patience",
        ),
    ],
)
def test_a_run_with_nothing_left_to_do_says_so(text, straight, tmp_path, caplog, changes, told):
    shutil.copytree(straight("adagrad"), tmp_path / "run")
    if "schedule__patience" in changes:
        content = torch.load(tmp_path / "run" / checkpoint.CHECKPOINT, weights_only=True)
        content["standing"]["waited"] = 1
        torch.save(content, tmp_path / "run" / checkpoint.CHECKPOINT)
    with caplog.at_level(logging.INFO):
        pretrain.pretrain(make_config(text, tmp_path / "run", **changes), resume=True)
    assert f"nothing is left to do: the run has made 14 steps, {told}" in caplog.messages
    assert saved(tmp_path / "run")["step"] == 14


def test_another_number_of_threads_is_warned_of(text, straight, tmp_path, caplog):
    shutil.copytree(straight("adagrad"), tmp_path / "run")
    config = make_config(text, tmp_path / "run", schedule__steps=15, threads=2)
    pretrain.pretrain(config, resume=True)
    assert (
        "resumed with another threads: 1 -> 2: further losses differ in their last digits from "
        "those of an uninterrupted run"
    ) in caplog.messages


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 1}, "seed: 0 -> 1"),
        (
            {"schedule__window": 5, "model__filters": [[1, 4]]},
            "model.filters: [[1, 4], [2, 4]] -> [[1, 4]]; schedule.window: 4 -> 5",
        ),
        ({"objective__num_negatives": None}, "objective.num_negatives: 8 -> None"),
        ({"data__train": ["other.txt"]}, "-> ['other.txt']"),
    ],
)
def test_other_changes_are_listed_and_refused(text, straight, tmp_path, changes, named):
    shutil.copytree(straight("adagrad"), tmp_path / "run")
    config = make_config(text, tmp_path / "run", **changes)
    found = refusal(config, OutputError, resume=True)
    assert found.startswith(f"{tmp_path / 'run'}: cannot resume with other settings (")
    assert named in found
    assert_same_run(tmp_path / "run", straight("adagrad"))


def test_a_run_cut_off_before_its_first_checkpoint_keeps_its_settings(
    text, tmp_path, fuse, monkeypatch
):
    fuse(opening, "prepare", 1)
    with pytest.raises(Cut):
        pretrain.pretrain(make_config(text, tmp_path / "run"))
    monkeypatch.undo()
    found = refusal(make_config(text, tmp_path / "run", seed=1), OutputError, resume=True)
    assert "seed: 0 -> 1" in found


def test_there_must_be_a_run_to_resume(text, tmp_path):
    found = refusal(make_config(text, tmp_path / "run"), CheckpointError, resume=True)
    assert found == f"run_dir: {tmp_path / 'run'} holds no run to resume; start without --resume"
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_begun_over_another(text, straight):
    found = refusal(make_config(text, straight("adagrad")), OutputError)
    assert "holds a run (checkpoint.pt); go on with it by --resume" in found


# Real processes


def _heed_interruptions() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Command:
    """`elmo train` in a process of its own."""

    def __init__(self, config, folder: Path, *options: str) -> None:
        self.log = Path(config.run_dir) / "log.jsonl"
        (folder / "config.yaml").write_text(json.dumps(config.to_dict()))  # JSON is YAML
        source = Path(pretrain.__file__).parents[2]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "elmokit", "train", str(folder / "config.yaml"), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"},
            # A shell lets what it starts in the background ignore Ctrl-C.
            preexec_fn=_heed_interruptions,  # noqa: PLW1509  # it takes no lock of another thread
        )

    def kill_after(self, step: int, number: signal.Signals) -> str:
        """Sends a signal once the log has a step; returns what was said."""
        deadline = time.monotonic() + 120
        while self._last_step() < step:
            assert self.process.poll() is None, self.process.communicate()[0]
            assert time.monotonic() < deadline, "the log does not get there"
            time.sleep(0.002)
        self.process.send_signal(number)
        said, _ = self.process.communicate(timeout=60)
        expected = 130 if number == signal.SIGINT else -number
        assert self.process.returncode == expected, said
        return said

    def _last_step(self) -> int:
        lines = self.log.read_text().split("\n")[:-1] if self.log.exists() else []
        return json.loads(lines[-1])["step"] if lines else 0


LONG = {"schedule__steps": 120, "schedule__evaluate_every": 25}
"""So many steps that a signal is sure to come before the end."""


@pytest.fixture(scope="module")
def long(text, tmp_path_factory) -> Path:
    run_dir = tmp_path_factory.mktemp("long") / "run"
    pretrain.pretrain(make_config(text, run_dir, **LONG))
    return run_dir


def kill_at(steps, text, folder: Path, expected: Path) -> None:
    config = make_config(text, folder / "run", **LONG)
    options = ()
    for step in steps:
        Command(config, folder, *options).kill_after(step, signal.SIGKILL)
        options = ("--resume",)
    pretrain.pretrain(config, resume=True)
    assert_same_run(folder / "run", expected)


def test_a_process_killed_three_times_equals_one_that_was_not(text, long, tmp_path):
    kill_at((3, 30, 61), text, tmp_path, long)


@pytest.mark.soak
def test_a_process_killed_twenty_times_equals_one_that_was_not(text, long, tmp_path):
    kill_at(range(1, 81, 4), text, tmp_path, long)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_that_is_stopped_keeps_its_last_step_and_leaves(text, long, tmp_path, number):
    config = make_config(text, tmp_path / "run", **LONG, schedule__checkpoint_every=1000)
    said = Command(config, tmp_path).kill_after(9, number)
    step = saved(tmp_path / "run")["step"]
    assert f"stopped by a signal after step {step}; go on with --resume" in said
    assert records(tmp_path / "run")[-1]["step"] == step >= 9
    pretrain.pretrain(config, resume=True)
    assert_same_run(tmp_path / "run", long)


def test_a_signal_reaches_the_program_once_the_step_is_kept(text, straight, tmp_path, monkeypatch):
    steps = []
    advance = Trainer.advance

    def send(trainer):
        result = advance(trainer)
        if trainer.step == 6:
            signal.raise_signal(signal.SIGTERM)
        return result

    before = signal.signal(signal.SIGTERM, lambda *_: steps.append(saved(tmp_path / "run")["step"]))
    try:
        monkeypatch.setattr(Trainer, "advance", send)
        pretrain.pretrain(make_config(text, tmp_path / "run"))
        monkeypatch.undo()
        assert signal.getsignal(signal.SIGTERM) is not before
        assert steps == [6]
    finally:
        signal.signal(signal.SIGTERM, before)
    pretrain.pretrain(make_config(text, tmp_path / "run"), resume=True)
    assert_same_run(tmp_path / "run", straight("adagrad"))


def test_a_second_interruption_leaves_at_once(text, straight, tmp_path, monkeypatch, caplog):
    advance = Trainer.advance

    def send(trainer):
        result = advance(trainer)
        for _ in range(2 * (trainer.step == 6)):
            signal.raise_signal(signal.SIGINT)
        return result

    monkeypatch.setattr(Trainer, "advance", send)
    with caplog.at_level(logging.INFO), pytest.raises(KeyboardInterrupt):
        pretrain.pretrain(make_config(text, tmp_path / "run"))
    monkeypatch.undo()
    assert "interrupted: finishing the step and keeping it; Ctrl-C again leaves at once" in (
        caplog.messages
    )
    assert saved(tmp_path / "run")["step"] == 4
    pretrain.pretrain(make_config(text, tmp_path / "run"), resume=True)
    assert_same_run(tmp_path / "run", straight("adagrad"))


def test_a_run_in_a_thread_leaves_signals_alone(text, tmp_path):
    config = make_config(text, tmp_path / "run", schedule__steps=1)
    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=pretrain.pretrain, args=(config,))
    thread.start()
    thread.join()
    assert saved(tmp_path / "run")["step"] == 1
    assert signal.getsignal(signal.SIGTERM) is before
