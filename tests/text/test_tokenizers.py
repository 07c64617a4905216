import itertools
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.errors import ConfigError, MissingExtraError
from elmokit.text.tokenizers import get_tokenizer

quick = settings(derandomize=True, deadline=None, max_examples=200)
CODE_POINTS = [chr(point) for point in range(sys.maxunicode + 1)]
TRICKY = st.text(
    st.sampled_from(
        " \t\u00a0\u3000\u202f\u2028\x85\x1c\x00\u200b\u200d\u0301a1.,'’\"_日กé👨🇩\ud800"
    )
    | st.characters(),
    max_size=25,
)


def tokens(name: str, text: str) -> list[str]:
    return [token for token, _, _ in get_tokenizer(name)(text)]


@quick
@given(text=TRICKY, name=st.sampled_from(["whitespace", "characters", "words"]))
def test_tokens_are_the_text_without_its_white_space(text, name):
    cut = get_tokenizer(name)(text)
    assert all(text[start:end] == token for token, start, end in cut)
    assert all(token and not any(map(str.isspace, token)) for token, _, _ in cut)
    assert all(one[2] <= two[1] for one, two in itertools.pairwise(cut))
    assert "".join(token for token, _, _ in cut) == "".join(text.split())


@quick
@given(text=TRICKY)
def test_whitespace_is_str_split(text):
    assert tokens("whitespace", text) == text.split()


def test_every_code_point_is_space_or_token_as_for_str_split():
    text = "x".join(CODE_POINTS)
    assert tokens("whitespace", text) == text.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tea\u00a0is\u3000hot", "tea is hot"),
        ("Hello, don't stop!", "Hello , don't stop !"),
        ("U.S.A. 3.14 1,000 a_b", "U.S.A . 3.14 1,000 a_b"),
        ("(e.g. fish-bones)", "( e.g . fish - bones )"),
        ("привет, мир", "привет , мир"),
        ("cafe\u0301s x\u200by", "cafe\u0301s x \u200b y"),
        ("👨\u200d👩\u200d👧 🇩🇪🇫🇷", "👨\u200d👩\u200d👧 🇩🇪 🇫🇷"),
        ("日本 ไท", "日 本 ไ ท"),
        ("$5 50%", "$ 5 50 %"),
        ("", ""),
    ],
)
def test_words_follow_unicode(text, expected):
    assert tokens("words", text) == expected.split()


def test_words_hold_no_narrow_space_though_unicode_joins_digits_there():
    assert tokens("words", "1\u202f000") == ["1", "000"]


def test_characters_are_code_points():
    assert get_tokenizer("characters")("e\u0301 日") == [
        ("e", 0, 1),
        ("\u0301", 1, 2),
        ("日", 3, 4),
    ]


def test_spacy_gives_the_rules_of_a_language_with_exact_places():
    assert " ".join(tokens("spacy", "I don't \n know Mr. Li.")) == "I do n't know Mr. Li ."
    assert " ".join(tokens("spacy:de", "Er sagt z.B. nein.")) == "Er sagt z.B. nein ."
    text = "\ud800x,\u00a0 y\ud83dé"
    cut = get_tokenizer("spacy")(text)
    assert all(text[start:end] == token for token, start, end in cut)
    assert "".join(token for token, _, _ in cut) == "".join(text.split())


def test_spacy_languages_that_are_not_there_are_errors_of_one_line():
    with pytest.raises(ConfigError, match="tokenizer 'spacy:qq': ") as caught:
        get_tokenizer("spacy:qq")
    assert "\n" not in str(caught.value)


def test_spacy_absent_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtraError, match=r'pip install "elmokit\[spacy\]"'):
        get_tokenizer("spacy:de")


@pytest.mark.parametrize(
    ("name", "guess"), [("word", "words"), ("Whitespace", "whitespace"), ("spcy", "spacy")]
)
def test_an_unknown_name_gives_the_nearest(name, guess):
    with pytest.raises(ConfigError, match=f"{name!r} is unknown .did you mean {guess!r}"):
        get_tokenizer(name)
