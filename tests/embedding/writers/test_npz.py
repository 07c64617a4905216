import io
import json
import zipfile

import numpy as np
import pytest

from elmokit.embedding.stored import open_embeddings
from elmokit.embedding.writers.npz import NpzWriter
from elmokit.errors import InputError
from embedding.rows import assert_same_bits, odd_rows
from embedding.writers.contract import WriterContract

ODD = np.arange(12, dtype=">f4").reshape(3, 4)


class TestNpz(WriterContract):
    name = "out.npz"


def test_numpy_reads_the_file(tmp_path):
    rows = odd_rows()
    NpzWriter().write(tmp_path / "a.npz", rows, {"layers": "all"})
    with np.load(tmp_path / "a.npz") as arrays:
        assert set(arrays) == {*map(str, range(10)), "sentences", "elmokit"}
        for i, row in enumerate(rows):
            assert_same_bits(arrays[str(i)], row.vectors)
        lines = arrays["sentences"].tobytes().splitlines()
        assert [tuple(json.loads(line)) for line in lines] == [row.tokens for row in rows]
        assert json.loads(arrays["elmokit"].tobytes()) == {"layers": "all"}


def test_arrays_named_by_row_are_enough(tmp_path):
    np.savez(tmp_path / "a.npz", **{"0": np.zeros((2, 4)), "1": np.ones((3, 4))})
    with open_embeddings(tmp_path / "a.npz") as stored:
        assert [array.shape for array in stored] == [(2, 4), (3, 4)]
        with pytest.raises(InputError, match="texts were not stored"):
            stored.find("a")


def test_arrays_of_other_programs_are_read_as_numpy_reads_them(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for i, (array, version) in enumerate(
            [(np.asfortranarray(ODD), (1, 0)), (ODD, (2, 0)), (ODD, (3, 0)), (ODD[:, :0], (1, 0))]
        ):
            with archive.open(f"{i}.npy", "w") as file:
                np.lib.format.write_array(file, array, version)
    with open_embeddings(tmp_path / "a.npz") as stored:
        for i in range(3):
            np.testing.assert_array_equal(stored[i], ODD)
            assert stored[i].flags.writeable
        assert stored[3].shape == (3, 0)


def test_an_array_that_ends_too_early_is_damage(tmp_path):
    file = io.BytesIO()
    np.lib.format.write_array(file, ODD, (1, 0))
    for size in (0, 5, 50, 130):
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("0.npy", file.getvalue()[:size])
        with (
            open_embeddings(tmp_path / "a.npz") as stored,
            pytest.raises(InputError, match="damaged or truncated"),
        ):
            stored[0]


def test_objects_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "a.npz", **{"0": np.array([{}], object)})
    with open_embeddings(tmp_path / "a.npz") as stored, pytest.raises(InputError, match="pickle"):
        stored[0]


@pytest.mark.parametrize("names", [["options.json", "model.hdf5"], ["archive/data.pkl"]])
def test_other_zips_are_refused_by_what_they_hold(tmp_path, names):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    with pytest.raises(InputError, match=f"zip without embeddings; .*found {', '.join(names)}"):
        open_embeddings(tmp_path / "a.npz")
