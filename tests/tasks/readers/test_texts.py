import pytest

from elmokit.errors import InputError
from elmokit.tasks.readers.plain import PlainSentences, PlainTexts, write_tagged
from elmokit.tasks.readers.reading import read_examples
from elmokit.tasks.readers.texts import Trec, TsvTexts, write_labelled, write_trec


@pytest.fixture
def read(tmp_path):
    """Reads a file in a format."""

    def run(content, open_format, **settings):
        (tmp_path / "a").write_bytes(content.encode())
        return read_examples(tmp_path / "a", lambda _: open_format("a"), **settings)

    return run


def tsv(label="1", text="2", labels=True):
    return lambda name: TsvTexts(name, {"text": text, "label": label}, labels=labels)


def trec(labels):
    return lambda name: Trec(name, labels=labels)


def test_columns_by_number_and_by_name(read):
    [item] = read("pos\ta good  film\n\n", tsv()).items
    assert (item.label, item.tokens, item.where) == ("pos", ("a", "good", "film"), "a: line 1")
    content = "\ufeffid\ttext\tlabel\r\n1\tgood\tpos\r\n"
    [item] = read(content, tsv("label", "text")).items
    assert (item.label, item.tokens, item.where) == ("pos", ("good",), "a: line 2")
    assert read("x\tgood\n", tsv(labels=False)).items[0].label is None


@pytest.mark.parametrize(
    ("content", "format", "message"),
    [
        ("pos\ta\nneg\n", tsv(), "a: line 2: found 1 columns, the first line has 2"),
        ("pos\t \n", tsv(), "a: line 1: the text has no words"),
        (" \ta\n", tsv(), "a: line 1: the label is missing"),
        ("-\ta\n", tsv(), "a: line 1: the label is '-'"),
        ("text\tlabel\n", tsv("label", "text"), "holds not one example"),
        ("\n", tsv(), "holds not one example"),
        ("DESC:x a\nWhat is it ?\n", trec("coarse"), "a: line 2: found 'What', expected a class"),
        ("DESC:x \n", trec("fine"), "a: line 1: the question has no words"),
        ("DESC: a\n", trec("fine"), "found 'DESC:', expected a class"),
    ],
)
def test_bad_input_is_named(read, content, format, message):
    with pytest.raises(InputError) as caught:
        read(content, format)
    assert message in str(caught.value)


def test_bad_lines_are_left_out_and_counted(read):
    reading = read("pos\ta\n-\tb\nneg\n", tsv(), skip_bad=True)
    assert ([item.label for item in reading.items], reading.num_skipped) == (["pos"], 2)


def test_question_classes(read):
    content = "HUM:ind Who is it ?\n"
    assert read(content, trec("coarse")).items[0].label == "HUM"
    [item] = read(content, trec("fine")).items
    assert (item.label, item.tokens) == ("HUM:ind", ("Who", "is", "it", "?"))
    assert read(content, trec(None)).items[0].label is None


def test_lines_are_written_with_their_label():
    assert list(write_labelled("a b", "pos")) == ["pos\ta b"]
    assert list(write_labelled("", None)) == ["\t"]
    assert list(write_trec("HUM:ind Who ?", "DESC")) == ["DESC Who ?"]
    assert list(write_trec("", None)) == [""]


def test_plain_lines(read):
    reading = read("a b\n\n c\n", PlainSentences)
    assert [item.lines for item in reading.items] == [(1, 1), (3,)]
    tags = iter([("X", "Y"), ("Z",)])
    written = [
        list(write_tagged(entry.piece, next(tags) if entry.item else None))
        for entry in reading.entries
    ]
    assert written == [["a X", "b Y", ""], [""], ["c Z", ""]]
    assert [item.tokens for item in read("a b\n\nc\n", PlainTexts).items] == [("a", "b"), ("c",)]
