import sys

import pytest

from elmokit.errors import ConfigError, MissingExtraError
from elmokit.training.configfile import read_config

LEAST = "run_dir: run\ndata: {train: a.txt, vocabulary: v.txt}\n"


@pytest.fixture
def read(tmp_path):
    def read(text, *settings):
        path = tmp_path / "c.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_config(path, settings)

    return read


@pytest.fixture
def refusal(read, tmp_path):
    def refusal(text, *settings):
        with pytest.raises(ConfigError) as caught:
            read(text, *settings)
        message = str(caught.value)
        assert "\n" not in message
        return message.replace(f"{tmp_path}/", "")

    return refusal


def test_values_become_what_their_fields_are(read):
    config = read(
        LEAST
        + "optimizer: {name: adamw, learning_rate: 1e-3, clip_norm: 5, weight_decay: 1.0E+1}\n"
        + "schedule: {epochs: 3, steps: 1e3, batch_size: 16.0}\n"
        + "model: {cell_clip: null, filters: [[1, 2], [3, 4]]}\n"
    )
    assert config.data.train == ("a.txt",)
    assert config.optimizer.learning_rate == 0.001
    assert (config.optimizer.clip_norm, type(config.optimizer.clip_norm)) == (5.0, float)
    assert config.optimizer.weight_decay == 10.0
    assert (config.schedule.epochs, type(config.schedule.epochs)) == (3.0, float)
    assert (config.schedule.steps, type(config.schedule.steps)) == (1000, int)
    assert (config.schedule.batch_size, config.model.cell_clip) == (16, None)
    assert config.model.filters == ((1, 2), (3, 4))


def test_one_text_stands_for_a_list_of_one(read):
    assert read(LEAST, "data.heldout=b.txt").data.heldout == ("b.txt",)
    assert read(LEAST, "data.train=[a, b]").data.train == ("a", "b")


def test_settings_win_over_the_file(read):
    config = read(
        LEAST + "seed: 1\nschedule: {steps: 5}\n",
        *("seed=2", "schedule.steps=null", "schedule.window=7", "data.vocabulary=w=1.txt"),
        *("start.model=m", "optimizer.learning_rate=1e-2"),
    )
    assert (config.seed, config.schedule.steps, config.schedule.window) == (2, None, 7)
    assert config.data.vocabulary == "w=1.txt"
    assert config.start.model == "m"
    assert config.optimizer.learning_rate == 0.01


def test_a_section_may_stand_empty(read):
    assert read(LEAST + "schedule:\n  # steps: 3\nstart:\n").schedule.steps is None


def test_a_section_may_take_over_another(read):
    config = read(LEAST + "objective: &a {dropout: 0.2}\nstart: {<<: {model: m}, softmax: new}\n")
    assert (config.start.model, config.start.softmax) == ("m", "new")


def test_a_byte_order_mark_is_mended(read):
    assert read(b"\xef\xbb\xbf" + LEAST.encode()).run_dir == "run"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "c.yaml: field 'run_dir' is missing"),
        ("a list", "c.yaml: expected sections such as 'data:', found str"),
        ("- 1", "c.yaml: expected sections such as 'data:', found list"),
        (LEAST + "schedul: {}", "c.yaml: unknown field 'schedul' (did you mean 'schedule'?)"),
        (
            LEAST + "schedule: {batch: 3}",
            "c.yaml: schedule: unknown field 'batch' (did you mean 'batch_size'?)",
        ),
        (LEAST + "seed: one", "c.yaml: seed: expected int, found 'one'"),
        (LEAST + "seed: yes", "c.yaml: seed: expected int, found True"),
        (
            LEAST + "optimizer: {learning_rate: fast}",
            "c.yaml: optimizer: learning_rate: expected float, found 'fast'",
        ),
        (
            LEAST + "schedule: {window: 0}",
            "c.yaml: schedule: window: 0 must be 1 or more",
        ),
        (LEAST + "data:\n  train: b.txt\n", "c.yaml: line 3: 'data' stands there twice"),
        (LEAST + "schedule: {steps: 1, steps: 2}", "c.yaml: line 3: 'steps' stands there twice"),
        (LEAST + "schedule: [", "c.yaml: no valid YAML: while parsing"),
        (LEAST + "seed: 2020-02-30", "c.yaml: no valid YAML: day is out of range"),
        (LEAST + "? [1]\n: 2", "c.yaml: no valid YAML: while constructing a mapping"),
        (LEAST + "seed: !!python/name:os.system", "c.yaml: no valid YAML: could not determine"),
        (b"\xff", "c.yaml: byte 1 is not UTF-8; save it as UTF-8"),
        ("data: 3\nrun_dir: r", "c.yaml: data: expected named fields, found int"),
        ("data:\nrun_dir: r", "c.yaml: field 'data' is missing"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_field(refusal, text, message):
    assert refusal(text).startswith(message)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("seed", "--set seed: expected key=value, such as schedule.batch_size=32"),
        ("seed.x=1", "--set seed.x=1: seed is no section"),
        ("seed=[", "--set seed=[: no valid YAML"),
        ("seed=x", "c.yaml with --set: seed: expected int, found 'x'"),
        ("schedule.step=1", "c.yaml with --set: schedule: unknown field 'step' (did you mean"),
    ],
)
def test_a_wrong_setting_is_told(refusal, setting, message):
    assert refusal(LEAST + "seed: 1\n", setting).startswith(message)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file"):
        read_config(tmp_path / "none.yaml")


def test_a_missing_library_is_told(read, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingExtraError, match=r'needs pyyaml; pip install "elmokit\[train\]"'):
        read(LEAST)
