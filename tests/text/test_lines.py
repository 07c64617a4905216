import gzip
import io
import lzma
import sys
import types
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.errors import ConfigError, InputError, MissingExtraError
from elmokit.text.lines import read_lines

COMPRESS = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}
quick = settings(derandomize=True, deadline=None, max_examples=100)


def lines_of(path: Path, encoding: str = "utf-8") -> list[str]:
    numbered = list(read_lines(path, encoding))
    assert [number for number, _ in numbered] == list(range(1, len(numbered) + 1))
    return [line for _, line in numbered]


def feed_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(data)))


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\nb\n\n", ["a", "", "b", ""]),
        (b"a\r\nb\r", ["a", "b"]),
        (b"\r\n", [""]),
        (b"a\rb\n", ["a\rb"]),
        ("a\u2028b\x00c\x0bd\x0ce\x85f\x1cg\n".encode(), ["a\u2028b\x00c\x0bd\x0ce\x85f\x1cg"]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb\xbf\n", [""]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", ["a", "\ufeffb"]),
    ],
)
def test_lines_end_at_lf_alone_and_lose_mark_and_cr(tmp_path, data, lines):
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    assert lines_of(path) == lines


@quick
@given(
    text=st.text(st.sampled_from("a \n\r\u2028\x00\x85\x0b\ufeffé日𝔸\u0a0a"), max_size=30),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "gb18030"]),
)
def test_lines_are_those_of_the_decoded_text(tmp_path_factory, text, encoding):
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes(text.encode(encoding))
    seen = text.removeprefix("\ufeff")
    expected = seen.removesuffix("\n").split("\n") if seen else []
    assert lines_of(path, encoding) == [line.removesuffix("\r") for line in expected]


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_files_read_like_plain_ones(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix.upper()}"
    content = "".join(f"line {i} é\n" for i in range(20000))
    path.write_bytes(COMPRESS[suffix](content.encode()))
    assert "".join(f"{line}\n" for line in lines_of(path)) == content


@pytest.mark.parametrize("suffix", COMPRESS)
def test_all_members_of_a_compressed_file_are_read(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(b"".join(COMPRESS[suffix](part) for part in (b"a\nb", b"", b"c\n")))
    assert lines_of(path) == ["a", "bc"]


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("kept", [0, 3, 0.5, -1])
def test_a_cut_compressed_file_is_an_error(tmp_path, suffix, kept):
    path = tmp_path / f"a.txt{suffix}"
    data = COMPRESS[suffix]("".join(f"line {i}\n" for i in range(9999)).encode())
    path.write_bytes(data[: kept if isinstance(kept, int) else int(kept * len(data))])
    with pytest.raises(InputError, match=r"a\.txt.*ends too early"):
        lines_of(path)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_plain_text_under_a_compressed_name_is_an_error(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(b"plain text\n" * 10)
    with pytest.raises(InputError, match=r"a\.txt"):
        lines_of(path)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_damaged_data_is_an_error(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    data = bytearray(COMPRESS[suffix](bytes(range(10, 120)) * 3))
    data[len(data) // 2 : len(data) // 2 + 4] = b"\xff\x00\xff\x00"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a\.txt"):
        lines_of(path)


def test_zst_without_its_package_names_the_extra(tmp_path, monkeypatch):
    path = tmp_path / "a.zst"
    path.write_bytes(zstandard.compress(b"a"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match=r'pip install "elmokit\[zstd\]"'):
        lines_of(path)


def test_standard_input_is_read_and_left_open(monkeypatch):
    feed_stdin(monkeypatch, b"\xef\xbb\xbfa b\r\n\nlast")
    assert list(read_lines("-", "utf-8")) == [(1, "a b"), (2, ""), (3, "last")]
    assert list(read_lines(Path("-"), "utf-8")) == []
    assert not sys.stdin.buffer.closed


def test_errors_call_standard_input_by_name(monkeypatch):
    feed_stdin(monkeypatch, b"ok\n\xff\n")
    with pytest.raises(InputError, match=r"^standard input: line 2, byte 1 \(byte 4 of the file\)"):
        list(read_lines("-", "utf-8"))
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="standard input: cannot be read"):
        list(read_lines("-", "utf-8"))


@pytest.mark.parametrize(
    ("data", "encoding", "place"),
    [
        (b"ok\nabc\xff\n", "utf-8", r"line 2, byte 4 \(byte 7 of the file\): found ff"),
        (b"\xff", "utf-8", r"line 1, byte 1 \(byte 1 of the file\): found ff"),
        (b"ok\na\xe2\x82", "utf-8", r"line 2, byte 2 \(byte 5 of the file\): found e2 82"),
        (b"ok\na\xe2\x82\nb", "utf-8", r"line 2, byte 2 \(byte 5 of the file\): found e2 82"),
        (b"a\xed\xa0\x80", "utf-8", r"line 1, byte 2 \(byte 2 of the file\): found ed"),
        (b"\xef\xbb\xbfa\xff", "utf-8", r"line 1, byte 5 \(byte 5 of the file\)"),
        (b"a\nb\x80", "ascii", r"line 2, byte 2 \(byte 4 of the file\): found 80"),
        ("a\nb\n\u0a0a".encode("utf-16-le") + b"\x00\xd8a\0", "utf-16-le", "line 3, byte 11 of"),
        ("a\nb\n".encode("utf-16-le") + b"\x00\xd8a\0", "utf-16-le", "line 3, byte 9 of the file"),
        ("a\nb\n".encode("utf-16-be") + b"\xd8\x00\0a", "utf-16-be", "line 3, byte 9 of the file"),
        (b"a\0\n", "utf-16-le", "line 1, byte 3 of the file"),
        (b"a\0", "utf-16", "line 1: .*BOM"),
    ],
)
def test_a_byte_that_does_not_fit_is_named_with_its_place(tmp_path, data, encoding, place):
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    with pytest.raises(InputError, match=rf"a\.txt: {place}.*--encoding") as caught:
        lines_of(path, encoding)
    assert "\n" not in str(caught.value)


def test_lines_before_the_fault_are_handed_out(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\n" * 3 + b"\xff\n")
    lines = read_lines(path, "utf-8")
    assert [next(lines) for _ in range(3)] == [(1, "good"), (2, "good"), (3, "good")]
    with pytest.raises(InputError, match="line 4"):
        next(lines)


def test_another_encoding_mends_it(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("naïve\n".encode("latin-1"))
    assert lines_of(path, "latin-1") == ["naïve"]


@pytest.mark.parametrize("encoding", ["utf-9", "hex", "rot13", "", "\0", "idna"])
def test_an_unknown_encoding_is_refused_before_reading(encoding):
    with pytest.raises(ConfigError, match=r"encoding: .*no text encoding"):
        read_lines("absent.txt", encoding)


def test_an_unknown_encoding_names_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'latin_1'"):
        read_lines("absent.txt", "latin-12")


def test_missing_files_and_directories_are_errors_of_one_line(tmp_path):
    for path, reason in ((tmp_path / "absent.gz", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(InputError, match=reason) as caught:
            lines_of(path)
        assert str(caught.value).startswith(str(path))
        assert "\n" not in str(caught.value)


def test_a_file_without_permission_is_an_error(tmp_path, monkeypatch):
    def refuse(self: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match=r"a\.txt: cannot be read: Permission denied"):
        lines_of(tmp_path / "a.txt")
