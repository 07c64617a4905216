"""The two-pass search against all products, and the index built with it."""

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import char_bilm, sentences_of_lengths
from elmokit import Embedder
from elmokit.analysis import index as index_module
from elmokit.analysis import indexing, nearest
from elmokit.analysis.examples import unit
from elmokit.analysis.index import Index
from elmokit.analysis.indexing import build_index
from elmokit.analysis.nearest import Table, TableWriter
from elmokit.analysis.neighbors import find_neighbors, find_word
from elmokit.embedding.place import claim
from elmokit.errors import ConfigError, InputError, OutputError
from elmokit.tasks.fingerprint import fingerprint

SENTENCES = [
    *sentences_of_lengths([7, 1, 12, 5], seed=1),
    ["they", "sat", "on", "the", "bank", "of", "the", "river"],
    *sentences_of_lengths([9, 30], seed=2),
    ["they", "sat", "on", "the", "bank", "of", "the", "river"],
    ["she", "went", "to", "the", "bank"],
]


@pytest.fixture(scope="module")
def emb():
    return Embedder(char_bilm(), device="cpu")


@pytest.fixture(scope="module")
def index(emb, tmp_path_factory):
    return build_index(emb, SENTENCES, tmp_path_factory.mktemp("index") / "index")


def written(folder, vectors):
    writer = TableWriter(folder, "t", vectors.shape)
    for part in np.array_split(vectors, 3):
        writer.add(part)
    return Table(folder, "t", writer.close())


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1.0, 20.0]), st.integers(1, 12))
def test_the_nearest_are_those_of_all_products(tmp_path_factory, seed, common, k):
    """In blocks of rows; vectors that point about one way (common) differ less than int8 tells."""
    order = np.random.default_rng(seed)
    vectors = unit(order.standard_normal((200, 24), dtype=np.float32) + np.float32(common))
    vectors[7] = vectors[3]
    table = written(tmp_path_factory.mktemp("table"), vectors)
    asked = order.standard_normal(24).astype(np.float32) + np.float32(common)
    exact = unit(vectors.astype(np.float16).astype(np.float32)) @ unit(asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest, "_ROWS", 64)
        found = table.nearest(asked, k)
    assert [cosine for _, cosine in found] == pytest.approx(np.sort(exact)[::-1][:k], abs=1e-6)
    assert [exact[row] for row, _ in found] == pytest.approx([c for _, c in found], abs=1e-6)
    assert len({row for row, _ in found}) == k


def test_equal_ones_come_in_their_order_and_a_short_table_gives_what_it_has(tmp_path):
    vectors = unit(np.array([[0, 1], [1, 0], [1, 0], [0, 0]], dtype=np.float32))
    table = written(tmp_path, vectors)
    assert [row for row, _ in table.nearest(np.array([5, 0], np.float32), 9)] == [1, 2, 0, 3]


def test_a_sentence_of_the_corpus_finds_itself_and_its_double_first(emb, index):
    tokens = SENTENCES[4]
    place = find_word(tokens, "bank")
    found = find_neighbors(emb, index, tokens, place, k=3)
    assert sorted(found.layers) == [1, 2]
    for near in found.layers.values():
        assert [x.sentence for x in near[:2]] == [4, 7]
        assert [x.cosine for x in near[:2]] == pytest.approx([1, 1], abs=1e-6)
        assert near[0].tokens == tuple(tokens)
        assert near[0].place == place
        assert near[2].cosine < 0.9999
    assert found.static[0] == ("bank", pytest.approx(1, abs=1e-6))
    assert near[0].shown(2) == "... on the [bank] of the ..."
    assert near[0].shown(9) == "they sat on the [bank] of the river"


def test_neighbours_are_the_nearest_of_all_tokens(emb, index):
    asked = ["a", "new", "sentence"]
    vectors = [emb.embed([tokens], 2)[0] for tokens in SENTENCES]
    cosines = unit(np.concatenate(vectors)) @ unit(emb.embed([asked], 2)[0][1])
    found = find_neighbors(emb, index, asked, 1, layers=[0, 2], k=5)
    assert list(found.layers) == [2]
    got = [x.cosine for x in found.layers[2]]
    assert got == pytest.approx(np.sort(cosines)[::-1][:5], abs=1e-3)


