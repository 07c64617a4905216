import json

import pytest

from elmokit.errors import ConfigError, InputError
from elmokit.tasks.readers.pairs import SICK, Snli, TsvPairs, write_snli
from elmokit.tasks.readers.reading import read_examples

RECORD = {
    "gold_label": "neutral",
    "sentence1": "A man, asleep.",
    "sentence1_binary_parse": "( ( A man ) ( , ( asleep . ) ) )",
    "sentence2": "He sleeps .",
}


@pytest.fixture
def read(tmp_path):
    """Reads pairs."""

    def run(content, open_format, **settings):
        (tmp_path / "a").write_bytes(content.encode())
        return read_examples(tmp_path / "a", lambda _: open_format("a"), **settings)

    return run


def snli(name):
    return Snli(name, labels=True)


def sick(name):
    return TsvPairs(name, SICK, labels=True)


def test_words_are_those_of_the_parse_if_there_is_one(read):
    [item] = read(json.dumps(RECORD), snli).items
    assert item.premise == ("A", "man", ",", "asleep", ".")
    assert item.hypothesis == ("He", "sleeps", ".")
    assert (item.label, item.where) == ("neutral", "a: line 1")


def test_columns_of_sick(read):
    content = (
        "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\r\n"
        "1\tA dog runs\tA cat\t4.5\tNEUTRAL\r\n"
    )
    [item] = read(content, sick).items
    assert (item.premise, item.hypothesis) == (("A", "dog", "runs"), ("A", "cat"))
    assert item.label == "NEUTRAL"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gold_label": "-"}, "the label is '-'"),
        ({"gold_label": ""}, "the label is missing"),
        ({"gold_label": None}, "gold_label: is missing"),
        ({"sentence1_binary_parse": "( )"}, "the premise has no words"),
        ({"sentence2": " "}, "the hypothesis has no words"),
        ({"sentence2": 3}, "sentence2: expected a string, found 3"),
    ],
)
def test_bad_records_are_named_and_may_be_left_out(read, change, message):
    content = f"{json.dumps(RECORD)}\n{json.dumps({**RECORD, **change})}\n"
    with pytest.raises(InputError) as caught:
        read(content, snli)
    assert f"a: line 2: {message}" in str(caught.value)
    reading = read(content, snli, skip_bad=True)
    assert (len(reading.items), reading.num_skipped) == (1, 1)


def test_other_lines_are_named(read):
    with pytest.raises(InputError, match="a: line 1, character 1: not JSON"):
        read("x\n", snli)
    with pytest.raises(InputError, match="a: line 1: expected an object"):
        read("[]\n", snli)
    with pytest.raises(ConfigError, match="a: line 1: there is no column 'sentence_A'"):
        read("premise\thypothesis\n", sick)


def test_labels_are_not_needed_to_predict(read):
    record = {**RECORD, "gold_label": "-"}
    [item] = read(json.dumps(record), lambda name: Snli(name, labels=False)).items
    assert item.label is None
    [line] = write_snli(json.dumps(record), "entailment")
    assert json.loads(line) == {**record, "gold_label": "entailment"}
    assert list(write_snli("", None)) == [""]
