import gzip
import io
import subprocess
import sys
import types
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.errors import ConfigError, InputError
from elmokit.text import Row, detect_format, read_rows


@pytest.fixture
def write(tmp_path):
    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a.txt", "text"),
        ("a.tok", "text"),
        ("a", "text"),
        ("-", "text"),
        ("dir.jsonl/a", "text"),
        (".jsonl", "text"),
        ("a.conllu", "conllu"),
        ("a.conll", "conllu"),
        ("A.JSONL", "jsonl"),
        ("a.fa", "fasta"),
        ("a.fasta", "fasta"),
        ("a.b.faa", "fasta"),
        ("a.faa.gz", "fasta"),
        ("a.conllu.xz", "conllu"),
        ("a.jsonl.ZST", "jsonl"),
        ("a.gz", "text"),
        ("a.jsonl.bz2", "text"),
    ],
)
def test_formats_go_by_suffix(path, name):
    assert detect_format(path) == name
    assert detect_format(Path(path)) == name


def test_each_format_is_read(write):
    conllu = "1\ta" + "\t_" * 8
    assert list(read_rows(write("a.txt", "a b\n\nc"))) == [
        Row(("a", "b"), 1),
        Row((), 2),
        Row(("c",), 3),
    ]
    assert list(read_rows(write("a.conllu.gz", gzip.compress(conllu.encode())))) == [Row(("a",), 1)]
    zst = zstandard.compress(b'{"tokens": ["a b"]}\n{"text": "c."}')
    assert [row.tokens for row in read_rows(write("a.jsonl.zst", zst))] == [("a b",), ("c.",)]
    assert list(read_rows(write("a.fa", ">x y\nMK"))) == [Row(("M", "K"), 1, id="x")]
    raw = [row.tokens for row in read_rows(write("b.txt", "Hi. Bye.\n\nOh."), format="raw")]
    assert raw == [("Hi", "."), ("Bye", "."), ("Oh", ".")]


def test_a_named_format_goes_before_the_suffix(write):
    assert list(read_rows(str(write("a.fa", "x y")), format="text")) == [Row(("x", "y"), 1)]


@pytest.mark.parametrize("format", ["text", "raw", "jsonl"])
def test_a_named_tokenizer_cuts(write, format):
    content = '{"text": "ab"}' if format == "jsonl" else "ab\n"
    (row,) = read_rows(write("a.txt", content), format=format, tokenizer="characters")
    assert row == Row(("a", "b"), 1, text="ab", offsets=((0, 1), (1, 2)))


@pytest.mark.parametrize("format", ["conllu", "fasta"])
def test_formats_that_come_in_tokens_refuse_a_tokenizer(format):
    with pytest.raises(ConfigError, match=f"read as {format}, which comes in tokens"):
        read_rows("a.txt", format=format, tokenizer="words")


def test_wrong_settings_are_refused_before_the_file_is_opened():
    with pytest.raises(ConfigError, match=r"format: 'json' is unknown .did you mean 'jsonl'"):
        read_rows("absent", format="json")
    with pytest.raises(ConfigError, match="tokenizer: 'word' is unknown"):
        read_rows("absent", tokenizer="word")
    with pytest.raises(ConfigError, match="encoding: 'utf-9'"):
        read_rows("absent", encoding="utf-9")


def test_errors_name_the_file_and_the_line(write):
    path = write("a.jsonl", "{}\n")
    with pytest.raises(InputError) as caught:
        list(read_rows(path))
    assert str(caught.value).startswith(f"{path}: line 1: ")


def test_standard_input(monkeypatch):
    def stdin(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(data)))

    stdin(b"a b\r\n\nc\n")
    assert [row.tokens for row in read_rows("-")] == [("a", "b"), (), ("c",)]
    stdin(b">a\nMK")
    assert list(read_rows("-", format="fasta")) == [Row(("M", "K"), 1, id="a")]
    stdin("é".encode("utf-16"))
    assert list(read_rows(Path("-"), encoding="utf-16")) == [Row(("é",), 1)]
    stdin(b"")
    assert list(read_rows("-")) == []


@settings(derandomize=True, deadline=None, max_examples=150)
@given(st.text(st.sampled_from("ab \n\r\t\u00a0\u2028\x00\x0b\x0c\x85\x1c\u200b日é"), max_size=40))
def test_text_rows_are_the_lines_of_the_file_cut_at_white_space(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("rows") / "a.txt"
    path.write_bytes(content.encode())
    lines = content.split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    rows = list(read_rows(path))
    assert [row.tokens for row in rows] == [tuple(line.split()) for line in lines]
    assert [row.line for row in rows] == list(range(1, len(lines) + 1))


def test_rows_come_as_they_are_read_and_the_file_is_closed_when_dropped(write):
    path = write("a.txt", b"one\n" + b"two\n" * 50_000 + b"\xff")
    rows = read_rows(path)
    assert next(rows).tokens == ("one",)
    del rows  # an open file would be a warning, which is an error here


def test_the_room_needs_neither_torch_nor_numpy_nor_h5py():
    code = (
        "import sys, elmokit.text; "
        "print(*{'torch', 'numpy', 'h5py', 'spacy', 'zstandard'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "\n"
