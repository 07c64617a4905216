import dataclasses
import json
import os

import pytest

from elmokit.embedding.manifest import VERSION, Digest, Manifest, Part, _sha256, write_atomically
from elmokit.errors import OutputError
from embedding.rows import names

PART = Part(
    name="000000.npz",
    first_row=0,
    num_rows=3,
    num_tokens=7,
    summary={"cut_tokens": 1},
    file=Digest(num_bytes=900, sha256="ab12"),
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


GOOD = {"version": VERSION, "settings": {}, "parts": [], "stage": "writing"}
SECOND = {**dataclasses.asdict(PART), "name": "000001.npz", "first_row": 3}


def forged(**fields) -> bytes:
    """A manifest whose digest fits what it holds."""
    data = {**GOOD, **fields}
    return json.dumps({**data, "sha256": _sha256(data)}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'"version"',
        b'{"version": 2',
        b'{"version": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        json.dumps(GOOD).encode(),
        forged(parts=[{"name": "x"}]),
        forged(stage="done"),
        forged(settings=3),
    ],
)
def test_damage_gives_one_line_with_the_mend(tmp_path, content):
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(OutputError, match=r"manifest\.json: damaged .*--overwrite") as caught:
        Manifest.load(tmp_path / "manifest.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(stage="written"),
        lambda data: data["parts"].pop(),
        lambda data: data["parts"].append(data["parts"][-1]),
        lambda data: data["parts"].reverse(),
        lambda data: data["parts"][0].update(num_tokens=8),
        lambda data: data["parts"][1].update(first_row=4),
        lambda data: data["settings"].update(pooling="max"),
        lambda data: data.update(note="mine"),
    ],
)
def test_a_manifest_that_was_changed_is_refused(tmp_path, change):
    path = tmp_path / "manifest.json"
    second = Part(**{**SECOND, "file": PART.file})
    Manifest(settings=SETTINGS).with_part(PART).with_part(second).save(path)
    data = json.loads(path.read_bytes())
    path.write_text(json.dumps(data))  # laid out otherwise, which changes nothing
    assert Manifest.load(path).num_rows == 6
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(OutputError, match=r"damaged .*it is not as it was written.*--overwrite"):
        Manifest.load(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"first_row": 4},
        {"first_row": 2},
        {"name": "000000.npz"},
        {"name": "../000001.npz"},
        {"num_rows": -1},
    ],
)
def test_parts_that_do_not_follow_on_each_other_are_refused(tmp_path, changes):
    path = tmp_path / "manifest.json"
    parts = [dataclasses.asdict(PART), {**SECOND, **changes}]
    path.write_bytes(forged(parts=parts))
    with pytest.raises(OutputError, match=r"damaged .*parts\[1\] does not follow"):
        Manifest.load(path)


def test_another_version_is_refused(tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps({**GOOD, "version": 1}))
    with pytest.raises(OutputError, match="has version 1, this elmokit reads 2; use --overwrite"):
        Manifest.load(tmp_path / "manifest.json")


def test_a_digest_tells_what_became_of_a_file(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    digest = Digest.of(path)
    assert digest == Digest.of_bytes(b"12345")
    digest.check(path)
    for content, what in ((b"1234", "4 bytes, 5 were written"), (b"12346", "other bytes")):
        path.write_bytes(content)
        with pytest.raises(OutputError, match=rf"a: is damaged \({what}.*--overwrite"):
            digest.check(path)
    path.unlink()
    with pytest.raises(OutputError, match="a: is missing; use --overwrite"):
        digest.check(path)


def test_files_are_replaced_as_a_whole(tmp_path):
    write_atomically(tmp_path / "a", b"1")
    write_atomically(tmp_path / "a", b"22")
    assert (tmp_path / "a").read_bytes() == b"22"
    assert names(tmp_path) == ["a"]
