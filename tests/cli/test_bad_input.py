"""Bad input of every kind: one line, exit code 2, nothing lost, overwritten or run."""

import errno
import json
import os
import pickle
import random
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from builders import char_bilm
from elmokit import open_embeddings
from elmokit.checkpoints import archive
from elmokit.embedding.parts import PartedOutput

TEXT = "the cat sat\n\nhello\n"
ALLENNLP = ("options.json", "weights.hdf5")


@pytest.fixture
def model(fixtures, tmp_path):
    """A copy of a model in the AllenNLP format."""
    (tmp_path / "model").mkdir()
    for name in ALLENNLP:
        shutil.copy(fixtures / "A2_bilm_skip" / name, tmp_path / "model" / name)
    return tmp_path / "model"


@pytest.fixture
def native(tmp_path):
    char_bilm().save_pretrained(tmp_path / "native")
    return tmp_path / "native"


@pytest.fixture
def manylangs(fixtures, tmp_path):
    """A copy of a model whose tensors are in pickles."""
    source = fixtures / "B_efml_word_char_cnn"
    names = [path.name for path in source.iterdir() if path.suffix in (".pkl", ".dic", ".json")]
    (tmp_path / "manylangs").mkdir()
    for name in names:
        shutil.copy(source / name, tmp_path / "manylangs" / name)
    return tmp_path / "manylangs"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def embed(text, model, tmp_path):
    """Arguments that embed the text, which more may be added to."""
    return ("embed", text, "-o", tmp_path / "out.h5", "--model", model)


def edit_json(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


# Damaged and foreign model files


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("model", "weights.hdf5"),
        ("model", "options.json"),
        ("native", "model.safetensors"),
        ("native", "config.json"),
        ("native", "characters.json"),
        ("manylangs", "encoder.pkl"),
        ("manylangs", "token_embedder.pkl"),
        ("manylangs", "config.json"),
        ("manylangs", "char.dic"),
    ],
)
def test_a_truncated_file_is_named(refused, request, kind, name):
    path = request.getfixturevalue(kind) / name
    data = path.read_bytes()
    for size in (0, 1, 30, len(data) // 2):
        path.write_bytes(data[:size])
        assert name in refused("info", path.parent)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("model", "weights.hdf5"),
        ("native", "model.safetensors"),
        ("manylangs", "encoder.pkl"),
        ("manylangs", "token_embedder.pkl"),
        ("model", "options.json"),
        ("native", "config.json"),
    ],
)
@pytest.mark.parametrize(
    "content", [b"some text\n", random.Random(0).randbytes(4000), b"\0" * 4000]
)
def test_a_file_of_something_else_is_named(refused, request, kind, name, content):
    path = request.getfixturevalue(kind) / name
    path.write_bytes(content)
    assert name in refused("info", path.parent)


def test_a_directory_in_the_place_of_a_file(refused, model):
    (model / "weights.hdf5").unlink()
    (model / "weights.hdf5").mkdir()
    assert "weights.hdf5" in refused("info", model)


def test_embeddings_are_no_weights(elmo, refused, text, model, tmp_path):
    assert elmo("embed", text, "-o", tmp_path / "vectors.hdf5", "--model", model).code == 0
    shutil.move(tmp_path / "vectors.hdf5", model / "weights.hdf5")
    message = refused("info", model)
    assert "holds computed embeddings" in message
    assert "give the file of weights" in message


def test_several_candidates_are_listed(refused, model):
    for name in ALLENNLP:
        shutil.copy(model / name, model / f"b_{name}")
        (model / name).rename(model / f"a_{name}")
    message = refused("embed", "in.txt", "-o", "out.h5", "--model", model)
    assert "several files could be the model" in message
    for name in ("a_options.json", "b_options.json", "a_weights.hdf5", "b_weights.hdf5"):
        assert name in message


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda o: o["lstm"].update(n_layers=4), ["Cell3", "is missing"]),
        (lambda o: o["lstm"].update(projection_dim=17), ["has shape", "instead of"]),
        (lambda o: o["char_cnn"].update(n_characters=300), ["n_characters: 300", "261 rows"]),
        (lambda o: o["char_cnn"].update(n_highway=3), ["CNN_high_2", "is missing"]),
        (lambda o: o["char_cnn"]["filters"].pop(), ["W_cnn_4", "is unexpected"]),
        (lambda o: o["char_cnn"].update(activation="gelu"), ["activation: 'gelu' is not one of"]),
        (lambda o: o["char_cnn"].update(max_characters_per_token=2), ["max_characters"]),
        (lambda o: o["lstm"].update(n_layers=10**9), ["lstm: n_layers", "or less"]),
        (lambda o: o["lstm"].update(dim="big"), ["lstm: dim: expected int, found 'big'"]),
        (lambda o: o.pop("lstm"), ["lstm: the block is missing"]),
        (lambda o: o.pop("char_cnn"), ["no block char_cnn"]),
    ],
)
def test_options_that_disagree_with_the_weights(refused, model, change, parts):
    edit_json(model / "options.json", change)
    message = refused("info", model)
    for part in ("options.json", *parts):
        assert part in message


