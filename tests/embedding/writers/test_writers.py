import subprocess
import sys
from pathlib import Path

import pytest

from elmokit.embedding.writers import writer_for
from elmokit.embedding.writers.hdf5 import HDF5Writer
from elmokit.embedding.writers.jsonl import JSONLWriter
from elmokit.embedding.writers.npz import NpzWriter
from elmokit.errors import OutputError


def test_the_suffix_chooses_the_writer():
    assert isinstance(writer_for(Path("a.h5")), HDF5Writer)
    assert isinstance(writer_for(Path("a.b.HDF5"), "ragged"), HDF5Writer)
    assert isinstance(writer_for(Path("a.npz")), NpzWriter)
    assert isinstance(writer_for(Path("a.jsonl")), JSONLWriter)


@pytest.mark.parametrize("name", ["a", "a.txt", "a.npy", ".h5", "a.jsonl.gz"])
def test_an_unknown_suffix_lists_the_known_ones(name):
    with pytest.raises(OutputError, match=r"\.h5, \.hdf5, \.npz, \.parquet, \.jsonl$"):
        writer_for(Path(name))


def test_a_layout_of_another_format_is_refused():
    with pytest.raises(OutputError, match=r"a\.npz: layout ragged is for \.h5 and \.hdf5"):
        writer_for(Path("a.npz"), "ragged")


def test_the_output_side_needs_neither_torch_nor_pyarrow():
    code = "import sys, elmokit.embedding.parts; print({'torch', 'pyarrow'} & set(sys.modules))"
    source = Path(__file__).parents[3] / "src"
    output = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert output.stdout.strip() == "set()"
