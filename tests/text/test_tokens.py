import warnings

import numpy as np
import pytest

from elmokit.errors import InputError
from elmokit.text.tokens import check_tokens, count_html_escapes

SPLIT = r"split it first: sentence\.split\(\)"


@pytest.mark.parametrize(
    "sentences",
    [
        [],
        [[]],
        [["a", "b"], (), ("",)],
        (["a"], ["\x00", "\ud800", "a\u200bb"]),
        [np.array(["a", "b"])],
    ],
)
def test_lists_of_tokens_pass_without_a_word(sentences):
    check_tokens(sentences)


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ("the cat", rf"^sentences: expected lists of tokens, found the string 'the cat'; {SPLIT}"),
        (["the cat"], rf"^sentences\[0\]: expected a list of tokens, .*'the cat'; {SPLIT}"),
        ([["ok"], "x" * 999], rf"^sentences\[1\]: .*'x{{40}}'\.\.\.; {SPLIT}"),
        ([["a"], ["b", 5]], r"^sentences\[1\]\[1\]: expected a token, .* type int"),
        ([["a", None]], r"^sentences\[0\]\[1\]: expected a token, .* found None"),
        ([["a", ["b"]]], r"^sentences\[0\]\[1\]: expected a token, .* type list"),
        ([b"ab"], r"^sentences\[0\]\[0\]: expected a token, .* type int"),
        ([None], r"^sentences\[0\]: expected a list of tokens, found None"),
        ([7], r"^sentences\[0\]: expected a list of tokens, .* type int"),
        ([{"a": 1}], r"^sentences\[0\]: expected a list of tokens, .* type dict"),
        ([{"a"}], r"^sentences\[0\]: expected a list of tokens, .* type set"),
        ([iter(["a"])], r"^sentences\[0\]: expected a list of tokens, .* type list_iterator"),
        (None, r"^sentences: expected lists of tokens, found None"),
        (5, r"^sentences: expected lists of tokens, .* type int"),
    ],
)
def test_what_is_no_list_of_tokens_is_refused_with_its_place(sentences, message):
    with pytest.raises(InputError, match=message):
        check_tokens(sentences)


def test_white_space_in_tokens_warns_once_with_first_place_and_count():
    sentences = [["a"], ["b", "New York"], ["c\td", "e"], ["\u00a0"]]

    def embed() -> None:
        check_tokens(sentences)

    with pytest.warns(UserWarning, match=r"^sentences\[1\]\[1\]: .*\(3 such tokens") as caught:
        embed()
    (warning,) = caught
    assert warning.filename == __file__  # the caller of what checks, not this library


def test_white_space_may_be_passed_over():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_tokens([["New York"]], warn_spaces=False)


@pytest.mark.parametrize(
    ("tokens", "count"),
    [
        (["fish", "&amp;", "chips"], 1),
        (["&lt;b&gt;", "x&#39;s", "&#x27;", "&#X2F;", "&quot;"], 6),
        (["fish &amp; chips &nbsp;"], 2),
        (["&", "&;", "&amp", "AT&T;", "a&b", "&#;", "&#xg;", "amp;", ""], 0),
        ([], 0),
    ],
)
def test_html_escapes_are_counted(tokens, count):
    assert count_html_escapes(tokens) == count
