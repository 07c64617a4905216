import gzip
import os
import shutil

import numpy as np
import pytest

import elmokit
from elmokit.embedding.parts import PartedOutput
from elmokit.embedding.stored import open_embeddings
from elmokit.embedding.writers import writer_for
from elmokit.errors import InputError
from embedding.rows import assert_same_rows, odd_rows, settings_of


def write(path, rows=None):
    writer_for(path).write(path, odd_rows() if rows is None else rows, {})
    return path


def test_it_is_part_of_the_public_interface():
    assert elmokit.open_embeddings is open_embeddings


@pytest.mark.parametrize("suffix", ["h5", "npz", "parquet", "jsonl"])
def test_the_format_is_told_from_the_content(tmp_path, suffix):
    path = write(tmp_path / f"a.{suffix}").rename(tmp_path / "vectors")
    with open_embeddings(str(path)) as stored:
        assert_same_rows(stored, odd_rows())


def test_arrays_are_the_callers_own(tmp_path):
    with open_embeddings(write(tmp_path / "a.parquet")) as stored:
        stored[0][:] = 0
        assert_same_rows(stored, odd_rows())


@pytest.mark.parametrize("suffix", ["h5", "npz", "parquet", "jsonl"])
def test_a_closed_file_is_not_taken_for_a_damaged_one(tmp_path, suffix):
    stored = open_embeddings(write(tmp_path / f"a.{suffix}"))
    stored.close()
    with pytest.raises(ValueError, match="is closed"):
        stored[0]


@pytest.mark.parametrize("row", [slice(1, 3), 1.0, "the cat sat", None, (0, 1), [0]])
def test_a_row_is_asked_for_by_its_number(tmp_path, row):
    with open_embeddings(write(tmp_path / "a.h5")) as stored:
        for read in (stored.__getitem__, stored.tokens, stored.row):
            with pytest.raises(
                InputError, match=r"a\.h5: .* is no row; give a row number"
            ) as caught:
                read(row)
            assert ("find()" in str(caught.value)) == isinstance(row, str)
        for number in (2, np.int64(2), np.uint8(2), -len(stored) + 2):
            np.testing.assert_array_equal(stored[number], odd_rows()[2].vectors)
        for number in (10, -11, np.int64(10)):
            with pytest.raises(IndexError, match="of 10 rows"):
                stored[number]


@pytest.mark.parametrize("suffix", ["h5", "jsonl"])
@pytest.mark.parametrize(
    ("kind", "known", "unknown"),
    [
        ("all", "(L, T, 2D)", "(L, T, 2D)"),
        ("one", "(T, 2D)", "(T, 2D) or (L, dim)"),
        ("pooled all", "(L, dim)", "(T, 2D) or (L, dim)"),
        ("pooled one", "(dim,)", "(dim,)"),
    ],
)
def test_it_shows_what_it_holds(tmp_path, suffix, kind, known, unknown):
    path, rows = tmp_path / f"a.{suffix}", odd_rows(kind)
    writer_for(path).write(path, rows, settings_of(kind))
    with open_embeddings(path) as stored:
        letters = known if suffix == "h5" else unknown
        first = f"{letters}, the first {rows[0].vectors.shape}"
        assert repr(stored) == f"<StoredEmbeddings {str(path)!r}: 10 rows of {first}>"
    assert repr(stored) == f"<StoredEmbeddings {str(path)!r}: 10 rows, closed>"


def test_it_shows_itself_whatever_is_in_it(tmp_path):
    path = write(tmp_path / "a.npz", [])
    with open_embeddings(path) as stored:
        assert repr(stored) == f"<StoredEmbeddings {str(path)!r}: 0 rows>"
    path = write(tmp_path / "b.npz")
    with open_embeddings(path) as stored:
        content = path.read_bytes()
        path.write_bytes(content.replace(odd_rows()[0].vectors.tobytes(), b"\0" * 144))
        assert repr(stored) == f"<StoredEmbeddings {str(path)!r}: 10 rows, damaged>"


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.h5")
    for path in (tmp_path / "a.h5", "/dev/null"):
        with pytest.raises(InputError, match="no regular file"):
            open_embeddings(path)


def test_an_unfinished_run_is_named(tmp_path):
    out = tmp_path / "a.h5"
    with PartedOutput.open(out, settings={}) as output:
        output.write(odd_rows())
    for path in (out, tmp_path / "a.h5.parts"):
        with pytest.raises(InputError, match=r"not finished; .*--resume .*a\.h5\.parts"):
            open_embeddings(path)
    with open_embeddings(tmp_path / "a.h5.parts" / "000000.npz") as stored:
        assert_same_rows(stored, odd_rows())


def test_a_missing_file_or_a_folder_gives_one_line(tmp_path):
    with pytest.raises(InputError, match=r"a\.h5: No such file"):
        open_embeddings(tmp_path / "a.h5")
    with pytest.raises(InputError, match="Is a directory"):
        open_embeddings(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"The cat sat on the mat.\n",
            r"no file of embeddings \(HDF5, .*with 'The cat sat on the m'",
        ),
        (b"", "it is empty"),
        (gzip.compress(b"x", mtime=0), "no file of embeddings"),
        (b"\x89HDF\r\n\x1a\nxxxx", "damaged or truncated"),
        (b"PK\x03\x04xxxx", "damaged or truncated"),
        (b"PAR1xxxx", "damaged or truncated"),
    ],
)
def test_other_files_are_refused_by_what_they_are(tmp_path, content, message):
    path = tmp_path / "a.hdf5"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        open_embeddings(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_models_weights_are_refused(fixtures):
    with pytest.raises(InputError, match=r"holds a model's weights .* load it as a model"):
        open_embeddings(fixtures / "A2_bilm_skip/weights.hdf5")


def test_rows_are_read_when_they_are_asked_for(tmp_path):
    path = write(tmp_path / "a.npz")
    with open_embeddings(path) as stored:
        content = bytearray(path.read_bytes())
        place = content.index(odd_rows()[4].vectors.tobytes())
        content[place] ^= 1
        shutil.copyfile(path, tmp_path / "whole.npz")
        path.write_bytes(content)
        np.testing.assert_array_equal(stored[3], odd_rows()[3].vectors)
        with pytest.raises(InputError, match=r"damaged or truncated .*CRC"):
            stored[4]
