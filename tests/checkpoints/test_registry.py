import errno
import os
import shutil
import stat
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from checkpoint_samples import assert_equal, copy_model, one_line, small_checkpoint

from elmokit.checkpoints import convert, describe, detect, read, registry, write
from elmokit.errors import CheckpointError
from embedding.rows import file_size_limit


@pytest.fixture
def model(fixtures, tmp_path):
    return copy_model(fixtures / "A3_token_lm", tmp_path / "model")


def pack(directory, archive, prefix=""):
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive, "w") as file:
            for path in directory.iterdir():
                file.write(path, prefix + path.name)
    else:
        with tarfile.open(archive, f"w:{archive.name.partition('.tar.')[2]}") as file:
            for path in directory.iterdir():
                file.add(path, prefix + path.name)
    return archive


# Reading


@pytest.mark.parametrize("folder", ["A3_token_lm", "B_efml_word_only"])
@pytest.mark.parametrize("suffix", ["zip", "tar", "tar.gz", "tar.bz2", "tar.xz"])
@pytest.mark.parametrize("prefix", ["", "deep/er/"])
def test_archive_equals_its_directory(fixtures, tmp_path, folder, suffix, prefix):
    model = copy_model(fixtures / folder, tmp_path / "model")
    archive = pack(model, tmp_path / f"model.{suffix}", prefix)
    assert_equal(read(archive), read(model))
    assert describe(archive) == describe(model)


def test_zip_of_options_and_model_hdf5_alone(fixtures, tmp_path):
    """An archive of the NLPL repository, without its optional word list."""
    with zipfile.ZipFile(tmp_path / "210.zip", "w") as file:
        file.write(fixtures / "A2_bilm_skip/options.json", "options.json")
        file.write(fixtures / "A2_bilm_skip/weights.hdf5", "model.hdf5")
    assert_equal(read(tmp_path / "210.zip"), read(fixtures / "A2_bilm_skip"))


def test_loose_files_equal_their_directory(model):
    files = {"options": model / "options.json", "weights": model / "weights.hdf5"}
    assert_equal(read(**files, vocab=str(model / "vocab.txt")), read(model))


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({}, ["options=", "weights=", "options= is missing"]),
        ({"options": "options.json"}, ["weights= is missing"]),
        ({"source": ".", "weights": "w"}, ["either a source", "weights="]),
        (
            {"options": "https://x/o.json", "weights": "w"},
            ["https://x/o.json", "download it first"],
        ),
        ({"options": "options.json", "weights": "none.hdf5"}, ["none.hdf5", "no such file"]),
        ({"options": ".", "weights": "weights.hdf5"}, ["directory"]),
        ({"options": "options.json", "weights": "."}, ["."]),
        ({"options": "options.json", "weights": "weights.hdf5", "vocab": "."}, ["directory"]),
    ],
)
def test_wrong_loose_files_are_one_line(model, monkeypatch, given, parts):
    monkeypatch.chdir(model)
    with one_line(*parts):
        read(**given)


def test_a_single_file_is_no_source(model):
    for name in ("options.json", "weights.hdf5"):
        with one_line(model / name, "options= and weights="):
            read(model / name)


# Detection


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("A2_bilm_skip", "allennlp"),
        ("A3_token_lm", "allennlp"),
        ("B_efml_char_cnn", "manylangs"),
        ("B_efml_lstm_encoder", "manylangs"),
        ("E_training_word", "tensorflow"),
    ],
)
def test_format_is_found_by_content(fixtures, tmp_path, folder, name):
    model = copy_model(fixtures / folder, tmp_path / "model")
    assert detect(model)[0].name == describe(model).format == name
    convert(model, tmp_path / "native")
    assert detect(tmp_path / "native")[0].name == "native"


