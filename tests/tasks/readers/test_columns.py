import pytest

from elmokit.errors import InputError
from elmokit.tasks.readers.columns import Columns, write_columns
from elmokit.tasks.readers.reading import read_examples

NL = "-DOCSTART- -DOCSTART- O\nDe Art O\nMark N B-PER\n\n\nEen Art O\n"


@pytest.fixture
def read(tmp_path):
    """Reads a file of columns."""

    def run(content, column=-1, **settings):
        (tmp_path / "a.conll").write_bytes(content.encode())
        return read_examples(
            tmp_path / "a.conll", lambda name: Columns("a.conll", column), **settings
        )

    return run


def rows(reading):
    return [(item.tokens, item.tags, item.lines) for item in reading.items]


def test_columns_and_docstart(read):
    assert rows(read(NL)) == [
        (("De", "Mark"), ("O", "B-PER"), (2, 3)),
        (("Een",), ("O",), (6,)),
    ]
    assert rows(read(NL, column=2))[0][1] == ("Art", "N")
    assert rows(read(NL, column=None))[0][1] is None


def test_a_docstart_with_other_columns_alone_in_its_block(read):
    assert rows(read("-DOCSTART- O\n\na B-X\n\n-DOCSTART-\n")) == [(("a",), ("B-X",), (3,))]


def test_a_docstart_decides_nothing_about_columns(read):
    assert rows(read("-DOCSTART-\n\na N B-X\n", column=3)) == [(("a",), ("B-X",), (3,))]
    with pytest.raises(InputError, match="line 3: found 2 columns, the first line has 3"):
        read("-DOCSTART- O\na N O\nb O\n")


def test_crlf_bom_and_separators_play_no_part(read):
    plain = rows(read("a b O\nc d B-X\n\ne f O"))
    assert rows(read("\ufeffa b O\r\nc d B-X\r\n\r\ne f O\r\n")) == plain
    assert rows(read("a\tb\tO\nc\td\tB-X\n\t\ne\tf\tO\n")) == plain
    assert rows(read("\n \na b O\n c  d   B-X \n\n\n\ne f O\n\n"))[0][:2] == plain[0][:2]
    assert rows(read("a\u00a0b\tO\n"))[0][0] == ("a\u00a0b",)


@pytest.mark.parametrize(
    ("content", "column", "message"),
    [
        ("a O\nb B-X x\n", -1, "a.conll: line 2: found 3 columns, the first line has 2"),
        ("a O\n\nb\n", -1, "a.conll: line 3: found 1 columns, the first line has 2"),
        ("a O\n", 3, "a.conll: line 1: column: there is no column 3, the line has 2"),
        ("a O\n", -3, "there is no column -3"),
        ("a O\n\tO\n", -1, "a.conll: line 2: the first column is empty"),
        ("", -1, "holds not one example"),
        ("-DOCSTART- O\n\n", -1, "holds not one example"),
    ],
)
def test_bad_input_is_named(read, content, column, message):
    with pytest.raises(InputError) as caught:
        read(content, column)
    assert message in str(caught.value)


def test_bad_sentences_are_left_out_and_counted(read, caplog):
    reading = read("a O\n\nb\nc O\n\nd B-X\n", skip_bad=True)
    assert [item.tokens for item in reading.items] == [("a",), ("d",)]
    assert reading.num_skipped == 1
    assert "skipped: a.conll: line 3: found 1 columns" in caplog.text
    reading = read("a\n\nb\n", column=2, skip_bad=True)  # its rows are still to be written
    assert (reading.items, reading.num_skipped, len(reading.entries)) == ([], 2, 2)


def test_every_line_is_written_again(read):
    content = f"\n{NL}x N\n"  # one ragged sentence
    reading = read(content.replace("Een Art O", "Een Art O\n\nwat"), skip_bad=True)
    tags = iter([("O", "B-LOC"), ("O",)])
    lines = [
        line
        for entry in reading.entries
        for line in write_columns(entry.piece, next(tags) if entry.item else None)
    ]
    assert lines == [
        "",
        "-DOCSTART- -DOCSTART- O O",
        "De Art O O",
        "Mark N B-PER B-LOC",
        "",
        "",
        "Een Art O O",
        "",
        "wat",
        "x N",
    ]
