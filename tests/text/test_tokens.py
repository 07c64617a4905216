import numpy as np
import pytest

from elmokit.errors import InputError
from elmokit.text.tokens import count_html_escapes, token_lists

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
    assert list(token_lists(sentences)) == [list(sentence) for sentence in sentences]


class Column:
    """Iterates over values and looks up labels, as a column of a data frame does."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return iter(self.values.values())

    def __getitem__(self, label):
        return self.values[label]


def test_the_order_is_that_of_iteration():
    column = Column({2: ["a", "x"], 0: Column({1: "b", 0: "c"}), 1: ()})
    assert list(token_lists(column)) == [["a", "x"], ["b", "c"], []]
    assert list(token_lists(iter([["a"], iter(["b"])]))) == [["a"], ["b"]]
    assert list(token_lists({"x": ["a"], "y": ["b"]}.values())) == [["a"], ["b"]]


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
        ({"a": ["b"]}, r"^sentences: expected lists of tokens, .* type dict"),
        ({("a",)}, r"^sentences: expected lists of tokens, .* type set"),
        (None, r"^sentences: expected lists of tokens, found None"),
        (5, r"^sentences: expected lists of tokens, .* type int"),
    ],
)
def test_what_is_no_list_of_tokens_is_refused_with_its_place(sentences, message):
    with pytest.raises(InputError, match=message):
        list(token_lists(sentences))


def test_white_space_in_tokens_warns_once_with_its_first_place():
    sentences = [["a"], ["b", "New York"], ["c\td", "e"], ["\u00a0"]]

    def embed() -> None:
        list(token_lists(sentences))

    with pytest.warns(UserWarning, match=r"^sentences\[1\]\[1\]: .*white space") as caught:
        embed()
    (warning,) = caught
    assert warning.filename == __file__  # the caller of what checks, not this library


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
