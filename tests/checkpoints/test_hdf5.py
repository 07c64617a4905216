import h5py
import numpy as np
import pytest
from checkpoint_samples import (
    edit_hdf5,
    one_line,
    write_hdf5,
)

from elmokit.checkpoints import layout, read


def test_links_to_other_files_are_not_followed(skip, tmp_path):
    write_hdf5(tmp_path / "other.hdf5", {"x": np.zeros((261, 12), "f")})
    with h5py.File(skip / "weights.hdf5", "r+") as file:
        del file["char_embed"]
        file["char_embed"] = h5py.ExternalLink(str(tmp_path / "other.hdf5"), "x")
    with one_line("char_embed"):
        read(skip)


def test_numbers_in_other_files_are_not_read(skip, tmp_path):
    (tmp_path / "secret").write_bytes(bytes(64))
    with h5py.File(skip / "weights.hdf5", "r+") as file:
        del file["CNN_proj/b_proj"]
        file.create_dataset(
            "CNN_proj/b_proj", (16,), "f", external=[(str(tmp_path / "secret"), 0, 64)]
        )
    with one_line(skip / "weights.hdf5", "CNN_proj/b_proj", "another file"):
        read(skip)


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (b"only text\nin here", ["not an HDF5 file", "only text"]),
        (b"", ["not an HDF5 file"]),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
            ["Git LFS", "git lfs pull"],
        ),
        (b"\x89HDF\r\n\x1a\n", ["truncated or damaged"]),
    ],
)
def test_files_that_are_no_hdf5(skip, data, parts):
    (skip / "weights.hdf5").write_bytes(data)
    with one_line(skip / "weights.hdf5", *parts):
        read(skip)


@pytest.mark.parametrize("dtype", [">f4", "<f2", "<f8", "<i4", "S4"])
def test_kinds_of_numbers(skip, dtype, caplog):
    bias = np.arange(16).astype(dtype)
    edit_hdf5(skip / "weights.hdf5", CNN_proj__b_proj=bias)
    if np.dtype(dtype).kind == "f":
        tensor = read(skip).tensors[f"{layout.PROJECTION}.bias"]
        assert tensor.tolist() == list(range(16))
        assert ("rounded from float64" in caplog.text) == (dtype == "<f8")
    else:
        with one_line("CNN_proj/b_proj holds"):
            read(skip)
