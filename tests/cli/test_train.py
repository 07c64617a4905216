import json

import pytest

from training.corpora import write_text
from training.runs import SECTIONS, records, saved, write_corpus


@pytest.fixture
def config(tmp_path, monkeypatch):
    """The YAML file of a small run, beside its text."""
    write_corpus(tmp_path)
    monkeypatch.chdir(tmp_path)
    data = {"train": "train.txt", "heldout": "heldout.txt", "vocabulary": "vocab.txt"}
    content = {"run_dir": "run", "data": data, **SECTIONS}
    (tmp_path / "c.yaml").write_text(json.dumps(content))  # JSON is YAML
    return tmp_path / "c.yaml"


STEPS = ("--set", "schedule.steps=3", "--set", "schedule.accumulate=1")


def test_a_plan_then_steps_then_a_model(elmo, config, tmp_path):
    ran = elmo("train", "c.yaml", *STEPS)
    assert (ran.code, ran.out) == (0, "")
    lines = ran.err.splitlines()
    assert [line.split()[0] for line in lines[:8]] == [
        *("text", "held", "words", "model", "step", "length", "time", "memory")
    ]
    assert lines[5] == "length     3 steps, 19 per epoch, 0.158 epochs"
    assert [line.split(",")[0] for line in lines[8:11]] == [
        f"step {number} of 3" for number in (1, 2, 3)
    ]
    assert lines[11].startswith("held-out perplexity after step 3: ")
    assert lines[12] == "finished after 3 steps: the model is in run/model"
    assert elmo("info", "run/model").out.startswith("format")
    assert elmo("embed", "train.txt", "-o", "out.npz", "--model", "run/model").code == 0


@pytest.mark.parametrize("kind", ["characters", "words"])
def test_models_of_other_input_embed(elmo, config, kind):
    assert elmo("train", "c.yaml", *STEPS, "--set", f"model.input={kind}").code == 0
    ran = elmo("embed", "train.txt", "-o", "out.npz", "--model", "run/model")
    assert (ran.code, ran.out) == (0, "")


def test_a_run_goes_on(elmo, config, tmp_path):
    assert elmo("train", "c.yaml", *STEPS).code == 0
    (tmp_path / "train.txt").unlink()
    ran = elmo("train", "c.yaml", "--resume", *STEPS, "--set", "schedule.steps=5")
    assert ran.code == 0
    assert "going on after step 3, epoch 0.16\n" in ran.err
    assert saved(tmp_path / "run")["step"] == 5
    steps = [line["step"] for line in records(tmp_path / "run") if line["kind"] == "train"]
    assert steps == [1, 2, 3, 4, 5]


def test_a_taken_directory_is_refused(elmo, refused, config):
    assert elmo("train", "c.yaml", *STEPS).code == 0
    assert refused("train", "c.yaml") == (
        "run_dir: run holds a run (checkpoint.pt); go on with it by --resume, or give another "
        "run_dir"
    )
    assert refused("train", "c.yaml", "--resume", "--set", "seed=7", *STEPS).startswith(
        "run: cannot resume with other settings (seed: 0 -> 7); change them back"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.yaml",), "none.yaml: cannot be read: No such file or directory"),
        (("c.yaml", "--resume"), "run_dir: run holds no run to resume; start without --resume"),
        (("c.yaml", "--set", "model.cell_dims=3"), "(did you mean 'cell_dim'?)"),
        (("c.yaml", "--set", "seed=x"), "c.yaml with --set: seed: expected int, found 'x'"),
        (("c.yaml", "--set", "seed"), "--set seed: expected key=value"),
        (("c.yaml", "--set", "device=gpu"), "device: 'gpu' cannot be used here"),
        (("c.yaml", "--set", "start.model=none"), "none: no such file or directory"),
        (("c.yaml", "--sett", "seed=1"), "--sett"),
        ((), "CONFIG"),
    ],
)
def test_what_is_wrong_is_one_line_and_leaves_no_trace(refused, config, arguments, message):
    assert message in refused("train", *arguments)


def test_numbers_that_are_no_longer_finite_end_the_run(elmo, config, tmp_path):
    ran = elmo("train", "c.yaml", *STEPS, "--set", "optimizer.learning_rate=1e30")
    assert ran.code == 2
    line = ran.err.splitlines()[-1]
    assert line.startswith("elmo: step 2, epoch 0.05: loss ")
    assert "no longer finite; nothing is overwritten, run/checkpoint.pt of step 0 is good" in line
    assert "Traceback" not in ran.err


def test_bad_text_is_told_with_its_line_and_the_mend(elmo, config, tmp_path):
    write_text(tmp_path / "b.txt", ["w1"])
    (tmp_path / "b.txt").write_bytes(b"w1\nw\xe9\n")
    ran = elmo("train", "c.yaml", "--set", "data.train=[train.txt, b.txt]")
    assert ran.code == 2
    assert ran.err == (
        "elmo: b.txt: line 2, byte 2 (byte 5 of the file): found e9 (invalid continuation byte), "
        "expected utf-8; give the encoding of the file: --encoding, or data.encoding of a run\n"
    )


def test_help_tells_what_may_be_set(elmo):
    ran = elmo("train", "--help")
    assert ran.code == 0
    for part in ("--set KEY=VALUE", "--resume", "schedule.batch_size=32"):
        assert part in ran.out
