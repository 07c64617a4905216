import json

import h5py
import numpy as np
import pytest

from elmokit.embedding.stored import open_embeddings
from elmokit.embedding.writers import hdf5
from elmokit.embedding.writers.hdf5 import HDF5Writer
from elmokit.errors import InputError
from embedding.rows import make_row, odd_rows
from embedding.writers.contract import WriterContract


class HDF5Contract(WriterContract):
    robust = 64  # the header; HDF5 2.0 can go round in circles in a damaged heap of strings


class TestPerSentence(HDF5Contract):
    name = "out.hdf5"


class TestRagged(HDF5Contract):
    name = "out.h5"
    layout = "ragged"


def write(path, rows, layout="per-sentence", **settings):
    HDF5Writer(layout).write(path, rows, settings)
    return h5py.File(path, "r")


def test_datasets_are_those_of_the_allennlp_command(tmp_path):
    rows = odd_rows()
    with write(tmp_path / "a.h5", rows) as file:
        assert set(file) == {*map(str, range(10)), "sentence_to_index", "sentences"}
        assert file["1"].shape == (3, 0, 4)
        assert file["sentence_to_index"].shape == (1,)
        index = json.loads(file["sentence_to_index"][0])
        assert index["the cat sat"] == "0"
        assert index["New York is"] == "7"
        assert index["and/or / maybe"] == "2"
        assert [tuple(json.loads(text)) for text in file["sentences"]] == [r.tokens for r in rows]
        assert json.loads(file.attrs["elmokit"]) == {}


def test_the_index_is_left_out_beyond_its_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(hdf5, "MAX_INDEXED_ROWS", 10)
    with write(tmp_path / "a.h5", odd_rows()) as file:
        assert "sentence_to_index" in file
    with write(tmp_path / "b.h5", [*odd_rows(), make_row(10, ["x"])]) as file:
        assert "sentence_to_index" not in file
    assert open_embeddings(tmp_path / "b.h5").find("x") == [10]


def test_text_columns_are_made_only_when_needed_and_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(hdf5, "_COLUMN_BLOCK", 4)
    rows = odd_rows()
    rows[7] = hdf5.EmbeddedRow(7, rows[7].tokens, rows[7].vectors, line=30)
    with write(tmp_path / "a.h5", rows) as file:
        assert list(file["lines"]) == [-1] * 7 + [30, -1, -1]
        assert "ids" not in file
    with open_embeddings(tmp_path / "a.h5") as stored:
        assert [stored.row(i).line for i in range(10)] == [None] * 7 + [30, None, None]


@pytest.mark.parametrize(
    ("kind", "pooling", "axes", "shape"),
    [
        ("all", "none", "token layer dim", (29, 3, 4)),
        ("one", "none", "token dim", (29, 4)),
        ("pooled all", "max", "row layer dim", (10, 3, 4)),
        ("pooled one", "mean", "row dim", (10, 4)),
    ],
)
def test_ragged_rows_lie_one_after_the_other(tmp_path, monkeypatch, kind, pooling, axes, shape):
    monkeypatch.setattr(hdf5, "_BLOCK_BYTES", 300)
    rows = odd_rows(kind)
    with write(tmp_path / "a.h5", rows, "ragged", pooling=pooling) as file:
        assert file["vectors"].shape == shape
        assert file["vectors"].attrs["axes"] == axes
        assert file["offsets"].dtype == np.int64
        offsets = file["offsets"][:]
        assert len(offsets) == 11
        for row, start, end in zip(rows, offsets[:-1], offsets[1:], strict=True):
            found = file["vectors"][start:end]
            expected = row.vectors[None] if pooling != "none" else row.vectors
            if kind == "all":
                expected = expected.swapaxes(0, 1)
            np.testing.assert_array_equal(found, expected)


def test_a_full_disk_is_noticed_wherever_it_strikes(tmp_path):
    contract = TestPerSentence()
    for size in np.random.default_rng(0).integers(0, 216_000, 25):
        contract.test_a_full_disk_is_an_error_and_never_silent(tmp_path / "a.h5", int(size))


def test_files_of_the_allennlp_command_are_read(tmp_path):
    arrays = [np.full((3, 2, 4), i, np.float32) for i in range(11)]
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for i, array in enumerate(arrays):
            file.create_dataset(str(i), data=array)
        texts = {"the  cat": "0", "red hat": "10"}
        file.create_dataset("sentence_to_index", (1,), h5py.string_dtype())[0] = json.dumps(texts)
    with open_embeddings(tmp_path / "a.hdf5") as stored:
        assert len(stored) == 11
        np.testing.assert_array_equal(stored[10], arrays[10])
        assert stored.find("red hat") == [10]
        assert stored.find("the cat") == stored.find(["the", "cat"]) == [0]
        assert stored.tokens(10) == ("red", "hat")
        assert stored.settings == {}
        with pytest.raises(InputError, match="row 3 is not stored"):
            stored.tokens(3)


def test_files_of_the_bilm_tf_command_are_read(reference):
    with open_embeddings(reference / "A1_allennlp_fixture/lm_embeddings_0.hdf5") as stored:
        assert [array.shape for array in stored][:3] == [(2, 50, 16), (2, 51, 16), (2, 27, 16)]
        assert len(stored) == 10
        with pytest.raises(InputError, match="texts were not stored"):
            stored.find("the")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["char_embed", "CNN/W_cnn_0"], "holds a model's weights .*'CNN', 'char_embed'"),
        (["0", "1", "3"], "row 2 is missing"),
        (["the$backslash$cat"], "rows 0, 1, ... expected, found 'the"),
        ([], "found nothing"),
    ],
)
def test_other_hdf5_files_are_refused_by_what_they_hold(tmp_path, names, message):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for name in names:
            file.create_dataset(name, data=np.zeros((2, 2), np.float32))
    with pytest.raises(InputError, match=message):
        open_embeddings(tmp_path / "a.hdf5")
