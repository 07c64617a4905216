"""Values are worked out by hand from the rules of SQuAD's official script of version 1.1."""

import pytest

from elmokit.errors import InputError
from elmokit.metrics.answers import exact_match, f1, normalize, score_answers

PAIRS = [
    # predicted, right, exact match, F1
    ("Paris", "Paris", True, 1),
    ("paris", "PARIS", True, 1),
    ("the Paris", "Paris", True, 1),
    ("A dog", "an dog", True, 1),
    ("Paris.", "Paris", True, 1),
    ("  in   Paris\n", "in Paris", True, 1),
    ("theatre", "atre", False, 0),  # no article inside a word
    ("a", "the", True, 0),  # nothing is left of either: equal, but no word in common
    ("", "", True, 0),
    ("", "Paris", False, 0),
    ("the", "Paris", False, 0),
    ("...", "", True, 0),
    ("U.S.", "US", True, 1),
    ("well-known", "wellknown", True, 1),
    ("well-known", "well known", False, 0),
    ("$5,000", "5000", True, 1),
    ("5.000", "5 000", False, 0),
    ("the dog's", "dogs", True, 1),
    ("the-end", "theend", True, 1),  # punctuation goes first, and the article is one no more
    ("a.", "x", False, 0),  # first the full stop goes, then the article
    ("T.H.E. end", "end", True, 1),
    ("1990–2000", "19902000", False, 0),  # a dash outside ASCII stays
    ("“Paris”", "Paris", False, 0),  # and so do curly quotes
    ("naïve", "naive", False, 0),
    ("ÉCOLE", "école", True, 1),
    ("cafe\u0301", "café", False, 0),  # composed otherwise, another word
    ("New\u00a0York", "New York", True, 1),
    ("New York", "York", False, 2 / 3),  # precision 1/2, recall 1
    ("the old town", "the old red town", False, 4 / 5),  # 2 of 2, 2 of 3
    ("no no no", "no", False, 1 / 2),  # 1 of 3, 1 of 1
    ("no no", "no yes no", False, 4 / 5),  # 2 of 2, 2 of 3
    ("town old", "old town", False, 1),  # order plays no part in F1
    ("red blue", "green", False, 0),
    ("北京", "北京", True, 1),
    ("北京市", "北京", False, 0),  # words stand between spaces
    ("a b c", "b c d e", False, 2 * (2 / 2) * (2 / 4) / (2 / 2 + 2 / 4)),
]


@pytest.mark.parametrize(("predicted", "right", "matches", "overlap"), PAIRS)
def test_against_values_worked_out_by_hand(predicted, right, matches, overlap):
    assert exact_match(predicted, [right]) is matches
    assert f1(predicted, [right]) == pytest.approx(overlap)
    assert f1(right, [predicted]) == pytest.approx(overlap)


def test_normalized_answers_stay_as_they_are():
    for pair in PAIRS:
        for text in pair[:2]:
            assert normalize(normalize(text)) == normalize(text)
    assert normalize("An  Apple, a\tPEAR & the «Fig»!") == "apple pear «fig»"


def test_the_nearest_right_answer_counts():
    right = ["York", "New York City", "the city"]
    assert not exact_match("New York", right)
    assert f1("New York", right) == pytest.approx(4 / 5)
    assert exact_match("City", right)


def test_without_a_right_answer_every_answer_is_wrong():
    for predicted in ("x", "", "the"):  # of the last two no word is left
        assert (f1(predicted, []), exact_match(predicted, [])) == (0.0, False)
    scores = score_answers([["x"], []], ["x", ""])
    assert scores.to_dict() == {"f1": 0.5, "exact_match": 0.5}


def test_scores_are_means_over_questions():
    scores = score_answers([["x"], ["New York"], [""], ["x", "b"]], ["y", "York", "y", "the b"])
    assert scores.to_dict() == {"f1": pytest.approx((2 / 3 + 1) / 4), "exact_match": 1 / 4}
    with pytest.raises(InputError, match="not one question"):
        score_answers([], [])
