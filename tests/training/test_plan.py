import logging
import re

import pytest
import torch

from elmokit.training import pretrain
from elmokit.training.build import build
from elmokit.training.corpus import prepare
from elmokit.training.distributed import Processes
from elmokit.training.plan import duration, plan, seconds_per_step
from elmokit.training.trainer import Trainer
from elmokit.training.vocabulary import read_vocabulary
from training.runs import assert_same_run, make_config, saved, write_corpus


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("text"))


@pytest.fixture
def lines(text, tmp_path):
    def lines(seconds=2.0, heldout=True, **changes):
        config = make_config(text, tmp_path / "run", **changes)
        words = read_vocabulary(text / "vocab.txt")
        corpus, other = (
            prepare([str(text / f"{name}.txt")], words, tmp_path / name)
            for name in ("train", "heldout")
        )
        processes = Processes(0, 1, torch.device("cpu"))
        trainer = Trainer(config, build(config, corpus, None), corpus, processes)
        found = plan(trainer, corpus, other if heldout else None, seconds)
        return {line.split()[0]: line.split(maxsplit=1)[1] for line in found}

    return lines


def test_everything_is_told_before_the_first_step(lines):
    found = lines()
    assert list(found) == ["text", "held", "words", "model", "step", "length", "time", "memory"]
    assert found["text"] == (
        "1 file, 24 lines (0 blank), 24 sentences, 128 tokens (0.00% unknown, 0 dropped)"
    )
    assert found["held"].startswith("out   1 file, 8 lines (0 blank), 8 sentences")
    assert found["words"] == "33 in the vocabulary, 8 sampled per step"
    assert found["model"] == "3,680 parameters and 297 in the softmax"
    assert found["step"] == "1 x 2 rows x 4 tokens x 2 windows = 16 predictions per direction"
    # (128 tokens + 24 boundaries) / 8 = 19 windows
    assert found["length"] == "14 steps, 10 per epoch, 1.4 epochs"
    assert found["time"] == "2 s per step, 8 tokens per second, about 28 seconds to go"
    assert re.fullmatch(r"\d+\.\d\d GB at its peak so far", found["memory"])


def test_what_there_is_none_of_is_told(lines):
    found = lines(None, heldout=False, objective__num_negatives=None, schedule__accumulate=1)
    assert found["held"] == "out   none: no measure of what is learnt"
    assert found["words"] == "33 in the vocabulary, all of them compared"
    assert found["step"] == "1 x 2 rows x 4 tokens = 8 predictions per direction"
    assert found["time"] == "nothing is left to do"


def test_more_negatives_than_words_are_all_words(lines):
    assert lines(objective__num_negatives=33)["words"].endswith("all of them compared")
    assert lines(objective__num_negatives=32)["words"].endswith("32 sampled per step")


def test_epochs_become_steps(lines):
    found = lines(schedule__steps=None, schedule__epochs=2.5)
    assert found["length"] == "25 steps, 10 per epoch, 2.5 epochs"


def test_as_many_steps_are_made_as_are_planned(text, tmp_path, caplog):
    config = make_config(text, tmp_path / "run", schedule__steps=None, schedule__epochs=0.75)
    with caplog.at_level(logging.INFO):
        pretrain.pretrain(config)
    (planned,) = (m for m in caplog.messages if m.startswith("length"))
    assert planned == "length     8 steps, 10 per epoch, 0.8 epochs"
    assert saved(tmp_path / "run")["step"] == 8
    assert caplog.messages.index(planned) < caplog.messages.index(
        next(m for m in caplog.messages if m.startswith("step 1 of 8"))
    )


def test_steps_that_are_timed_leave_no_trace(text, tmp_path, monkeypatch):
    pretrain.pretrain(make_config(text, tmp_path / "timed", schedule__steps=5))
    monkeypatch.setattr(pretrain, "seconds_per_step", lambda advance: 1.0)
    pretrain.pretrain(make_config(text, tmp_path / "untimed", schedule__steps=5))
    assert_same_run(tmp_path / "timed", tmp_path / "untimed")


def test_a_step_takes_the_median_of_a_few():
    made = []
    assert seconds_per_step(lambda: made.append(1)) >= 0
    assert len(made) == 3


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 seconds"),
        (89, "89 seconds"),
        (90, "2 minutes"),
        (3600, "60 minutes"),
        (5400, "1.5 hours"),
        (360_000, "100.0 hours"),
    ],
)
def test_a_time_has_the_unit_that_suits_it(seconds, text):
    assert duration(seconds) == text
