import os

import pytest

from elmokit.errors import InputError
from elmokit.tasks.config import DataSection, TaskConfig
from elmokit.tasks.contents import contents_of, other_contents


def contents(train, dev, bilm="f"):
    config = TaskConfig(run_dir="r", data=DataSection(train=str(train), dev=str(dev)))
    return contents_of(config, bilm)


def test_contents_are_those_of_the_files_and_the_bilm(tmp_path):
    for name, text in (("a", "x"), ("b", "x"), ("c", "y")):
        (tmp_path / name).write_text(text)
    before = contents(tmp_path / "a", tmp_path / "c")
    assert list(before) == ["data.train", "data.dev", "elmo.model"]
    assert other_contents(before, contents(tmp_path / "b", tmp_path / "c")) == []
    now = contents(tmp_path / "c", tmp_path / "c", "g")
    assert other_contents(before, now) == [
        "data.train: has another content",
        "elmo.model: has another content",
    ]
    assert other_contents({"data.train": before["data.train"]}, before) == []
    assert other_contents(before, contents(tmp_path / "a", tmp_path / "c", None)) != []


def test_a_pipe_has_none(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # to read it again would take for ever
    assert contents(tmp_path / "pipe", "-", None) == {
        "data.train": None,
        "data.dev": None,
        "elmo.model": None,
    }


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InputError, match="gone: cannot be read: No such file or directory"):
        contents(tmp_path / "gone", "-")
