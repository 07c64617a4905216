import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.characters import ByteAlphabet, UnicodeAlphabet, alphabet_from_dict
from elmokit.errors import ConfigError

words = st.text(st.characters(), max_size=60)  # lone surrogates included


def unicode_alphabet(**changes) -> UnicodeAlphabet:
    fields = {
        "characters": {"a": 1, "é": 2, "深": 3, "\U0001f600": 4},
        "begin_word": 5,
        "end_word": 6,
        "unknown": 7,
        "padding": 8,
        "boundaries": {"<bos>": 9, "<eos>": 10},
        "num_characters": 10,
        "max_characters": 6,
    }
    return UnicodeAlphabet(**fields | changes)


def test_lone_surrogates_are_dropped_and_counted():
    assert ByteAlphabet().encode("a\ud800b") == [259, ord("a") + 1, ord("b") + 1, 260]
    assert ByteAlphabet().count_unknown("a\ud800b\udfff") == 2


@given(words, st.integers(3, 60))
def test_byte_ids_keep_the_first_bytes_between_the_marks(word, limit):
    alphabet = ByteAlphabet(max_characters=limit)
    ids = alphabet.encode(word)
    content = word.encode("utf-8", "ignore")
    assert len(ids) <= limit
    if word not in alphabet.boundaries:
        assert ids == [259, *(byte + 1 for byte in content[: limit - 2]), 260]
        assert alphabet.is_cut(word) == (len(content) > limit - 2)


def test_exactly_the_two_sentence_marks_are_marks():
    alphabet = ByteAlphabet()
    assert alphabet.encode("<S>") == [259, 257, 260]
    assert alphabet.encode("</S>") == [259, 258, 260]
    assert alphabet.encode("<s>") == [259, 61, 116, 63, 260]
    assert alphabet.sentence_marks == ("<S>", "</S>")


@pytest.mark.parametrize(
    "alphabet", [ByteAlphabet(max_characters=3), unicode_alphabet(max_characters=3)]
)
def test_a_sentence_mark_is_never_cut(alphabet):
    for mark in alphabet.sentence_marks:
        assert len(alphabet.encode(mark)) == 3
        assert not alphabet.is_cut(mark)
        assert alphabet.count_unknown(mark) == 0


@pytest.mark.parametrize("limit", [-1, 0, 2])
def test_a_limit_without_room_is_refused(limit):
    for build in (ByteAlphabet, unicode_alphabet):
        with pytest.raises(
            ConfigError, match=rf"max_characters: {limit} leaves no room .*3 or more"
        ):
            build(max_characters=limit)


def test_listed_characters_have_their_ids_and_others_one():
    alphabet = unicode_alphabet()
    assert alphabet.encode("a深z") == [5, 1, 3, 7, 6]
    assert alphabet.encode("\U0001f600é") == [5, 4, 2, 6]
    assert alphabet.encode("") == [5, 6]
    assert alphabet.encode("<eos>") == [5, 10, 6]
    assert alphabet.count_unknown("a深zz\ud800") == 3


@given(words)
def test_unicode_ids_keep_the_first_characters(word):
    alphabet = unicode_alphabet()
    ids = alphabet.encode(word)
    assert len(ids) <= alphabet.max_characters
    assert all(1 <= i <= alphabet.num_characters for i in ids)
    if word not in alphabet.boundaries:
        assert len(ids) == min(len(word), 4) + 2
        assert alphabet.is_cut(word) == (len(word) > 4)


@given(st.integers(3, 100), st.lists(st.characters(), unique=True, max_size=20))
def test_an_alphabet_survives_json_and_pickle(limit, characters):
    number = len(characters) + 6
    listed = unicode_alphabet(
        characters={character: i for i, character in enumerate(characters, start=1)},
        **{
            name: number - i
            for i, name in enumerate(("begin_word", "end_word", "unknown", "padding"))
        },
        boundaries={"<bos>": number - 4, "<eos>": number - 5},
        num_characters=number,
        max_characters=limit,
    )
    for alphabet in (listed, ByteAlphabet(max_characters=limit)):
        assert alphabet_from_dict(json.loads(json.dumps(alphabet.to_dict()))) == alphabet
        assert pickle.loads(pickle.dumps(alphabet)) == alphabet


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"padding": 0}, r"ids must lie in 1\.\.10, found 0\.\.10"),
        ({"unknown": 11}, r"ids must lie in 1\.\.10, found 1\.\.11"),
        ({"characters": {"a": 12}}, r"ids must lie in 1\.\.10, found 5\.\.12"),
        ({"boundaries": {"<bos>": -1, "<eos>": 2}}, r"ids must lie in 1\.\.10, found -1\.\.8"),
        ({"boundaries": {"<bos>": 9}}, r"before and after a sentence, found \['<bos>'\]"),
        ({"characters": {"ab": 1}}, "characters: 'ab' is not one character"),
    ],
)
def test_bad_ids_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        unicode_alphabet(**changes)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "alphabet: None is neither 'bytes' nor 'unicode'"),
        ({"alphabet": "ascii"}, "alphabet: 'ascii' is neither"),
        ({"alphabet": ["bytes"]}, "is neither 'bytes' nor 'unicode'"),
        (
            {"alphabet": "bytes", "max_charcters": 9},
            r"unknown field .*did you mean 'max_characters'",
        ),
        ({"alphabet": "bytes", "max_characters": 1}, "max_characters: 1 leaves no room"),
        ({"alphabet": "unicode"}, "field 'characters' is missing"),
        (
            unicode_alphabet().to_dict() | {"characters": {"a": "1"}},
            "characters: 'a': expected int",
        ),
        (
            unicode_alphabet().to_dict() | {"characters": [1]},
            "characters: expected names with values",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said(data, message):
    with pytest.raises(ConfigError, match=message) as caught:
        alphabet_from_dict(data, where="x/characters.json")
    assert str(caught.value).startswith("x/characters.json: ")
