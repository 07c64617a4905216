import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.config import parse
from elmokit.errors import ConfigError
from elmokit.vocabulary import InputWords, Vocabulary

LISTED = ("<S>", "</S>", "<UNK>", "tea", "深い", "")


def test_ids_are_places_from_1_and_others_are_unknown():
    words = InputWords(words=LISTED)
    assert [words.encode(word) for word in LISTED] == [1, 2, 3, 4, 5, 6]
    assert words.encode("coffee") == 3
    assert words.is_known("tea")
    assert not words.is_known("coffee")
    assert not words.is_known("Tea")


def test_a_repeated_word_has_its_last_row():
    words = InputWords(words=(*LISTED, "tea"))
    assert words.encode("tea") == 7


def test_words_are_cut_before_the_look_up():
    words = InputWords(words=LISTED, max_characters=3)
    assert words.encode("teapot") == 4
    assert words.is_known("teapot")
    assert not words.is_known("te")


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_without_room_is_refused(limit):
    with pytest.raises(ConfigError, match=f"max_characters: {limit} must be 1 or more"):
        InputWords(words=LISTED, max_characters=limit)


@pytest.mark.parametrize(
    ("missing", "name"), [("<S>", "begin"), ("</S>", "end"), ("<UNK>", "unknown")]
)
def test_a_missing_special_word_is_named(missing, name):
    with pytest.raises(
        ConfigError, match=rf"words: the {name} word '{missing}' is not in the list"
    ):
        InputWords(words=tuple(word for word in LISTED if word != missing))


def test_other_special_words_may_be_given():
    words = InputWords(
        words=("<bos>", "<eos>", "<oov>"), begin="<bos>", end="<eos>", unknown="<oov>"
    )
    assert words.encode("x") == 3


@given(st.lists(st.text(st.characters()), max_size=20), st.none() | st.integers(1, 9))
def test_a_list_survives_json_pickle_and_copies(others, limit):
    words = InputWords(words=(*LISTED, *others), max_characters=limit)
    copies = (
        parse(InputWords, json.loads(json.dumps(words.to_dict())), "words.json"),
        pickle.loads(pickle.dumps(words)),
        copy.deepcopy(words),
    )
    for copied in copies:
        assert copied == words
        assert copied.ids == words.ids


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"words": ["a", 1]}, r"w\.json: words\[1\]: expected str, found 1"),
        ({"ids": {}}, r"w\.json: unknown field 'ids'"),
        ({"unkown": "x"}, r"unknown field 'unkown' \(did you mean 'unknown'"),
        ({"words": ["<S>"]}, r"w\.json: words: the end word '</S>' is not in the list"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(changes, message):
    with pytest.raises(ConfigError, match=message):
        parse(InputWords, InputWords(words=LISTED).to_dict() | changes, "w.json")


def test_a_vocabulary_keeps_the_order_of_its_words_and_knows_their_characters():
    vocabulary = Vocabulary(("ba", "a", "ba", ""))
    assert list(vocabulary.words) == ["ba", "a", "ba", ""]
    assert vocabulary.characters == {"a", "b"}
    assert Vocabulary(()).characters == frozenset()
    assert pickle.loads(pickle.dumps(vocabulary)) == vocabulary


def test_a_vocabulary_gives_rows_and_that_of_the_unknown_word():
    vocabulary = Vocabulary(("<S>", "</S>", "<UNK>", "tea", "tea"))
    assert [vocabulary.encode(word) for word in ("<S>", "tea", "coffee")] == [0, 4, 2]
    with pytest.raises(ConfigError, match="has neither 'coffee' nor <UNK>"):
        Vocabulary(("tea",)).encode("coffee")
