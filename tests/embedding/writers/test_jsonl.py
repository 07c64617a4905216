import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.embedding.stored import open_embeddings
from elmokit.embedding.writers.jsonl import JSONLWriter, _numbers
from elmokit.errors import InputError
from embedding.rows import assert_same_bits, odd_rows
from embedding.writers.contract import WriterContract


class TestJSONL(WriterContract):
    name = "out.jsonl"
    keeps_settings = False
    large = (8, 8)


def test_a_line_is_a_record(tmp_path):
    rows = odd_rows("one")
    JSONLWriter().write(tmp_path / "a.jsonl", rows, {})
    lines = (tmp_path / "a.jsonl").read_bytes().split(b"\n")
    assert len(lines) == 11
    assert all(line.isascii() for line in lines)
    record = json.loads(lines[4])
    assert list(record) == ["index", "tokens", "shape", "vector"]
    assert record["index"] == 4
    assert record["tokens"] == list(rows[4].tokens)
    assert record["shape"] == [4, 4]
    assert_same_bits(np.array(record["vector"], "f4"), rows[4].vectors.ravel())


def test_every_float16_comes_back():
    values = np.arange(2**16, dtype=np.uint16).view(np.float16)
    values = values[np.isfinite(values)]
    assert_same_bits(np.array(json.loads(f"[{_numbers(values)}]"), np.float16), values)
    ordinary = values[values != 0]
    assert_same_bits(np.array(json.loads(f"[{_numbers(ordinary)}]"), np.float16), ordinary)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=50))
@settings(deadline=None, derandomize=True)
def test_float32_of_any_bits_come_back(patterns):
    values = np.array(patterns, np.uint32).view(np.float32)
    values = values[~np.isnan(values)]  # JSON has one NaN only
    assert_same_bits(np.array(json.loads(f"[{_numbers(values)}]"), np.float32), values)


def test_records_of_other_programs_are_read(tmp_path):
    record = {"tokens": ["a"], "vector": [1, 2.5], "shape": [1, 2], "more": None}
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n")
    with open_embeddings(tmp_path / "a.jsonl") as stored:
        assert_same_bits(stored[0], np.array([[1, 2.5]], np.float32))
        assert stored.find("a") == [0]


@pytest.mark.parametrize(
    "line",
    [
        '{"text": "a"}',
        '{"tokens": 3, "shape": [1], "vector": [1]}',
        '{"tokens": ["a"], "shape": [3], "vector": [1]}',
        '{"tokens": ["a"], "shape": [1]}',
        "{]",
        '["tokens"]',
    ],
)
def test_a_line_that_is_no_record_is_named(tmp_path, line):
    good = '{"tokens": ["a"], "shape": [1], "vector": [1]}'
    (tmp_path / "a.jsonl").write_text(f"{good}\n{line}\n")
    with open_embeddings(tmp_path / "a.jsonl") as stored:
        assert stored[0].shape == (1,)
        with pytest.raises(InputError, match=r"a\.jsonl: line 2 is no record"):
            stored.row(1)


def test_other_json_lines_are_refused_when_opened(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(InputError, match="line 1 is no record"):
        open_embeddings(tmp_path / "a.jsonl")
