import itertools
from typing import get_args

import pytest

from elmokit.errors import InputError
from elmokit.metrics.spans import (
    InvalidPolicy,
    Scheme,
    Span,
    decode,
    detect_scheme,
    encode,
    first_invalid,
    is_tag,
    may_follow,
    score_spans,
    tags_of,
)

SCHEMES: tuple[Scheme, ...] = get_args(Scheme)
PREFIXES = {"IOB2": "BI", "IOB1": "BI", "BIOES": "BIES"}
THEIR_NAMES = {"IOB2": "BIO", "IOB1": "IOB", "BIOES": "BIOES"}


def all_sequences(scheme, length=4):
    tags = ["O", *(f"{prefix}-{label}" for prefix in PREFIXES[scheme] for label in "XY")]
    for size in range(length + 1 if scheme != "BIOES" else length):
        yield from map(list, itertools.product(tags, repeat=size))


@pytest.mark.parametrize(
    ("scheme", "tags", "spans"),
    [
        ("IOB2", "", []),
        ("IOB2", "O B-X I-X O", [(1, 3, "X")]),
        ("IOB2", "B-X B-X I-X", [(0, 1, "X"), (1, 3, "X")]),  # adjacent, the same label
        ("IOB2", "B-X B-Y", [(0, 1, "X"), (1, 2, "Y")]),
        ("IOB1", "I-X I-X O I-Y", [(0, 2, "X"), (3, 4, "Y")]),
        ("IOB1", "I-X B-X I-X", [(0, 1, "X"), (1, 3, "X")]),
        ("IOB1", "I-X I-Y", [(0, 1, "X"), (1, 2, "Y")]),
        ("BIOES", "B-X E-X S-X S-X", [(0, 2, "X"), (2, 3, "X"), (3, 4, "X")]),
        ("BIOES", "B-X I-X E-X B-X E-X", [(0, 3, "X"), (3, 5, "X")]),
    ],
)
def test_tags_and_spans(scheme, tags, spans):
    spans = [Span(*span) for span in spans]
    for policy in get_args(InvalidPolicy):
        assert decode(tags.split(), scheme, policy) == spans
    assert encode(reversed(spans), len(tags.split()), scheme) == tags.split()


@pytest.mark.parametrize(
    ("scheme", "tags", "lenient", "place"),
    [
        ("IOB2", "O I-X I-X", [(1, 3, "X")], 1),
        ("IOB2", "B-X I-Y I-Y", [(0, 1, "X"), (1, 3, "Y")], 1),
        ("IOB2", "B-X E-X", [(0, 2, "X")], 0),
        ("IOB1", "O B-X", [(1, 2, "X")], 1),
        ("IOB1", "I-X B-Y", [(0, 1, "X"), (1, 2, "Y")], 1),
        ("BIOES", "B-X O", [(0, 1, "X")], 0),
        ("BIOES", "S-X E-X", [(0, 1, "X"), (1, 2, "X")], 1),
        ("BIOES", "B-X I-Y E-Y", [(0, 1, "X"), (1, 3, "Y")], 0),
        ("BIOES", "B-X I-X", [(0, 2, "X")], 0),
    ],
)
def test_impossible_sequences(scheme, tags, lenient, place):
    tags = tags.split()
    found = decode(tags, scheme)
    assert found == [Span(*span) for span in lenient]
    assert set(decode(tags, scheme, "discard")) < set(found)
    assert first_invalid(tags, scheme) == place
    with pytest.raises(InputError, match=rf"tag {place + 1} \({tags[place]}\): impossible"):
        decode(tags, scheme, "refuse")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_steps_that_are_allowed_make_just_the_valid_sequences(scheme):
    for tags in all_sequences(scheme):
        steps = itertools.pairwise([None, *tags, None])
        allowed = all(may_follow(before, tag, scheme) for before, tag in steps)
        assert allowed == (first_invalid(tags, scheme) is None), tags


@pytest.mark.parametrize("scheme", SCHEMES)
def test_spans_survive_their_writing(scheme):
    for tags in all_sequences(scheme):
        spans = decode(tags, scheme)
        for other in SCHEMES:
            written = encode(spans, len(tags), other)
            assert first_invalid(written, other) is None
            assert decode(written, other, "refuse") == spans


