"""The two-pass search against all products, and the index built with it."""

import json
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import char_bilm, sentences_of_lengths
from elmokit import Embedder
from elmokit.analysis import indexing
from elmokit.analysis.examples import unit
from elmokit.analysis.index import Index
from elmokit.analysis.indexing import build_index
from elmokit.analysis.nearest import Table, TableWriter
from elmokit.analysis.neighbors import find_neighbors, find_word
from elmokit.errors import ConfigError, InputError, OutputError

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
    """Vectors that point about one way (common) differ less than int8 can tell."""
    order = np.random.default_rng(seed)
    vectors = unit(order.standard_normal((200, 24), dtype=np.float32) + np.float32(common))
    vectors[7] = vectors[3]
    table = written(tmp_path_factory.mktemp("table"), vectors)
    asked = order.standard_normal(24).astype(np.float32) + np.float32(common)
    exact = unit(vectors.astype(np.float16).astype(np.float32)) @ unit(asked)
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
    with pytest.raises(InputError, match="is no index; make one"):
        Index(tmp_path / "folder")


def test_a_build_that_fails_leaves_the_old_index(emb, tmp_path, monkeypatch):
    old = build_index(emb, SENTENCES, tmp_path / "index")

    def fail(self):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(TableWriter, "close", fail)
    with pytest.raises(OutputError, match="No space left"):
        build_index(emb, SENTENCES[:3], tmp_path / "index", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
    monkeypatch.undo()
    assert Index(tmp_path / "index").num_tokens == old.num_tokens
    assert build_index(emb, SENTENCES[:3], tmp_path / "index", overwrite=True).num_sentences == 3


@pytest.mark.parametrize("change", ["nothing", "corpus", "model", "mark"])
def test_a_build_that_was_cut_off_goes_on(emb, index, tmp_path, monkeypatch, change):
    monkeypatch.setattr(indexing, "_SENTENCES_AT_ONCE", 2)
    stream, read = Embedder.stream, []

    def cut_off(self, sentences, layers):
        for number, vectors in enumerate(stream(self, sentences, layers)):
            if number == 5:
                raise KeyboardInterrupt
            yield vectors

    def counted(self, sentences, layers):
        for vectors in stream(self, sentences, layers):
            read.append(vectors.shape[1])
            yield vectors

    monkeypatch.setattr(Embedder, "stream", cut_off)
    with pytest.raises(KeyboardInterrupt):
        build_index(emb, SENTENCES, tmp_path / "index")
    part = tmp_path / "index.part"
    assert part.is_dir()
    monkeypatch.setattr(Embedder, "stream", counted)
    sentences = [*SENTENCES, ["more"]] if change == "corpus" else SENTENCES
    model = Embedder(char_bilm(seed=1)) if change == "model" else emb
    if change == "mark":
        (part / "begun.json").write_text("{")
    built = build_index(model, sentences, tmp_path / "index")
    skipped = 4 if change == "nothing" else 0
    assert read == [len(sentence) for sentence in sentences[skipped:]]
    assert not part.exists()
    assert not (tmp_path / "index" / "begun.json").exists()
    if change in ("nothing", "mark"):
        for layer in index.layers:
            for name in (f"layer{layer}.float16.npy", f"layer{layer}.int8.npy"):
                found, right = np.load(built.folder / name), np.load(index.folder / name)
                assert np.abs(found.astype(float) - right).max() <= (1 if "int8" in name else 1e-3)
            error = built._manifest["errors"][f"layer{layer}"]
            assert error == pytest.approx(index._manifest["errors"][f"layer{layer}"], rel=0.05)


@pytest.mark.parametrize("damage", ["manifest", "table", "missing", "version"])
def test_a_damaged_index(index, tmp_path, damage):
    copy = tmp_path / "copy"
    shutil.copytree(index.folder, copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    if damage == "manifest":
        (copy / "manifest.json").write_text("{}")
    elif damage == "version":
        (copy / "manifest.json").write_text(json.dumps(manifest | {"version": 99}))
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
