import pytest

from elmokit.errors import ConfigError, InputError
from elmokit.tasks.readers.reading import read_pieces
from elmokit.tasks.readers.tsv import LabelColumn, Table, label_of, words_of


def read(content, text, label, *, labels=True, skip_bad=False):
    """What the lines hold; None for one that holds nothing or is left out."""
    table = Table("a", {"text": text, "label": label}, labels=labels)
    lines = enumerate(content.splitlines(), start=1)
    reading = read_pieces(table.cut(lines), table.read, name="a", skip_bad=skip_bad)
    return [entry.item and tuple(entry.item.values()) for entry in reading.entries]


def test_columns_are_found_by_number_or_name():
    assert read("x\tpos\n\ny\tneg\n", "1", "2") == [("x", "pos"), None, ("y", "neg")]
    named = "text\tid\t3\nx\t7\tpos\n"
    assert read(named, "text", "3") == [None, ("x", "pos")]  # a name, and it is the third column
    assert read(named, "text", "2") == [None, ("x", "7")]
    assert read(named, "1", "id") == [None, ("x", "7")]
    assert read("text\t3\tid\nx\tpos\t7\n", "text", "3") == [None, ("x", "pos")]


def test_the_first_line_has_names_though_labels_are_not_read():
    assert read("text\tlabel\nx\tpos\n", "1", "label", labels=False) == [None, ("x",)]
    assert read("text\nx\n", "1", "label", labels=False) == [None, ("x",)]
    assert read("x\ny\n", "1", "2", labels=False) == [("x",), ("y",)]


@pytest.mark.parametrize(
    ("text", "label", "message"),
    [
        (
            "text",
            "labels",
            r"a: line 1: there is no column 'labels' \(did you mean 'label'\?\); the",
        ),
        ("text", "4", "a: line 1: there is no column 4, the line has 3"),
        ("1", "4", "a: line 1: there is no column 4, the line has 3"),
        ("0", "2", "a: line 1: there is no column 0"),
    ],
)
@pytest.mark.parametrize("skip_bad", [True, False])
def test_a_missing_column_is_not_passed_over(text, label, message, skip_bad):
    with pytest.raises(ConfigError, match=message):
        read("text\tlabel\tid\nx\tpos\t1\ny\tneg\t2\n", text, label, skip_bad=skip_bad)


def test_lines_with_other_columns_are_named_or_left_out():
    content = "x\tpos\ny\nz\tneg\n"
    with pytest.raises(InputError, match="a: line 2: found 1 columns, the first line has 2"):
        read(content, "1", "2")
    assert read(content, "1", "2", skip_bad=True) == [("x", "pos"), None, ("z", "neg")]


def written(label, text, *lines):
    """Lines with their labels as they are written."""
    write = LabelColumn({"label": label, "text": text})
    return [written for line, label in lines for written in write(line, label)]


def test_labels_are_written_into_their_column():
    lines = [("a\tx\tb", "y"), ("a\tx\tb", None), ("", None)]
    assert written("2", "1", *lines) == ["a\ty\tb", "a\tx\tb", ""]
    assert written("label", "text", ("text\tlabel", None), ("a\tx", "y")) == ["text\tlabel", "a\ty"]
    assert written("2", "text", ("text\tlabel", None), ("a\tx", "y")) == ["text\tlabel", "a\ty"]
    assert written("2", "text", ("2\ttext", None), ("x\ta", "y")) == ["2\ttext", "y\ta"]


def test_a_column_of_labels_is_added_where_there_is_none():
    lines = [("text", None), ("a", "y"), ("b", None)]
    assert written("label", "text", *lines) == ["text\tlabel", "a\ty", "b\t"]
    assert written("2", "text", *lines) == ["text\t2", "a\ty", "b\t"]
    assert written("2", "1", *lines[1:]) == ["a\ty", "b\t"]


def test_labels_and_words():
    assert label_of(" pos ", "a") == "pos"
    assert words_of(" two  words ", "text", "a") == ("two", "words")
    for label, message in ((" ", "is missing"), ("-", "is '-'")):
        with pytest.raises(InputError, match=f"a: the label {message}"):
            label_of(label, "a")
    with pytest.raises(InputError, match="a: the text has no words"):
        words_of(" ", "text", "a")
