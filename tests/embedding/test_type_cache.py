import pickle

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.embedding.type_cache import TypeCache


def encode(words):
    return torch.tensor([[float(ord(word)), 1.0] for word in words])


def cache(capacity):
    return TypeCache(capacity, 2, torch.device("cpu"), torch.float32)


@settings(deadline=None, derandomize=True)
@given(
    st.integers(0, 4),
    st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1), max_size=12),
)
def test_any_history_gives_the_right_vectors_within_the_capacity(capacity, calls):
    held = cache(capacity)
    for words in calls:
        assert torch.equal(held.vectors(words, encode), encode(words))
        assert len(held) <= capacity


def test_a_word_is_encoded_once_until_it_is_forgotten():
    held, encoded = cache(4), []

    def record(words):
        encoded.extend(words)
        return encode(words)

    held.vectors(["a", "b"], record)
    held.vectors(["b", "c"], record)
    assert encoded == ["a", "b", "c"]
    held.clear()
    assert len(held) == 0
    held.vectors(["a"], record)
    assert encoded == ["a", "b", "c", "a"]


def test_the_oldest_word_gives_way():
    held = cache(2)
    for word in "abc":
        held.vectors([word], encode)
    seen = []
    held.vectors(["b", "c"], lambda words: seen.append(words) or encode(words))
    assert seen == []


def test_pickle_keeps_the_words():
    held = cache(4)
    held.vectors(["a", "b"], encode)
    copy = pickle.loads(pickle.dumps(held))
    assert torch.equal(copy.vectors(["b", "a"], lambda _: 1 / 0), encode(["b", "a"]))
