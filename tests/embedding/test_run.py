import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from builders import sentences_of_lengths
from elmokit import Embedder, open_embeddings
from elmokit.embedding.run import embed_file
from elmokit.embedding.settings import EmbedSettings
from elmokit.errors import ConfigError, InputError, OutputError

FORMATS = ("h5", "npz", "parquet", "jsonl")


@pytest.fixture(scope="module")
def model(fixtures):
    return fixtures / "A2_bilm_skip"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "in.txt"
    sentences = sentences_of_lengths([3, 0, 7, 1, 3] * 8)
    path.write_text("".join(" ".join(sentence) + "\n" for sentence in sentences))
    return path


def settings(text, output, model, **changes):
    return EmbedSettings(input=str(text), output=output, model=str(model), threads=1, **changes)


def stored(path):
    with open_embeddings(path) as file:
        return [(file.tokens(row), file[row]) for row in range(len(file))]


def assert_same_bits(path, other):
    pairs = list(zip(stored(path), stored(other), strict=True))
    assert pairs
    for (tokens, vectors), (other_tokens, other_vectors) in pairs:
        assert tokens == other_tokens
        assert vectors.dtype == other_vectors.dtype
        np.testing.assert_array_equal(vectors, other_vectors)


def test_rows_are_those_of_the_embedder(text, tmp_path, model):
    counts = embed_file(settings(text, tmp_path / "out.h5", model, part_rows=7))
    sentences = [line.split() for line in text.read_text().splitlines()]
    assert counts["rows"] == 40
    assert counts["tokens"] == sum(map(len, sentences))
    expected = Embedder.from_pretrained(model).embed(sentences)
    for (tokens, vectors), sentence, right in zip(
        stored(tmp_path / "out.h5"), sentences, expected, strict=True
    ):
        assert list(tokens) == sentence
        np.testing.assert_allclose(vectors, right, rtol=1e-5, atol=1e-5)


