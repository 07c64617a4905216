import json
import math
import sys
import types
from typing import ClassVar

import pytest

from elmokit.errors import MissingExtraError, OutputError
from elmokit.training.record import Record
from training.runs import limited_files


def lines(run_dir):
    return [json.loads(line) for line in (run_dir / "log.jsonl").read_text().splitlines()]


def write(run_dir, *steps, begin=0):
    with Record(run_dir, step=begin, tensorboard=False) as record:
        for step in steps:
            record.write("train", step, loss=step / 2)


def test_a_line_is_an_object_with_kind_and_step(tmp_path):
    with Record(tmp_path, step=0, tensorboard=False) as record:
        record.write("train", 1, loss=0.5, sampled=True)
        record.write("heldout", 1, mean=math.inf, forward=math.nan, name="a\nb")
        assert lines(tmp_path) == [  # while it is open: every line is there at once
            {"kind": "train", "step": 1, "loss": 0.5, "sampled": True},
            {"kind": "heldout", "step": 1, "mean": None, "forward": None, "name": "a\nb"},
        ]


def test_lines_of_steps_that_are_made_again_are_dropped(tmp_path):
    write(tmp_path, 1, 2, 3, 4)
    write(tmp_path, 3, 4, 5, begin=2)
    assert [line["step"] for line in lines(tmp_path)] == [1, 2, 3, 4, 5]


def test_a_run_that_begins_has_an_empty_log(tmp_path):
    write(tmp_path, 0, 1)
    write(tmp_path, begin=0)
    assert lines(tmp_path) == []


def test_a_line_that_a_crash_cut_is_dropped(tmp_path, caplog):
    write(tmp_path, 1)
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"kind": "train", "st')
    write(tmp_path, 2, begin=1)
    assert [line["step"] for line in lines(tmp_path)] == [1, 2]
    assert not caplog.messages


@pytest.mark.parametrize("damage", [b"[1]\n", b'{"kind": 1}\n', b"\xff\n", b"\n"])
def test_a_line_that_is_no_record_is_dropped_with_a_word(tmp_path, caplog, damage):
    path = tmp_path / "log.jsonl"
    write(tmp_path, 1)
    path.write_bytes(damage + path.read_bytes())
    write(tmp_path, 2, begin=1)
    assert [line["step"] for line in lines(tmp_path)] == [1, 2]
    assert caplog.messages == [f"{path}: dropped a line that is no record"]


def test_a_log_that_cannot_be_opened_or_written_is_told(tmp_path):
    (tmp_path / "log.jsonl").mkdir()
    with pytest.raises(OutputError) as caught:
        Record(tmp_path, step=0, tensorboard=False)
    assert str(caught.value) == (
        f"{tmp_path / 'log.jsonl'}: cannot be written (Is a directory); free some space, then go "
        "on with --resume"
    )


def test_a_full_disk_is_told(tmp_path):
    with (
        Record(tmp_path, step=0, tensorboard=False) as record,
        limited_files(4),
        pytest.raises(OutputError, match=r"log\.jsonl: cannot be written \(File too large\)"),
    ):
        record.write("train", 1)


# TensorBoard


class Board:
    """Stands for TensorBoard's writer."""

    made: ClassVar[list["Board"]] = []

    def __init__(self, directory, purge_step):
        self.place, self.values, self.closed = (directory, purge_step), [], False
        self.made.append(self)

    def add_scalar(self, name, value, step):
        self.values.append((name, value, step))

    def close(self):
        self.closed = True


def test_tensorboard_gets_the_numbers(tmp_path, monkeypatch):
    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Board
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    with Record(tmp_path, step=7, tensorboard=True) as record:
        record.write("train", 8, loss=0.5, num=3, sampled=True, rate=math.inf, name="a")
    (board,) = Board.made
    assert board.place == (str(tmp_path / "tensorboard"), 8)
    assert board.values == [("train/loss", 0.5, 8), ("train/num", 3, 8)]
    assert board.closed


def test_a_missing_tensorboard_is_told(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtraError) as caught:
        Record(tmp_path, step=0, tensorboard=True)
    assert str(caught.value) == (
        'tensorboard: is not installed; pip install "elmokit[train]", or set it to false'
    )