def test_a_directory_that_holds_models_names_them(fixtures, tmp_path):
    copy_model(fixtures / "A2_bilm_skip", tmp_path / "run" / "model")
    (tmp_path / "run" / "corpus").mkdir()
    with pytest.raises(CheckpointError, match=r"holds models and is none; name \S*run/model$"):
        read(tmp_path / "run")


def test_no_format_fits(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with one_line(
        f"{tmp_path}: no model of a known format; nearest: native lacks model.safetensors; others:",
        "manylangs lacks token_embedder.pkl, encoder.pkl",
        "tensorflow lacks checkpoint, model.ckpt-*.index, options.json",
        "allennlp lacks options.json (or one *options*.json), weights.hdf5",
    ):
        read(tmp_path)


@pytest.mark.parametrize(
    ("folder", "name", "lacks"),
    [
        ("A3_token_lm", "weights.hdf5", "allennlp lacks weights.hdf5 (or one"),
        ("A3_token_lm", "options.json", "allennlp lacks options.json (or one"),
        ("B_efml_char_cnn", "encoder.pkl", "manylangs lacks encoder.pkl"),
        ("B_efml_char_cnn", "char.dic", "manylangs lacks char.dic"),
        ("E_training_word", "options.json", "tensorflow lacks options.json (or one"),
    ],
)
def test_the_nearest_format_comes_first(fixtures, tmp_path, folder, name, lacks):
    model = copy_model(fixtures / folder, tmp_path / "model")
    (model / name).unlink()
    with one_line(f"{model}: no model of a known format; nearest: {lacks}"):
        read(model)


def test_files_that_could_be_meant_are_described(model):
    for name in (
        "other_weights.hdf5.txt",
        "vectors.h5",
        "options_old.json",
        "README.md",
        "notes.txt",
    ):
        (model / name).touch()
    description = describe(model)
    assert description.files == ("options.json", "vocab.txt", "weights.hdf5")
    assert description.unused == ("options_old.json", "vectors.h5")


def test_files_without_permission_are_one_line(model, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
    with one_line(model / "options.json", "Permission denied"):
        read(model)


# Writing


def test_a_model_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    def fail(checkpoint, directory):
        (directory / "half").touch()
        raise OSError(28, "No space left on device", str(directory / "half"))

    broken = registry.Format(name="native", find=None, read=None, write=fail)
    monkeypatch.setattr(registry, "FORMATS", (broken,))
    message = f"{tmp_path / 'model'}: cannot be written: No space left on device; free some space"
    with one_line(message) as caught:
        write(small_checkpoint(), tmp_path / "model")
    assert "half" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", ["native", "allennlp"])
def test_a_full_disk_is_one_line_of_ours(tmp_path, format):
    small_size = 2_000  # room for the files of text, and none for those of the tensors
    with (
        file_size_limit(small_size),
        one_line(f"{tmp_path / 'a/model'}: cannot be written: File too large; free some space"),
    ):
        write(small_checkpoint(), tmp_path / "a/model", format=format)
    assert [path.name for path in tmp_path.rglob("*")] == ["a"]


def test_a_place_that_refuses_is_named_as_the_user_did(tmp_path, monkeypatch):
    def refuse(path, *arguments):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "mkdir", refuse)
    with one_line("new: cannot be written: Permission denied; make that place writable") as caught:
        write(small_checkpoint(), "new")
    assert ".part" not in str(caught.value)


def test_a_link_that_leads_to_itself_is_one_line(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with one_line(tmp_path / "loop", "cannot be written"):
        write(small_checkpoint(), tmp_path / "loop")


def test_an_unknown_home_is_one_line(model):
    with one_line("~nobody-of-that-name/m: whose home ~ stands for is not known"):
        read("~nobody-of-that-name/m")
    with one_line("~nobody-of-that-name/m"):
        convert(model, "~nobody-of-that-name/m")
    assert not Path("~nobody-of-that-name").exists()


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/precious").write_text("x")
    (tmp_path / "file").write_text("y")
    for format in ("native", "allennlp"):
        with one_line(tmp_path / "full", "not empty"):
            write(small_checkpoint(), tmp_path / "full", format=format)
        with one_line(tmp_path / "file", "there is a file"):
            write(small_checkpoint(), tmp_path / "file", format=format)
    assert (tmp_path / "full/precious").read_text() == "x"
    assert (tmp_path / "file").read_text() == "y"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "full"]


def test_an_empty_directory_and_missing_parents_are_filled(tmp_path):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "a/b/new"):
        write(small_checkpoint(), path)
        assert_equal(read(path), small_checkpoint())


