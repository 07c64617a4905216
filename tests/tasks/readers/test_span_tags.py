import pytest

from elmokit.errors import InputError
from elmokit.tasks.readers.items import Sentence
from elmokit.tasks.readers.reading import Entry, Reading
from elmokit.tasks.readers.span_tags import are_span_tags, checked, scheme_of


def reading(*sentences):
    """Sentences of tags, the n-th with lines from 10 n."""
    items = [
        Sentence(
            name="a",
            lines=tuple(range(10 * number, 10 * number + len(tags.split()))),
            tokens=tuple(tags.split()),
            tags=tuple(tags.split()),
        )
        for number, tags in enumerate(sentences, start=1)
    ]
    return Reading("a", [Entry(item.lines, item) for item in items], 0)


def tags(reading):
    return [" ".join(item.tags) for item in reading.items]


@pytest.mark.parametrize(
    ("sentences", "are"),
    [
        (["O B-X", "O"], True),
        (["O I-X"], True),
        (["O O"], False),  # nothing tells
        (["DET NOUN"], False),
        (["O B-X", "O X"], False),
        (["O B-"], False),
    ],
)
def test_what_writes_spans(sentences, are):
    assert are_span_tags(reading(*sentences)) == are


def test_the_scheme_is_that_which_fits_best():
    assert scheme_of(reading("B-X I-X", "O")) == "IOB2"
    assert scheme_of(reading("I-X I-X", "O")) == "IOB1"
    assert scheme_of(reading("B-X E-X", "S-Y", "X B-X")) == "BIOES"  # that with an X is no vote


BROKEN = "O I-X I-X O B-Y"


def test_policies_for_impossible_sequences():
    """In IOB2 a span cannot begin with I-X."""
    read = reading("B-X I-X", BROKEN)
    assert tags(checked(read, "IOB2", "conlleval", skip_bad=False)) == [
        "B-X I-X",
        "O B-X I-X O B-Y",
    ]
    assert tags(checked(read, "IOB2", "discard", skip_bad=False)) == ["B-X I-X", "O O O O B-Y"]
    with pytest.raises(InputError, match="a: line 21: tag I-X cannot stand there in IOB2"):
        checked(read, "IOB2", "refuse", skip_bad=False)
    left = checked(read, "IOB2", "refuse", skip_bad=True)
    assert (tags(left), left.num_skipped, len(left.entries)) == (["B-X I-X"], 1, 2)
    assert tags(checked(read, "IOB1", "refuse", skip_bad=True)) == []  # where B-X cannot begin one


def test_tags_are_written_in_another_scheme():
    found = checked(reading("O B-X I-X B-X"), "IOB2", "refuse", write_as="BIOES", skip_bad=False)
    assert tags(found) == ["O B-X E-X S-X"]
    assert found.items[0].scheme == "IOB2"  # the file's


@pytest.mark.parametrize("policy", ["conlleval", "discard", "refuse"])
def test_what_is_no_tag_is_named(policy):
    with pytest.raises(InputError, match="a: line 11: tag 'X': expected O, or B, I, E or S with a"):
        checked(reading("O X"), "IOB2", policy, skip_bad=False)
