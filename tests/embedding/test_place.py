import errno
import os

import pytest

from elmokit.embedding.parts import PartedOutput
from elmokit.embedding.place import check_place, parts_directory
from elmokit.errors import OutputError
from embedding.rows import names

SETTINGS = {"layers": "all"}


def prepare(directory, case):
    out = directory / "a.npz"
    parts = parts_directory(out)
    if case in ("exists", "complete"):
        out.write_bytes(b"old")
    elif case in ("unfinished", "foreign"):
        parts.mkdir()
        (parts / ("manifest.json" if case == "unfinished" else "thesis.txt")).write_text("x")
    elif case == "file of parts":
        parts.write_text("x")
    elif case == "link of parts":
        (directory / "elsewhere").mkdir()
        parts.symlink_to(directory / "elsewhere")
    elif case == "link inside":
        parts.mkdir()
        (directory / "thesis.txt").write_text("x")
        (parts / "joined").symlink_to(directory / "thesis.txt")
    elif case == "folder":
        out.mkdir()
    elif case == "slash":
        return f"{out}/"
    elif case == "loop":
        out.symlink_to(out)
    elif case == "nowhere":
        out.symlink_to(directory / "missing" / "a.npz")
    elif case == "no parent":
        out = directory / "missing" / "a.npz"
    elif case == "suffix":
        out = directory / "a.txt"
    return out


@pytest.mark.parametrize(
    ("case", "options", "message"),
    [
        ("exists", {}, r"a\.npz: exists; use --overwrite"),
        ("complete", {"resume": True}, r"a\.npz: is already complete; use --overwrite"),
        ("unfinished", {}, r"a\.npz\.parts: holds an unfinished run; use --resume .*--overwrite"),
        ("unfinished", {"resume": True}, r"manifest\.json: damaged"),
        ("foreign", {"overwrite": True}, r"thesis\.txt: does not belong .* move it away"),
        ("foreign", {"resume": True}, r"thesis\.txt: does not belong"),
        ("file of parts", {"overwrite": True}, r"a\.npz\.parts: is in the way .*\(it is a file"),
        ("link of parts", {"overwrite": True}, r"a\.npz\.parts: is in the way .*\(it is a link"),
        ("link of parts", {"resume": True}, r"a\.npz\.parts: is in the way .*\(it is a link"),
        ("link inside", {"overwrite": True}, r"joined: does not belong"),
        ("folder", {"overwrite": True}, r"a\.npz: is a folder"),
        ("slash", {}, "a.npz/: ends in a slash; give the name of a file"),
        ("loop", {"overwrite": True}, r"a\.npz: is a link to itself; give the name of a file"),
        ("nowhere", {}, "there is no folder .*missing; create it first"),
        ("no parent", {}, "there is no folder .*missing; create it first"),
        ("suffix", {}, "must end in one of"),
        ("both", {"overwrite": True, "resume": True}, "exclude each other"),
    ],
)
def test_what_is_in_the_way_is_named_and_left_alone(tmp_path, case, options, message):
    out = prepare(tmp_path, case)

    def files():
        paths = (path for path in tmp_path.rglob("*") if path.name != "lock")
        return {p: p.is_symlink() or p.is_dir() or p.read_bytes() for p in paths}

    before = files()
    with pytest.raises(OutputError, match=message) as caught:
        PartedOutput.open(out, settings=SETTINGS, **options)
    assert "\n" not in str(caught.value)
    assert files() == before


@pytest.mark.parametrize("call", ["mkdir", "fsync", "replace"])
def test_a_run_that_cannot_begin_leaves_nothing_behind(tmp_path, monkeypatch, call):
    def fail(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as context:
        context.setattr(os, call, fail)
        with pytest.raises(OutputError, match="No space left on device; free some space"):
            PartedOutput.open(tmp_path / "a.npz", settings=SETTINGS)
    assert names(tmp_path) == []


def test_a_place_that_refuses_is_named_with_the_mend(tmp_path, monkeypatch):
    def refuse(path, *arguments):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(OutputError, match=r"a\.h5\.parts: Permission denied; make .* with -o$"):
        PartedOutput.open(tmp_path / "a.h5", settings=SETTINGS)


def test_a_link_stands_for_the_file_it_leads_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "disk").mkdir()
    (tmp_path / "first.h5").symlink_to("second.h5")
    (tmp_path / "second.h5").symlink_to("disk/vectors.h5")
    place = {"overwrite": False, "resume": False}
    assert check_place("first.h5", **place) == tmp_path / "disk" / "vectors.h5"
    assert str(check_place("plain.h5", **place)) == "plain.h5"
