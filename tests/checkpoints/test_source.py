import os
import sys
import tarfile
import types
from pathlib import Path

import pytest
from checkpoint_samples import one_line

from elmokit.checkpoints import read, source, write
from elmokit.errors import CheckpointError, MissingExtraError


@pytest.fixture
def hub(monkeypatch):
    """A stand-in for the hub's client."""
    module = types.ModuleType("huggingface_hub")
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return module


@pytest.fixture
def packed(tmp_path):
    """A tar file of one directory with one file."""
    (tmp_path / "inside.txt").write_text("x")
    with tarfile.open(tmp_path / "model.tar", "w") as file:
        file.add(tmp_path / "inside.txt", "model/inside.txt")
    return tmp_path / "model.tar"


def test_a_directory_is_opened_as_it_is(tmp_path):
    (tmp_path / "file").touch()
    with source.opened(tmp_path) as directory:
        assert directory == tmp_path


def test_lone_directories_are_entered(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    for litter in ("__MACOSX", ".DS_Store"):
        (tmp_path / litter).mkdir()
    (tmp_path / "a/b/file").touch()
    (tmp_path / "a/b/more").mkdir()
    with source.opened(str(tmp_path)) as directory:
        assert directory == tmp_path / "a/b"


def test_an_archive_is_removed_after_use(packed, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = sorted(tmp_path.iterdir())
    with source.opened(packed) as directory:
        assert [path.name for path in directory.iterdir()] == ["inside.txt"]
    with pytest.raises(ZeroDivisionError), source.opened(packed):
        _ = 1 / 0
    assert sorted(tmp_path.iterdir()) == before


def test_messages_name_the_archive_not_its_place(packed):
    with one_line(f"{packed}/model/weights.hdf5: damaged"), source.opened(packed) as directory:
        raise CheckpointError(f"{directory}/weights.hdf5: damaged")


@pytest.mark.parametrize(
    "url", ["https://example.org/model.zip", "http://x/y", "s3://x/y", "FTP://x"]
)
def test_urls_are_refused(url):
    with one_line(url, "download it first"):
        source.locate(url)


def test_a_missing_path(tmp_path):
    with one_line(tmp_path / "none", "no such file or directory") as caught:
        source.locate(tmp_path / "none")
    assert "hub:" not in str(caught.value)


def test_a_missing_path_that_looks_like_a_hub_name_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with one_line("owner/na-me.1: no such file", "hub:owner/na-me.1"):
        source.locate("owner/na-me.1")
    (tmp_path / "owner/na-me.1").mkdir(parents=True)
    assert source.locate("owner/na-me.1") == Path("owner/na-me.1")


@pytest.mark.parametrize(
    "name",
    ["./nosuch.zip", "../nosuch", "models/elmo.zip", "models/m.tar.gz", "m/weights.HDF5", "a/b/c"],
)
def test_a_missing_path_that_looks_like_a_file_is_no_hub_name(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with one_line(f"{name}: no such file or directory") as caught:
        source.locate(name)
    assert "hub:" not in str(caught.value)


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/null"):
        with one_line(f"{path}: is a pipe or a device"):
            source.locate(path)
        with one_line(path), source.opened(path):
            pass


def test_a_pipe_among_loose_files_or_in_a_directory_is_not_waited_for(fixtures, tmp_path):
    os.mkfifo(tmp_path / "weights.hdf5")
    (tmp_path / "options.json").write_text("{}")
    with one_line(tmp_path / "weights.hdf5", "is a pipe or a device"):
        read(options=tmp_path / "options.json", weights=tmp_path / "weights.hdf5")
    with one_line("allennlp lacks weights.hdf5"):
        read(tmp_path)


def test_home_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "model").mkdir()
    assert source.locate("~/model") == tmp_path / "model"


def test_hub_models_are_downloaded_as_snapshots(hub, tmp_path):
    asked = []
    hub.snapshot_download = lambda name: asked.append(name) or str(tmp_path)
    (tmp_path / "file").touch()
    with source.opened("hub:owner/name") as directory:
        assert directory == tmp_path
    assert asked == ["owner/name"]


@pytest.mark.parametrize("name", ["hub:", "hub:name", "hub:a/b/c", "hub:https://x/y", "hub:a/b c"])
def test_hub_names_have_two_parts(hub, name):
    with one_line(name, "hub:owner/name"):
        source.locate(name)


def test_failures_of_the_hub_are_one_line(hub):
    def fail(name):
        raise OSError("404 Client Error\nRepository not found")

    hub.snapshot_download = fail
    with one_line("hub:owner/name: cannot be downloaded: 404 Client Error"):
        source.locate("hub:owner/name")


def test_a_missing_client_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r'pip install "elmokit\[hub\]"'):
        source.locate("hub:owner/name")


def test_a_broken_client_shows_its_own_cause(tmp_path, monkeypatch):
    (tmp_path / "huggingface_hub.py").write_text("import a_module_that_is_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "huggingface_hub", raising=False)
    with pytest.raises(ModuleNotFoundError, match="a_module_that_is_not_there"):
        source.locate("hub:owner/name")


@pytest.mark.parametrize("name", source.BUNDLED)
def test_names_of_bundled_models(name, monkeypatch, tmp_path):
    monkeypatch.setattr(source, "__file__", str(tmp_path / "checkpoints/source.py"))
    with one_line(name, "no bundled model"):
        source.locate(name)
    (tmp_path / "pretrained" / name).mkdir(parents=True)
    assert source.locate(name) == tmp_path / "pretrained" / name


def test_reading_a_local_model_opens_no_connection(fixtures, tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    write(read(fixtures / "A2_bilm_skip"), tmp_path / "copy")
    read(tmp_path / "copy")
