import json
import os

import pytest

from elmokit.embedding.manifest import Manifest, Part, write_atomically
from elmokit.errors import OutputError
from embedding.rows import names

PART = Part(
    name="000000.npz",
    first_row=0,
    num_rows=3,
    num_tokens=7,
    num_bytes=900,
    summary={"cut_tokens": 1},
    has_state=False,
)
SETTINGS = {"layers": [0, 2], "pooling": "none", "threads": 2, "boundaries": False, "seed": None}


def test_a_manifest_is_read_as_it_was_saved(tmp_path):
    manifest = Manifest(settings=SETTINGS).with_part(PART).with_stage("written")
    manifest.save(tmp_path / "manifest.json")
    assert Manifest.load(tmp_path / "manifest.json") == manifest
    assert names(tmp_path) == ["manifest.json"]


def test_rows_are_counted_to_the_end_of_the_last_part():
    manifest = Manifest(settings={})
    assert manifest.num_rows == 0
    assert manifest.with_part(PART).num_rows == 3


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_save_that_fails_leaves_the_old_manifest(tmp_path, monkeypatch, step):
    path = tmp_path / "manifest.json"
    Manifest(settings=SETTINGS).save(path)

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as context:
        context.setattr(os, step, fail)
        with pytest.raises(OSError, match="No space"):
            Manifest(settings={}).save(path)
    assert Manifest.load(path).settings == SETTINGS


def test_equal_settings_pass():
    Manifest(settings=SETTINGS).check_settings(dict(reversed(SETTINGS.items())), "out.h5")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pooling": "mean"}, r'\(pooling: "none" -> "mean"\)'),
        ({"layers": [0]}, r"\(layers: \[0, 2\] -> \[0\]\)"),
        ({"boundaries": 0}, r"\(boundaries: false -> 0\)"),
        ({"dtype": "float16"}, r'\(dtype: nothing -> "float16"\)'),
        ({"threads": 1, "seed": 3}, r"\(seed: null -> 3; threads: 2 -> 1\)"),
    ],
)
def test_each_setting_that_differs_is_named(changes, message):
    with pytest.raises(OutputError, match=message) as caught:
        Manifest(settings=SETTINGS).check_settings({**SETTINGS, **changes}, "out.h5")
    assert str(caught.value).startswith("out.h5: cannot resume")
    assert "--overwrite" in str(caught.value)


def test_a_setting_that_is_gone_is_named():
    with pytest.raises(OutputError, match=r"\(seed: null -> nothing\)"):
        Manifest(settings=SETTINGS).check_settings(
            {name: value for name, value in SETTINGS.items() if name != "seed"}, "out.h5"
        )


GOOD = {"version": 1, "settings": {}, "parts": [], "stage": "writing"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"version": 1',
        json.dumps({**GOOD, "parts": [{"name": "x"}]}).encode(),
        json.dumps({**GOOD, "stage": "done"}).encode(),
        json.dumps({**GOOD, "settings": 3}).encode(),
    ],
)
def test_damage_gives_one_line_with_the_mend(tmp_path, content):
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(OutputError, match=r"manifest\.json: damaged .*--overwrite") as caught:
        Manifest.load(tmp_path / "manifest.json")
    assert "\n" not in str(caught.value)


def test_another_version_is_refused(tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps({**GOOD, "version": 2}))
    with pytest.raises(OutputError, match="has version 2, this elmokit reads 1; use --overwrite"):
        Manifest.load(tmp_path / "manifest.json")


def test_files_are_replaced_as_a_whole(tmp_path):
    write_atomically(tmp_path / "a", b"1")
    write_atomically(tmp_path / "a", b"22")
    assert (tmp_path / "a").read_bytes() == b"22"
    assert names(tmp_path) == ["a"]
