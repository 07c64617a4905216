import logging

import pytest

from elmokit.errors import ConfigError, InputError
from elmokit.training.sources import find_files


@pytest.fixture
def folder(tmp_path):
    for name in ("b.txt", "a.txt", "a.txt.gz", "deep/c.txt", "odd[1].txt", 'say "so".txt'):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def names(folder, *patterns):
    files = find_files([str(folder / pattern) for pattern in patterns])
    return [str(file.relative_to(folder)) for file in files]


def message(*patterns):
    with pytest.raises((InputError, ConfigError)) as caught:
        find_files([str(pattern) for pattern in patterns])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_patterns_keep_their_order_and_files_that_of_their_names(folder):
    assert names(folder, "b*", "a.*", "**/c*") == ["b.txt", "a.txt", "a.txt.gz", "deep/c.txt"]


def test_a_name_that_exists_is_no_pattern(folder):
    assert names(folder, "odd[1].txt") == ["odd[1].txt"]
    assert names(folder, 'say "so".txt') == ['say "so".txt']


def test_a_tilde_is_the_home_directory(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    assert find_files(["~/a.txt", "~/b*"]) == [folder / "a.txt", folder / "b.txt"]
    assert "~no-such-user/x: matches no file" in message("~no-such-user/x")


def test_a_single_string_is_one_pattern(folder):
    assert [file.name for file in find_files(str(folder / "?.txt"))] == ["a.txt", "b.txt"]


def test_folders_among_the_matches_are_passed_over(folder):
    assert "deep" not in names(folder, "*")


def test_a_file_named_twice_is_read_once(folder, caplog):
    with caplog.at_level(logging.WARNING):
        assert names(folder, "a.txt", "?.txt", "deep/../b.txt") == ["a.txt", "b.txt"]
    assert [record.getMessage() for record in caplog.records] == [
        f"{folder / name}: is named more than once; it is read once"
        for name in ("a.txt", "deep/../b.txt")
    ]


def test_a_pattern_without_match_tells_what_lies_there(folder):
    held = 'a.txt, a.txt.gz, b.txt, deep, odd[1].txt, say "so".txt'
    assert message(folder / "*.text") == (
        f"{folder / '*.text'}: matches no file; the folder {folder} holds {held}"
    )
    assert message(folder / "missing.txt").endswith(f"the folder {folder} holds {held}")
    assert message(folder / "de*p" / "no" / "*.txt").endswith(f"the folder {folder} holds {held}")
    assert message(folder / "no" / "such" / "*").endswith(f"the folder {folder} holds {held}")
    (folder / "empty").mkdir()
    assert message(folder / "empty" / "*").endswith(f"the folder {folder / 'empty'} is empty")


def test_a_full_folder_is_told_in_short(tmp_path):
    for i in range(20):
        (tmp_path / f"{i:02}.csv").touch()
    assert message(tmp_path / "*.txt").endswith("06.csv, 07.csv and 12 more")


@pytest.mark.parametrize("quote", ["'", '"', "\u201c"])
def test_quotes_inside_a_pattern_are_told(folder, quote):
    found = message(f"{quote}{folder}/deep/*.text{quote}")
    assert f"the folder {folder / 'deep'} holds c.txt; there are quotes inside the pattern" in found


def test_a_folder_is_no_file(folder):
    assert message(folder / "deep") == (
        f"{folder / 'deep'}: is a folder; name its files, as in {folder / 'deep' / '*.txt'}"
    )


def test_odd_names_are_no_surprise(folder):
    for name in ("x" * 5000, "nul\0", "x" * 5000 + "/*.txt"):
        assert ": matches no file; the folder " in message(folder / name)


def test_a_folder_that_cannot_be_listed_is_told(folder, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("pathlib.Path.iterdir", refuse)
    assert message(folder / "*.x").endswith(f"folder {folder} cannot be listed: Permission denied")


def test_no_pattern_is_refused():
    assert message().startswith("corpus: no file is named; give files")
