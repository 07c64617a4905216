import logging
import os

import numpy as np
import pytest
import torch

from elmokit.embedding.manifest import move_into_place
from elmokit.errors import OutputError
from elmokit.tasks import layer_cache
from elmokit.tasks.layer_cache import LayerCache

SENTENCES = [["a", "b"], ["c"], ["a", "b"], ["a b"]]


class Source:
    """Layers that tell their words; counts what it computes."""

    def __init__(self):
        self.computed = []

    def __call__(self, sentences):
        self.computed += [tuple(sentence) for sentence in sentences]
        return [
            torch.tensor([[[layer + len(word) / 8] * 4 for word in words] for layer in (1, 2)])
            for words in sentences
        ]


@pytest.fixture
def source():
    return Source()


def open_cache(folder, source, sentences=SENTENCES, *, dtype="float32", most=1e6, **settings):
    fixed = {"fingerprint": "f", "layers": (0, 1), "dim": 4, **settings}
    return LayerCache(folder, dtype=dtype, max_bytes=most).open(sentences, source, **fixed)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_layers_are_those_computed(tmp_path, source, dtype):
    cache = open_cache(tmp_path, source, dtype=dtype)
    assert source.computed == [("a", "b"), ("c",), ("a b",)]  # each distinct sentence once
    for found, expected in zip(cache(SENTENCES), Source()(SENTENCES), strict=True):
        assert found.dtype == torch.float32
        assert torch.equal(found, expected)
        found += 1  # a copy: the file is not changed
    assert torch.equal(cache(SENTENCES)[0], Source()(SENTENCES)[0])


def test_other_sentences_are_computed(tmp_path, source):
    cache = open_cache(tmp_path, source)
    source.computed.clear()
    [known, other] = cache([["c"], ["d", "e"]])
    assert source.computed == [("d", "e")]
    assert (known.shape, other.shape) == ((2, 1, 4), (2, 2, 4))


def test_the_next_run_computes_nothing(tmp_path, source):
    open_cache(tmp_path, source)
    again = Source()
    cache = open_cache(tmp_path, again)
    assert again.computed == []
    assert torch.equal(cache(SENTENCES)[1], Source()(SENTENCES)[1])


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprint": "g"},
        {"layers": (0, 2)},
        {"dtype": "float16"},
        {"sentences": [["a", "b"], ["c"]]},
        {"sentences": [["a"], ["b", "c"], ["a b"]]},
    ],
)
def test_files_belong_to_model_layers_text_and_format(tmp_path, source, change):
    open_cache(tmp_path, source)
    again = Source()
    open_cache(tmp_path, again, **change)
    assert again.computed
    assert len(list(tmp_path.iterdir())) == 2


def test_space_is_bounded(tmp_path, source, caplog):
    size = 128 + 4 * 2 * 4 * 4  # 4 words
    for number in range(4):
        open_cache(tmp_path, source, most=3 * size, fingerprint=str(number))
        for age, path in enumerate(sorted(tmp_path.iterdir(), key=os.path.getmtime)):
            os.utime(path, (1e9 + age, 1e9 + age))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 3 * size
    again = Source()
    open_cache(tmp_path, again, most=3 * size, fingerprint="3")
    assert again.computed == []  # the newest are kept
    open_cache(tmp_path, again, most=3 * size, fingerprint="0")
    assert again.computed  # the oldest gave way
    with caplog.at_level(logging.WARNING):
        assert open_cache(tmp_path, source, most=10, fingerprint="x") is None
    assert "cache.max_gigabytes" in caplog.text


def test_files_that_another_run_takes_away_are_no_error(tmp_path, source):
    for name in (".x.0.part", "y.npy"):  # in the folder's list, gone when they are looked at
        (tmp_path / name).symlink_to(tmp_path / "gone")
    cache = open_cache(tmp_path, source)
    assert torch.equal(cache(SENTENCES)[0], Source()(SENTENCES)[0])


def test_a_file_that_gives_way_before_it_is_open_is_made_again(tmp_path, source, monkeypatch):
    moved = []

    def move(part, path):
        move_into_place(part, path)
        moved.append(path)
        if len(moved) == 1:
            path.unlink()

    monkeypatch.setattr(layer_cache, "move_into_place", move)
    cache = open_cache(tmp_path, source)
    assert len(moved) == 2
    source.computed.clear()
    assert torch.equal(cache(SENTENCES)[0], Source()(SENTENCES)[0])
    assert source.computed == []


def test_a_file_that_gives_way_once_it_is_open_can_be_read(tmp_path, source, monkeypatch):
    open_cache(tmp_path, source)
    opened = layer_cache._opened

    def open_and_remove(path, *args):
        vectors = opened(path, *args)
        path.unlink()
        return vectors

    monkeypatch.setattr(layer_cache, "_opened", open_and_remove)
    cache = open_cache(tmp_path, source)
    source.computed.clear()
    assert torch.equal(cache(SENTENCES)[0], Source()(SENTENCES)[0])
    assert source.computed == []


def test_a_damaged_file_is_made_anew(tmp_path, source, caplog):
    open_cache(tmp_path, source)
    [path] = tmp_path.iterdir()
    for damage in (b"", b"\x93NUMPY", path.read_bytes()[:-9]):
        path.write_bytes(damage)
        again = Source()
        cache = open_cache(tmp_path, again)
        assert again.computed
        assert torch.equal(cache(SENTENCES)[0], Source()(SENTENCES)[0])
    np.save(path, np.zeros((1, 2, 4), np.float32))
    again = Source()
    open_cache(tmp_path, again)
    assert again.computed
    assert "is damaged and made anew" in caplog.text


def test_a_cut_leaves_no_file(tmp_path):
    class Broken(Source):
        def __call__(self, sentences):
            yield from super().__call__(sentences[:1])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_cache(tmp_path, Broken())
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_refuses_is_named(tmp_path, source):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"file: layers cannot be kept there .*cache.use"):
        open_cache(tmp_path / "file", source)