def test_a_configuration_that_disagrees_with_its_tensors(refused, native):
    edit_json(native / "config.json", lambda c: c["lstm"].update(cell_dim=25))
    message = refused("info", native)
    assert "model.safetensors: its tensors do not fit config.json" in message
    edit_json(native / "config.json", lambda c: c.update(lstn=c.pop("lstm")))
    assert "unknown field 'lstn' (did you mean 'lstm'?)" in refused("info", native)


class _Attack:
    """Pickled, this asks for a command to be run where it is loaded."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.mark.parametrize("is_zip", [True, False])
def test_a_pickle_that_wants_to_run_code_does_not(refused, manylangs, tmp_path, is_zip):
    touched, path = tmp_path / "touched", manylangs / "encoder.pkl"
    attack = {"weight": _Attack(f"touch {touched}")}
    torch.save(attack, path, _use_new_zipfile_serialization=is_zip)
    message = refused("info", manylangs)
    assert f"{path}: asks for " in message
    assert "run its code" in message
    path.write_bytes(pickle.dumps(attack))
    assert "encoder.pkl" in refused("info", manylangs)
    assert not touched.exists()


# Archives


def zip_of(path: Path, members: dict[str, bytes], **kwargs) -> Path:
    with zipfile.ZipFile(path, "w", **kwargs) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


@pytest.mark.parametrize(
    "name", ["../evil.json", "a/../../evil.json", "/tmp/evil.json", "..\\evil.json"]
)
def test_a_zip_cannot_write_outside(refused, model, tmp_path, name):
    members = {path.name: path.read_bytes() for path in model.iterdir()}
    path = zip_of(tmp_path / "m.zip", {name: b"{}", **members})
    assert "would be written outside; not unpacked" in refused("info", path)
    assert not list(Path(tmp_path).parent.rglob("evil.json"))
    assert not Path("/tmp/evil.json").exists()


def test_a_zip_cannot_hold_a_link(refused, tmp_path):
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as file:
        member = zipfile.ZipInfo("options.json")
        member.external_attr = (stat.S_IFLNK | 0o777) << 16
        file.writestr(member, "/etc/passwd")
    assert "is a link or a device" in refused("info", tmp_path / "m.zip")


def test_a_zip_that_unpacks_to_too_much_is_refused(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "FREE_BYTES", 100_000)
    members = {"options.json": b"{}", "weights.hdf5": b"\0" * 1_000_000}
    path = zip_of(tmp_path / "bomb.zip", members, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 5_000
    assert "unpacks to more than" in refused("info", path)
    # The same with a directory that lies about the size.
    data = path.read_bytes()
    path.write_bytes(data.replace((1_000_000).to_bytes(4, "little"), (50).to_bytes(4, "little")))
    assert path.read_bytes() != data
    assert "bomb.zip" in refused("info", path)


def test_a_damaged_zip_is_named(refused, model, tmp_path):
    members = {path.name: path.read_bytes() for path in model.iterdir()}
    path = zip_of(tmp_path / "m.zip", members)
    data = path.read_bytes()
    for size in (4, 100, len(data) // 2, len(data) - 10):
        path.write_bytes(data[:size])
        assert "m.zip" in refused("info", path)
    middle = data.index(b"\x89HDF") + 2000
    path.write_bytes(data[:middle] + b"\xff" * 50 + data[middle + 50 :])
    assert "m.zip" in refused("info", path)


# Places


@pytest.mark.parametrize("command", ["info", "convert", "embed"])
@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("nowhere", "nowhere: no such file or directory"),
        (
            "owner/name",
            "no such file or directory; a model of the Hugging Face hub is written hub:",
        ),
        ("https://example.org/model.zip", "a URL is not read; download it first"),
        ("hub:only-a-name", "hub:only-a-name: expected hub:owner/name"),
        ("{tmp}/in.txt", "neither a directory nor a zip or tar file"),
        ("{tmp}/empty", "no model of a known format; nearest: allennlp lacks options.json"),
    ],
)
def test_what_is_no_model_is_said(refused, text, tmp_path, command, source, part):
    (tmp_path / "empty").mkdir()
    source = source.format(tmp=tmp_path)
    arguments = {
        "info": ("info", source),
        "convert": ("convert", source, tmp_path / "to", "--to", "native"),
        "embed": ("embed", text, "-o", tmp_path / "out.h5", "--model", source),
    }
    assert part in refused(*arguments[command])


@pytest.mark.parametrize("to", ["native", "allennlp"])
def test_convert_overwrites_nothing(refused, model, text, tmp_path, to):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "note").write_text("mine")
    message = refused("convert", model, tmp_path / "taken", "--to", to)
    assert "not empty; give a new one, nothing is overwritten" in message
    assert "there is a file; give a new directory" in refused("convert", model, text, "--to", to)
    assert "in.txt" in refused("convert", model, text / "below", "--to", to)
    assert "not empty" in refused("convert", model, model, "--to", to)


def test_an_old_output_is_not_overwritten(refused, embed, tmp_path):
    (tmp_path / "out.h5").write_bytes(b"precious")
    assert refused(*embed).endswith("exists; use --overwrite to replace it, or give another name")
    assert "already complete; use --overwrite" in refused(*embed, "--resume")


@pytest.mark.parametrize(
    ("output", "part"),
    [
        ("out.h6", "the name of the output must end in one of .h5, .hdf5, .npz, .parquet, .jsonl"),
        ("out", "must end in one of"),
        ("in.txt/out.h5", "there is no folder"),
        ("nowhere/out.h5", "there is no folder"),
        ("folder.h5", "is a folder; give the name of a file"),
        ("blocked.h5", "is in the way of the folder of parts"),
    ],
)
def test_a_place_that_cannot_be_written_is_said(refused, text, model, tmp_path, output, part):
    (tmp_path / "folder.h5").mkdir()
    (tmp_path / "blocked.h5.parts").write_text("a file")
    message = refused("embed", text, "-o", tmp_path / output, "--model", model)
    assert part in message
    assert str(tmp_path / output) in message


def test_a_folder_that_refuses_is_said(refused, embed, monkeypatch):
    def refuse(self, *_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    message = refused(*embed)
    assert "out.h5.parts: Permission denied; make that place writable" in message


# Input


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("a.txt", b"ok\nab\xff\n", "line 2, byte 3 (byte 6 of the file): found ff"),
        ("a.jsonl", b'{"tokens": ["a"]}\n{"tokens": "a b"}\n', "line 2: tokens: expected a list"),
        ("a.jsonl", b'{"tokens": ["a"', "line 1, character"),
        ("a.jsonl", b'{"words": []}\n', "line 1: the record has neither 'tokens' nor 'text'"),
        ("a.conllu", b"a b c\n", "line 1: found 1 columns, expected the 10 of CoNLL-U"),
        ("a.fasta", b"MKV\n", "line 1: found text before the first record"),
        ("a.txt.gz", b"no gzip", "the compressed data is damaged"),
        ("a.txt.xz", b"\xfd7zXZ\x00", "the compressed data"),
    ],
)
def test_text_that_cannot_be_read_is_named(refused, model, tmp_path, name, content, part):
    (tmp_path / name).write_bytes(content)
    output = tmp_path / "out.h5"
    message = refused("embed", tmp_path / name, "-o", output, "--model", model)
    assert name in message
    assert part in message


def test_an_input_that_is_no_file_is_named(refused, model, tmp_path):
    options = ("-o", tmp_path / "out.h5", "--model", model)
    assert refused("embed", tmp_path / "nowhere.txt", *options) == (
        f"{tmp_path / 'nowhere.txt'}: cannot be read: No such file or directory"
    )
    assert "cannot be read: Is a directory" in refused("embed", tmp_path, *options)


def test_a_pipe_by_name_is_refused_instead_of_read_empty(elmo, model, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    ran = elmo("embed", tmp_path / "pipe", "-o", tmp_path / "out.h5", "--model", model)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "can be read only once; give it as standard input" in ran.err
    assert not (tmp_path / "out.h5").exists()


def test_a_bad_input_keeps_the_output_that_it_was_to_replace(refused, embed, text, tmp_path):
    (tmp_path / "out.h5").write_bytes(b"precious")
    text.write_bytes(b"\xff")
    assert "in.txt" in refused(*embed, "--overwrite")


def test_word_lists_that_are_no_utf8_are_named(refused, fixtures, tmp_path):
    (tmp_path / "m").mkdir()
    for name in ("options.json", "weights.hdf5", "vocab.txt"):
        shutil.copy(fixtures / "A3_token_lm" / name, tmp_path / "m")
    path = tmp_path / "m" / "vocab.txt"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\n\xff", 1))
    assert "vocab.txt, line 2: byte" in refused("info", tmp_path / "m")
    path.unlink()
    assert "needs its word list" in refused("info", tmp_path / "m")


# Settings


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (("--device", "gpu"), "device: 'gpu' cannot be used here"),
        (("--device", "cuda:99"), "device: 'cuda:99' cannot be used here"),
        (("--device", "meta"), "device: 'meta' cannot be used here"),
        (("--layers", "9"), "layers: 9 asks for a layer outside 0..3"),
        (("--layers", "0,9"), "asks for a layer outside 0..3"),
        (("--layers", "-1"), "asks for a layer outside 0..3"),
        (("--layers", "al"), "layers: 'al' is not all, mean, top, a number"),
        (("--layers", "0,"), "layers: '0,' is not"),
        (("--precision", "fp16"), "invalid choice 'fp16'"),
        (("--tokenizer", "word"), "tokenizer: 'word' is unknown (did you mean 'words'?)"),
        (("--encoding", "utf-9"), "encoding: 'utf-9' is no text encoding"),
        (("--encoding", "base64"), "encoding: 'base64' is no text encoding"),
        (("--format", "fasta"), "found text before the first record"),
        (("--format", "conllu", "--tokenizer", "words"), "comes in tokens; leave 'words' out"),
        (("--batch-size", "3"), "batch_size: belongs to state carry"),
        (("--state", "carry", "--batch-size", "0"), "batch_size: 0 must be 1 or more"),
        (("--batch-tokens", "0"), "batch_tokens: 0 must be 1 or more"),
        (("--part-rows", "-1"), "part_rows: -1 must be 1 or more"),
        (("--threads", "0"), "threads: 0 must be 1 or more"),
        (("--pooling", "mean", "--boundaries"), "boundaries: pooled vectors leave them out"),
        (("--overwrite", "--resume"), "--overwrite and --resume exclude each other"),
    ],
)
def test_settings_that_are_unknown_or_contradict_each_other(refused, embed, options, part):
    assert part in refused(*embed, *options)


def test_standard_input_cannot_be_resumed(refused, model, tmp_path):
    options = ("-o", tmp_path / "out.h5", "--model", model, "--resume")
    assert "standard input cannot be read again" in refused("embed", "-", *options)


def test_a_layout_is_for_hdf5(refused, text, model, tmp_path):
    options = ("-o", tmp_path / "out.npz", "--model", model, "--layout", "ragged")
    assert "layout ragged is for .h5 and .hdf5" in refused("embed", text, *options)


# Runs that are cut off


@pytest.fixture
def cut_off(elmo, embed, text, monkeypatch):
    """Cuts a run off after its first part; returns its arguments."""
    text.write_text(TEXT * 4)
    write = PartedOutput.write

    def once(self, *args, **kwargs):
        if self.num_rows_done:
            raise KeyboardInterrupt
        write(self, *args, **kwargs)

    arguments = (*embed, "--part-rows", "5")
    with monkeypatch.context() as patch:
        patch.setattr(PartedOutput, "write", once)
        ran = elmo(*arguments)
    assert ran.code == 130
    assert ran.err.endswith("elmo: interrupted\n")
    return arguments


def test_a_run_that_was_cut_off_is_resumed(elmo, cut_off, tmp_path):
    ran = elmo(*cut_off, "--resume")
    assert ran.code == 0
    assert "5 rows are done; going on with row 5" in ran.err
    whole = (*cut_off[:3], tmp_path / "whole.h5", *cut_off[4:])
    assert elmo(*whole).code == 0
    with open_embeddings(tmp_path / "out.h5") as one, open_embeddings(tmp_path / "whole.h5") as two:
        assert len(one) == len(two) == 12
        for resumed, straight in zip(one, two, strict=True):
            np.testing.assert_array_equal(resumed, straight)


def test_a_run_that_was_cut_off_stands_in_the_way_of_another(refused, cut_off):
    message = refused(*cut_off)
    assert "holds an unfinished run; use --resume to go on with it, or --overwrite" in message


@pytest.mark.parametrize(
    "options",
    [
        ("--layers", "mean"),
        ("--pooling", "max"),
        ("--dtype", "float16"),
        ("--precision", "bf16"),
        ("--state", "carry"),
        ("--boundaries",),
        ("--format", "text"),
        ("--tokenizer", "words"),
        ("--encoding", "latin-1"),
        ("--layout", "ragged"),
        ("--batch-tokens", "9"),
    ],
)
def test_a_changed_setting_is_named(refused, cut_off, options):
    message = refused(*cut_off, "--resume", *options)
    assert "cannot resume with other settings" in message
    assert f"{options[0][2:].replace('-', '_')}: " in message
    assert "change them back, or use --overwrite" in message


def test_all_changed_settings_are_named(refused, cut_off, fixtures, text):
    text.write_text("other text\n")
    options = ("--resume", "--part-rows", "6", "--model", fixtures / "A2_bilm_noskip")
    message = refused(*cut_off, *options)
    for name in ("input_sha256", "model_sha256", "part_rows: 5 -> 6"):
        assert name in message


def test_a_damaged_part_is_named(refused, cut_off, tmp_path):
    part = tmp_path / "out.h5.parts" / "000000.npz"
    part.write_bytes(part.read_bytes()[:100])
    message = refused(*cut_off, "--resume")
    assert re.search(
        r"000000\.npz: is damaged \(100 bytes, [\d,]+ were written\); use --overwrite", message
    )


def test_a_damaged_state_is_named(elmo, refused, embed, text, tmp_path):
    arguments = (*embed, "--state", "carry")
    write = PartedOutput.write
    text.write_text(TEXT * 100)
    with pytest.MonkeyPatch.context() as patch:

        def once(self, *args, **kwargs):
            if self.num_rows_done:
                raise KeyboardInterrupt
            write(self, *args, **kwargs)

        patch.setattr(PartedOutput, "write", once)
        assert elmo(*arguments, "--part-rows", "64").code == 130
    (state,) = (tmp_path / "out.h5.parts").glob("*.state")
    state.write_bytes(state.read_bytes()[:-1])
    message = refused(*arguments, "--part-rows", "64", "--resume")
    assert re.search(r"000000\.state: is damaged .*; use --overwrite", message)


# A full disk


def test_a_full_disk_is_one_line_and_keeps_what_is_done(elmo, cut_off, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    parts = tmp_path / "out.h5.parts"
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        ran = elmo(*cut_off, "--resume")
    assert ran.code == 2
    assert ran.err.splitlines()[-1].startswith("elmo: cannot write ")
    assert "No space left on device; free some space and use --resume" in ran.err
    assert "Traceback" not in ran.err
    assert (parts / "000000.npz").exists()
    assert not (tmp_path / "out.h5").exists()
    assert elmo(*cut_off, "--resume").code == 0


@pytest.mark.parametrize("to", ["native", "allennlp"])
def test_a_full_disk_leaves_no_half_model(refused, model, tmp_path, monkeypatch, to):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    message = refused("convert", model, tmp_path / "new", "--to", to)
    assert "No space left on device" in message


def test_a_real_limit_of_file_size(text, model, tmp_path):
    text.write_text(TEXT * 200)
    command = [sys.executable, "-m", "elmokit", "embed", text, "-o", tmp_path / "out.h5"]
    command += ["--model", model, "--threads", "1"]
    limited = ["bash", "-c", 'ulimit -f 64; exec "$@"', "-", *command]
    ran = subprocess.run(limited, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 2, ran.stderr
    assert ran.stderr.splitlines()[-1].startswith("elmo: cannot write ")
    assert "Traceback" not in ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "model"]


def test_a_resumed_run_without_a_part_is_a_new_one(elmo, embed, tmp_path):
    ran = elmo(*embed, "--resume")
    assert ran.code == 0
    assert "there is nothing to resume; starting afresh" in ran.err
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["0"].shape == (4, 3, 32)