def test_a_model_can_be_read_by_others_as_the_umask_says(tmp_path):
    old = os.umask(0o022)
    try:
        write(small_checkpoint(), tmp_path / "model")
    finally:
        os.umask(old)
    for path in (tmp_path / "model", *(tmp_path / "model").iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644)


def test_relative_paths_are_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(small_checkpoint(), "model")
    assert_equal(read("model"), small_checkpoint())


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("manylangs", ["read only", "native, allennlp"]),
        ("alennlp", ["unknown format", "did you mean 'allennlp'"]),
        ("", ["unknown format", "native, allennlp"]),
    ],
)
def test_formats_that_are_not_written(model, tmp_path, name, parts):
    with one_line(*parts):
        write(small_checkpoint(), tmp_path / "new", format=name)
    with one_line(*parts):
        convert(model, tmp_path / "new", to=name)
    assert not (tmp_path / "new").exists()


# Conversion


def test_conversion_there_and_back(model, tmp_path):
    convert(model, tmp_path / "native")
    convert(tmp_path / "native", tmp_path / "back", to="allennlp")
    assert_equal(read(model), read(tmp_path / "back"))


def test_conversion_never_writes_onto_its_source(model):
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    for target in (model, model / ".", model.parent / "x" / ".." / model.name):
        with one_line("not empty", "nothing is overwritten"):
            convert(model, target)
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before


def test_conversion_from_an_archive_leaves_it_alone(model, tmp_path):
    archive = pack(model, tmp_path / "model.tar.gz")
    data = archive.read_bytes()
    convert(archive, tmp_path / "native")
    assert archive.read_bytes() == data
    shutil.rmtree(model)
    assert read(tmp_path / "native").config.words.num_words == 107


def test_a_model_that_cannot_be_expressed_leaves_nothing(fixtures, tmp_path):
    with one_line("Unicode characters"):
        convert(fixtures / "B_efml_char_cnn", tmp_path / "new", to="allennlp")
    assert list(tmp_path.iterdir()) == []


# Half the size


def test_float16_halves_the_file_and_rounds_the_weights(fixtures, tmp_path):
    source = fixtures / "A2_bilm_skip"
    convert(source, tmp_path / "whole")
    convert(source, tmp_path / "half", dtype="float16")
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("whole", "half")]
    assert sizes[1] < 0.6 * sizes[0]
    whole, half = read(tmp_path / "whole"), read(tmp_path / "half")
    for name, tensor in half.tensors.items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, whole.tensors[name].half().float()), name
    write(half, tmp_path / "again", dtype="float16")
    assert_equal(read(tmp_path / "again"), half)


def test_float16_is_refused_where_it_cannot_be(fixtures, tmp_path):
    with one_line("dtype", "allennlp", "float32 only"):
        convert(fixtures / "A2_bilm_skip", tmp_path / "pair", to="allennlp", dtype="float16")
    checkpoint = small_checkpoint()
    name, tensor = next(iter(checkpoint.tensors.items()))
    large = {**checkpoint.tensors, name: tensor.clone().fill_(1e5)}
    with one_line(name, "65,504", "write float32"):
        write(replace(checkpoint, tensors=large), tmp_path / "model", dtype="float16")
    with one_line("dtype", "'bfloat16'", "float32, float16"):
        write(checkpoint, tmp_path / "model", dtype="bfloat16")
    assert not list(tmp_path.iterdir())