@pytest.mark.parametrize("scheme", SCHEMES)
def test_agrees_with_seqscore_on_every_short_sequence(scheme):
    encoding = pytest.importorskip("seqscore.encoding").get_encoding(THEIR_NAMES[scheme])
    validate = pytest.importorskip("seqscore.validation").validate_labels

    def theirs(labels):
        mentions = encoding.decode_labels(labels)
        return [Span(m.span.start, m.span.end, m.type) for m in mentions]

    num_invalid = 0
    for tags in filter(None, all_sequences(scheme)):
        is_valid = validate(tags, encoding).is_valid()
        assert is_valid == (first_invalid(tags, scheme) is None), tags
        if is_valid:
            assert decode(tags, scheme) == theirs(tags)
            continue
        num_invalid += 1
        for ours, method in (("conlleval", "conlleval"), ("discard", "discard")):
            if method in encoding.supported_repair_methods():
                repaired = encoding.repair_labels(tags, method)
                assert decode(tags, scheme, ours) == theirs(repaired), tags
    assert num_invalid > 10


def test_scores_agree_with_seqscore():
    scoring = pytest.importorskip("seqscore.scoring")
    sequences = list(all_sequences("IOB2"))
    gold = [tags for tags in sequences if len(tags) == 4]
    predicted = gold[7:] + gold[:7]
    theirs, _ = scoring.score_label_sequences(predicted, gold, "BIO", repair="conlleval")
    ours = score_spans(map(decode, gold), map(decode, predicted))
    assert ours.overall.correct == theirs.true_pos
    assert ours.overall.predicted == theirs.total_pos
    assert ours.overall.gold == theirs.total_ref
    assert ours.overall.f1 == pytest.approx(float(theirs.f1))
    for label, counts in ours.labels.items():
        assert counts.f1 == pytest.approx(float(theirs.type_scores[label].f1))


def test_scores_count_by_label():
    gold = [[Span(0, 1, "X"), Span(2, 4, "Y")], [], [Span(0, 2, "X")]]
    predicted = [[Span(0, 1, "X"), Span(2, 4, "X")], [Span(0, 1, "Z")], [Span(0, 2, "X")]]
    scores = score_spans(gold, predicted).to_dict()
    assert (scores["correct"], scores["predicted"], scores["gold"]) == (2, 4, 3)
    assert scores["precision"] == 0.5
    assert scores["recall"] == pytest.approx(2 / 3)
    assert scores["f1"] == pytest.approx(4 / 7)
    assert {label: row["f1"] for label, row in scores["labels"].items()} == {
        "X": pytest.approx(0.8),
        "Y": 0.0,
        "Z": 0.0,
    }


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tags_of_labels_are_all_that_writing_needs(scheme):
    tags = tags_of({"Y", "X"}, scheme)
    assert set(tags) == {tag for sequence in all_sequences(scheme) for tag in sequence}
    assert tags[0] == "O"


def test_scores_of_nothing_are_zero():
    assert score_spans([[]], [[]]).overall.f1 == 0.0
    with pytest.raises(ValueError, match="shorter"):
        score_spans([[]], [])


@pytest.mark.parametrize(
    ("scheme", "sequences"),
    [
        ("IOB2", ["O O"]),
        ("IOB2", ["B-X I-X", "O I-X", "B-X O"]),  # one slip
        ("IOB1", ["I-X I-X", "I-X B-X"]),
        ("IOB1", ["O I-X"]),
        ("BIOES", ["S-X", "B-X E-X", "O"]),
        ("BIOES", ["O S-X"]),
    ],
)
def test_scheme_is_found_out(scheme, sequences):
    assert detect_scheme(tags.split() for tags in sequences) == scheme


@pytest.mark.parametrize("tag", ["PER", "B-", "b-PER", "", "B_PER", "OO"])
def test_other_tags_are_refused(tag):
    assert not is_tag(tag)
    with pytest.raises(InputError, match="expected O, or one of B, I, E, S with a label"):
        decode(["O", tag])