def test_a_rows_bits_do_not_depend_on_other_parts(text, tmp_path, model):
    embed_file(settings(text, tmp_path / "whole.npz", model, part_rows=10))
    lines = text.read_text().splitlines(keepends=True)
    (tmp_path / "second.txt").write_text("".join(lines[10:20]))
    embed_file(settings(tmp_path / "second.txt", tmp_path / "second.npz", model, part_rows=10))
    for (_, one), (_, other) in zip(
        stored(tmp_path / "whole.npz")[10:20], stored(tmp_path / "second.npz"), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_options_reach_the_output(text, tmp_path, model):
    emb = Embedder.from_pretrained(model)
    sentences = [line.split() for line in text.read_text().splitlines()]
    cases = [
        ({"layers": "mean"}, emb.embed(sentences, "mean")),
        ({"layers": "1"}, emb.embed(sentences, 1)),
        ({"layers": "0,2", "boundaries": True}, emb.embed(sentences, [0, 2], boundaries=True)),
        (
            {"layers": "top", "pooling": "max"},
            emb.embed_sentences(sentences, pooling="max", layers="top"),
        ),
    ]
    for number, (changes, expected) in enumerate(cases):
        path = tmp_path / f"{number}.h5"
        embed_file(settings(text, path, model, **changes))
        for (_, vectors), right in zip(stored(path), expected, strict=True):
            assert vectors.shape == right.shape
            np.testing.assert_allclose(vectors, right, rtol=1e-5, atol=1e-5)
    embed_file(settings(text, tmp_path / "half.h5", model, layers="mean", dtype="float16"))
    for (_, vectors), right in zip(stored(tmp_path / "half.h5"), cases[0][1], strict=True):
        assert vectors.dtype == np.float16
        np.testing.assert_allclose(vectors, right, rtol=1e-3, atol=1e-3)


def interrupted(text, output, model, monkeypatch, after, **changes):
    """Runs until `after` parts are written, then fails as if the power went."""
    from elmokit.embedding.parts import PartedOutput

    write, done = PartedOutput.write, []

    def failing(self, *args, **kwargs):
        if len(done) == after:
            raise KeyboardInterrupt
        done.append(1)
        return write(self, *args, **kwargs)

    monkeypatch.setattr(PartedOutput, "write", failing)
    with pytest.raises(KeyboardInterrupt):
        embed_file(settings(text, output, model, **changes))
    monkeypatch.setattr(PartedOutput, "write", write)
    assert not output.exists()


@pytest.mark.parametrize("changes", [{"part_rows": 7}, {"state": "carry", "batch_size": 3}])
def test_a_resumed_run_equals_an_uninterrupted_one(text, tmp_path, model, monkeypatch, changes):
    whole, cut = tmp_path / "whole.npz", tmp_path / "cut.npz"
    counts = embed_file(settings(text, whole, model, **changes))
    interrupted(text, cut, model, monkeypatch, 3, **changes)
    assert embed_file(settings(text, cut, model, resume=True, **changes)) == counts
    assert_same_bits(whole, cut)
    assert not (tmp_path / "cut.npz.parts").exists()


def test_resume_refuses_changes_and_names_them(text, tmp_path, model, monkeypatch, fixtures):
    output = tmp_path / "cut.npz"
    interrupted(text, output, model, monkeypatch, 2, part_rows=7)
    again = {"part_rows": 7, "resume": True}
    for name, value in {
        "part_rows": 8,
        "layers": "mean",
        "pooling": "max",
        "dtype": "float16",
        "precision": "bf16",
        "state": "carry",
        "boundaries": True,
        "batch_tokens": 5,
        "encoding": "latin-1",
        "tokenizer": "words",
        "format": "text",
    }.items():
        with pytest.raises(OutputError, match=f"{name}: .* -> "):
            embed_file(settings(text, output, model, **{**again, name: value}))
    with pytest.raises(OutputError, match="model_sha256: "):
        embed_file(settings(text, output, fixtures / "A2_bilm_noskip", **again))
    with text.open("a") as file:
        file.write("one more line\n")
    with pytest.raises(OutputError, match="input_sha256: "):
        embed_file(settings(text, output, model, **again))


def test_resume_in_int8_refuses_other_scales(text, tmp_path, model, monkeypatch):
    bilm = Embedder.from_pretrained(model, device="cpu", precision="int8").bilm
    bilm.save_pretrained(tmp_path / "model")
    output = tmp_path / "cut.npz"
    again = {"part_rows": 7, "precision": "int8"}
    interrupted(text, output, tmp_path / "model", monkeypatch, 2, **again)
    path = tmp_path / "model" / "activations.json"
    data = json.loads(path.read_text())
    data["ranges"]["token_encoder.projection"] = [0, 1, 1]
    path.write_text(json.dumps(data))
    with pytest.raises(OutputError, match="model_sha256: "):
        embed_file(settings(text, output, tmp_path / "model", resume=True, **again))


def kill_after_parts(command, manifest, parts):
    """Kills a process with SIGKILL once its manifest lists so many parts; tells how many it has."""
    process = subprocess.Popen(
        command, stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            if manifest.exists():
                done = len(json.loads(manifest.read_text())["parts"])
                if done >= parts:
                    break
            time.sleep(0.002)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert process.returncode == -signal.SIGKILL, "the run ended before it was killed"
    return len(json.loads(manifest.read_text())["parts"])


def run_and_kill(tmp_path, model, output, parts):
    text = tmp_path / "many.txt"
    sentences = sentences_of_lengths([4, 9, 2, 0, 6] * 400)
    text.write_text("".join(" ".join(sentence) + "\n" for sentence in sentences))
    command = [sys.executable, "-m", "elmokit", "embed", str(text), "-o", str(output)]
    command += ["--model", str(model), "--threads", "1", "--part-rows", "20"]
    manifest = output.with_name(f"{output.name}.parts") / "manifest.json"
    assert parts <= kill_after_parts(command, manifest, parts) < 100
    assert not output.exists()
    return text


def test_kill_and_resume_in_every_format(tmp_path, model):
    killed = tmp_path / "killed.h5"
    text = run_and_kill(tmp_path, model, killed, 10)
    embed_file(settings(text, tmp_path / "whole.npz", model, part_rows=20))
    for suffix in FORMATS:
        output = tmp_path / f"resumed.{suffix}"
        shutil.copytree(tmp_path / "killed.h5.parts", tmp_path / f"{output.name}.parts")
        embed_file(settings(text, output, model, part_rows=20, resume=True))
        assert_same_bits(tmp_path / "whole.npz", output)


@pytest.mark.soak
@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("parts", [0, 1, 13, 44, 90])
def test_kill_at_many_moments(tmp_path, model, suffix, parts):
    output = tmp_path / f"killed.{suffix}"
    text = run_and_kill(tmp_path, model, output, parts)
    embed_file(settings(text, tmp_path / "whole.npz", model, part_rows=20))
    embed_file(settings(text, output, model, part_rows=20, resume=True))
    assert_same_bits(tmp_path / "whole.npz", output)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"batch_size": 3}, ConfigError, "batch_size: belongs to state carry"),
        ({"batch_tokens": 0}, ConfigError, "batch_tokens: 0 must be 1 or more"),
        ({"part_rows": 0}, ConfigError, "part_rows"),
        ({"pooling": "mean", "boundaries": True}, ConfigError, "boundaries"),
        ({"layers": "9"}, ConfigError, "outside 0..3"),
        ({"layers": "a,b"}, ConfigError, "layers: 'a,b'"),
        ({"device": "gpu"}, ConfigError, "device"),
        ({"tokenizer": "wrods"}, ConfigError, "words"),
        ({"format": "jsonl"}, InputError, "in.txt"),
    ],
)
def test_wrong_settings_leave_nothing_behind(text, tmp_path, model, changes, error, message):
    with pytest.raises(error, match=message):
        embed_file(settings(text, tmp_path / "out.h5", model, **changes))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt"]


def test_an_old_output_stays_until_the_new_one_is_complete(text, tmp_path, model):
    output = tmp_path / "out.npz"
    output.write_bytes(b"precious")
    with pytest.raises(OutputError, match="--overwrite"):
        embed_file(settings(text, output, model))
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"good\n\xff\n")
    with pytest.raises(InputError, match="line 2"):
        embed_file(settings(bad, output, model, overwrite=True))
    assert output.read_bytes() == b"precious"
    embed_file(settings(text, output, model, overwrite=True))
    assert len(stored(output)) == 40