def test_a_layer_that_the_index_lacks(emb, index):
    with pytest.raises(ConfigError, match=r"the index holds \[0, 1, 2\], not all of \[3\]"):
        find_neighbors(emb, index, ["a"], 0, layers=[3])


def test_index_knows_its_corpus(index):
    assert index.num_tokens == sum(map(len, SENTENCES))
    assert index.num_sentences == len(SENTENCES)
    row, tokens, place = index.sentence(7)
    assert (row, tokens, place) == (1, tuple(SENTENCES[1]), 0)


def test_an_index_of_another_model(index):
    with pytest.raises(ConfigError, match="was made with another model"):
        find_neighbors(Embedder(char_bilm(seed=1)), index, ["a"], 0)


def test_the_place_of_an_index(emb, index, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for name in ("file", "folder"):
        with pytest.raises(OutputError, match="is in the way, and is no index"):
            build_index(emb, SENTENCES, tmp_path / name, overwrite=True)
    with pytest.raises(OutputError, match="use --overwrite"):
        build_index(emb, SENTENCES, index.folder)
    with pytest.raises(OutputError, match="there is no folder"):
        build_index(emb, SENTENCES, tmp_path / "no" / "index")
    with pytest.raises(InputError, match="not a single token"):
        build_index(emb, [[]], tmp_path / "index")
    for name in ("file", "folder"):
        with pytest.raises(InputError, match="is no index; make one"):
            Index(tmp_path / name)


def test_a_model_is_looked_at_again_after_it_has_changed(index, monkeypatch):
    emb, seen = Embedder(char_bilm(), device="cpu"), []

    def counted(bilm):
        seen.append(bilm)
        return fingerprint(bilm)

    monkeypatch.setattr(index_module, "fingerprint", counted)
    for _ in range(3):
        find_neighbors(emb, index, ["a"], 0)
    assert len(seen) == 1
    find_neighbors(Embedder(char_bilm(), device="cpu"), index, ["a"], 0)
    assert len(seen) == 2
    with torch.inference_mode():  # tensors that are made here do not count their changes
        find_neighbors(Embedder(char_bilm(), device="cpu"), index, ["a"], 0)
    find_neighbors(emb, index, ["a"], 0)
    emb.calibrate(SENTENCES)
    with pytest.raises(ConfigError, match="was made with another model"):
        find_neighbors(emb, index, ["a"], 0)


def full_disk(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_build_that_fails_leaves_the_old_index(emb, tmp_path, monkeypatch):
    """A full disk shows when a file is made; once it is mapped, it would end the process."""
    old = build_index(emb, SENTENCES, tmp_path / "index")
    monkeypatch.setattr(os, "posix_fallocate", full_disk, raising=False)
    with pytest.raises(OutputError, match="No space left"):
        build_index(emb, SENTENCES[:3], tmp_path / "index", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
    monkeypatch.undo()
    assert Index(tmp_path / "index").num_tokens == old.num_tokens
    assert build_index(emb, SENTENCES[:3], tmp_path / "index", overwrite=True).num_sentences == 3


def test_a_place_where_no_space_can_be_reserved_will_do(emb, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    assert build_index(emb, SENTENCES, tmp_path / "one").num_sentences == len(SENTENCES)
    monkeypatch.delattr(os, "posix_fallocate")
    assert build_index(emb, SENTENCES, tmp_path / "two").num_sentences == len(SENTENCES)


@pytest.fixture
def half_replaced(emb, tmp_path, monkeypatch):
    """Ends a build between its two renames; returns the place of the index."""
    build_index(emb, SENTENCES, tmp_path / "index")
    rename = Path.rename

    def build(ending, shown):
        def until_parts(self, target):
            if self.name == "index.parts":
                raise ending
            return rename(self, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", until_parts)
            with pytest.raises(shown):
                build_index(emb, SENTENCES[:3], tmp_path / "index", overwrite=True)
        return tmp_path / "index"

    return build


def test_an_index_that_was_being_replaced_is_brought_back(emb, half_replaced):
    folder = half_replaced(SystemExit(), SystemExit)
    assert not folder.exists()
    with pytest.raises(OutputError, match="use --overwrite"):
        build_index(emb, SENTENCES[:3], folder)
    assert Index(folder).num_sentences == len(SENTENCES)
    assert build_index(emb, SENTENCES[:3], folder, overwrite=True).num_sentences == 3
    assert [path.name for path in folder.parent.iterdir()] == ["index"]


def test_an_index_that_was_being_replaced_gives_way_to_one_in_its_place(emb, half_replaced):
    folder = half_replaced(SystemExit(), SystemExit)
    shutil.copytree(folder.with_name("index.parts") / "replaced", folder)
    assert build_index(emb, SENTENCES[:2], folder, overwrite=True).num_sentences == 2
    assert [path.name for path in folder.parent.iterdir()] == ["index"]


def test_a_disk_that_is_full_at_the_last_rename_takes_no_index(half_replaced):
    folder = half_replaced(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), OutputError)
    assert Index(folder).num_sentences == len(SENTENCES)
    assert [path.name for path in folder.parent.iterdir()] == ["index"]


@pytest.fixture
def cut_off(emb, tmp_path, monkeypatch):
    """Cuts a build off after five sentences; returns the folder of parts."""

    def build(ending):
        stream = Embedder.stream

        def cut(self, sentences, layers):
            for number, vectors in enumerate(stream(self, sentences, layers)):
                if number == 5:
                    raise ending
                yield vectors

        with monkeypatch.context() as patch:
            patch.setattr(indexing, "_SENTENCES_AT_ONCE", 2)
            patch.setattr(Embedder, "stream", cut)
            with pytest.raises(type(ending)):
                build_index(emb, SENTENCES, tmp_path / "index")
        return tmp_path / "index.parts"

    return build


@pytest.fixture
def read(monkeypatch):
    """The lengths of the sentences that are embedded from now on."""
    lengths, stream = [], Embedder.stream

    def counted(self, sentences, layers):
        for vectors in stream(self, sentences, layers):
            lengths.append(vectors.shape[1])
            yield vectors

    monkeypatch.setattr(Embedder, "stream", counted)
    return lengths


@pytest.mark.parametrize(("ending", "kept"), [(KeyboardInterrupt(), 5), (SystemExit(), 4)])
def test_a_build_that_was_cut_off_goes_on(emb, index, tmp_path, cut_off, read, ending, kept):
    part = cut_off(ending)
    read.clear()
    built = build_index(emb, SENTENCES, tmp_path / "index")
    assert read == [len(sentence) for sentence in SENTENCES[kept:]]
    assert not part.exists()
    assert {path.name for path in built.folder.iterdir()} == {
        path.name for path in index.folder.iterdir()
    }
    for layer in index.layers:
        for kind in ("float16", "int8"):
            name = f"layer{layer}.{kind}.npy"
            found, right = np.load(built.folder / name), np.load(index.folder / name)
            assert np.abs(found.astype(float) - right).max() <= (1 if kind == "int8" else 1e-3)
        found, right = (
            json.loads((folder / "manifest.json").read_text())["errors"][f"layer{layer}"]
            for folder in (built.folder, index.folder)
        )
        assert found == pytest.approx(right, rel=0.05)


def _damage(part, change):
    table, mark = part / "layer1.float16.npy", part / "begun.json"
    begun = json.loads(mark.read_text())
    if change == "no table":
        table.unlink()
    elif change == "empty table":
        table.write_bytes(b"")
    elif change == "short table":
        table.write_bytes(table.read_bytes()[:-7])
    elif change == "other table":
        np.save(table, np.load(table).astype(np.float32))
    else:
        changes = {
            "text": "{",
            "deep": "[" * 100_000,
            "list": "[]",
            "count": json.dumps(begun | {"sentences": "2"}),
            "fraction": json.dumps(begun | {"sentences": 2.5}),
            "below": json.dumps(begun | {"sentences": -1}),
            "beyond": json.dumps(begun | {"sentences": 9999}),
            "errors": json.dumps(begun | {"errors": None}),
            "error": json.dumps(begun | {"errors": {"layer1": "a"}}),
            "key": json.dumps(begun | {"more": 1}),
        }
        mark.write_text(changes[change])


@pytest.mark.parametrize(
    "change",
    [
        *("no table", "empty table", "short table", "other table"),
        *("text", "deep", "list", "count", "fraction", "below", "beyond", "errors", "error", "key"),
    ],
)
def test_a_damaged_build_starts_afresh(emb, tmp_path, cut_off, read, change):
    _damage(cut_off(SystemExit()), change)
    read.clear()
    assert build_index(emb, SENTENCES, tmp_path / "index").num_sentences == len(SENTENCES)
    assert len(read) == len(SENTENCES)


@pytest.mark.parametrize("change", ["corpus", "model", "precision"])
def test_a_build_of_something_else_starts_afresh(emb, tmp_path, cut_off, read, change):
    cut_off(SystemExit())
    sentences = [*SENTENCES, ["more"]] if change == "corpus" else SENTENCES
    other = Embedder(char_bilm(seed=int(change == "model")))
    if change == "precision":
        other.precision = "int8"
    read.clear()
    build_index(other, sentences, tmp_path / "index")
    assert len(read) == len(sentences)


def test_the_folder_of_parts_is_claimed(emb, tmp_path):
    with claim(tmp_path / "index"), pytest.raises(OutputError, match="another process"):
        build_index(emb, SENTENCES, tmp_path / "index")
    (tmp_path / "index.parts" / "thesis.txt").write_text("")
    with pytest.raises(OutputError, match=r"is needed, but holds thesis\.txt"):
        build_index(emb, SENTENCES, tmp_path / "index")


def test_an_index_behind_a_link_is_replaced(emb, tmp_path):
    build_index(emb, SENTENCES, tmp_path / "real")
    (tmp_path / "index").symlink_to(tmp_path / "real")
    assert build_index(emb, SENTENCES[:3], tmp_path / "index", overwrite=True).num_sentences == 3
    assert Index(tmp_path / "real").num_sentences == 3
    assert {path.name for path in tmp_path.iterdir()} == {"real", "index"}


@pytest.mark.parametrize(
    "damage", ["manifest", "cut", "latin-1", "deep", "nameless", "table", "missing", "version"]
)
def test_a_damaged_index(index, tmp_path, damage):
    copy = tmp_path / "copy"
    shutil.copytree(index.folder, copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    nameless = {key: value for key, value in manifest.items() if key != "model_sha256"}
    texts = {
        "manifest": "{}",
        "cut": json.dumps(manifest)[:-9],
        "latin-1": json.dumps(manifest | {"model_name": "Käthe"}, ensure_ascii=False),
        "deep": "[" * 100_000,
        "nameless": json.dumps(nameless),
        "version": json.dumps(manifest | {"version": 99}),
    }
    if damage in texts:
        (copy / "manifest.json").write_text(texts[damage], encoding="latin-1")
    elif damage == "missing":
        (copy / "layer1.int8.npy").unlink()
    else:
        (copy / "layer1.float16.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(InputError, match=r"make (the index|it) anew"):
        Index(copy)


def test_the_word_in_the_sentence():
    tokens = ["the", "bank", "by", "the", "bank"]
    assert find_word(tokens, "bank", 2) == 4
    with pytest.raises(InputError, match="'Bank' is no token of the sentence"):
        find_word(tokens, "Bank")
    with pytest.raises(InputError, match="sentence: has no token"):
        find_word([], "bank")
    with pytest.raises(InputError, match="occurrence: 3 of 'bank', which stands there 2x"):
        find_word(tokens, "bank", 3)
