import logging

import pytest

from elmokit.errors import InputError
from elmokit.text.fasta import read_fasta
from elmokit.text.row import Row


def rows(content: str) -> list[Row]:
    return list(read_fasta(enumerate(content.split("\n"), start=1), "a.fa"))


def test_records_are_rows_with_ids_and_letters(caplog):
    content = "\n>one first protein\nMKV\n\n  AC D\n>two\nmk*-\n>\n>tr|P1|X y\nA"
    assert rows(content) == [
        Row(tuple("MKVACD"), 2, id="one"),
        Row(tuple("mk*-"), 6, id="two"),
        Row((), 8, id=""),
        Row(("A",), 9, id="tr|P1|X"),
    ]
    assert not caplog.records


def test_an_empty_file_has_no_record():
    assert rows("") == []


def test_long_sequences_are_joined():
    for content in (">a\n" + "M" * 35_000, ">a\n" + "\n".join(["M" * 60] * 600)):
        (row,) = rows(content)
        assert row.tokens == ("M",) * content.count("M")


def test_odd_symbols_stay_and_each_record_is_reported_once(caplog):
    content = ">good\nMKV\n>bad one\nM#@\n#K\n>worse\nMя3\n"
    with caplog.at_level(logging.WARNING):
        assert [row.tokens for row in rows(content)] == [tuple("MKV"), tuple("M#@#K"), tuple("Mя3")]
    first, second = [record.getMessage() for record in caplog.records]
    assert first.startswith("a.fa: line 3: record 'bad'")
    assert "'#' 2, '@' 1;" in first
    assert "'worse'" in second
    assert "'я' 1, '3' 1;" in second


def test_the_report_of_many_symbols_stays_short(caplog):
    rows(">a\n" + "".join(chr(0x4E00 + i) for i in range(500)))
    (record,) = caplog.records
    assert "and 490 others" in record.getMessage()
    assert len(record.getMessage()) < 300


def test_text_before_the_first_header_is_an_error():
    with pytest.raises(InputError, match=r"^a\.fa: line 2: found text before the first record"):
        rows("\nMKV\n>a\nM")
