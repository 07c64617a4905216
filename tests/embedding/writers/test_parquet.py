import json
import sys

import pytest

from elmokit.embedding.stored import open_embeddings
from elmokit.embedding.writers import parquet, writer_for
from elmokit.errors import InputError, MissingExtraError
from embedding.rows import assert_same_rows, odd_rows
from embedding.writers.contract import WriterContract

pytest.importorskip("pyarrow")


class TestParquet(WriterContract):
    name = "out.parquet"


def test_pyarrow_reads_the_columns(tmp_path):
    from pyarrow import parquet as pq

    rows = odd_rows("one", "float16")
    writer_for(tmp_path / "a.parquet").write(tmp_path / "a.parquet", rows, {})
    records = pq.read_table(tmp_path / "a.parquet").to_pylist()
    for row, record in zip(rows, records, strict=True):
        assert record["index"] == row.index
        assert tuple(json.loads(record["tokens"])) == row.tokens
        assert tuple(record["shape"]) == row.vectors.shape
        assert record["vector"] == row.vectors.ravel().tolist()
        assert record["id"] is record["line"] is record["character_offsets"] is None


def test_rows_are_found_in_any_row_group(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_GROUP_VALUES", 130)
    writer_for(tmp_path / "a.parquet").write(tmp_path / "a.parquet", odd_rows(), {})
    with open_embeddings(tmp_path / "a.parquet") as stored:
        assert_same_rows(stored, odd_rows())
        assert stored.tokens(9) == ("the", "cat", "sat")
        assert stored.tokens(0) == ("the", "cat", "sat")


def test_other_parquet_files_are_refused(tmp_path):
    import pyarrow
    from pyarrow import parquet as pq

    pq.write_table(pyarrow.table({"text": ["a"], "shape": [[1]]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="columns tokens, vector are missing"):
        open_embeddings(tmp_path / "a.parquet")


def test_a_missing_pyarrow_names_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r'pip install "elmokit\[arrow\]"'):
        writer_for(tmp_path / "a.parquet")


def test_a_broken_pyarrow_shows_its_own_cause(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ModuleNotFoundError, match=r"pyarrow\.parquet"):
        writer_for(tmp_path / "a.parquet")
