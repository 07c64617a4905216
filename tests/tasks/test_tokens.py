import pytest
import torch

from elmokit.errors import ConfigError
from elmokit.tasks.config import TokensSection
from elmokit.tasks.tokens import TokenVectors, count_words, lengths_of

SENTENCES = [["The", "cat"], ["the", "the", "dog"], ["Cat"]]
BOTH, WORDS, CHARACTERS = (
    {"word_dim": word_dim, "character_filters": filters, "min_count": 1}
    for word_dim, filters in ((4, 5), (4, 0), (0, 5))
)


def token_vectors(words=("the", "cat"), elmo_dim=0, **settings):
    torch.manual_seed(0)
    return TokenVectors(TokensSection(**settings), words, elmo_dim).eval()


def test_words_that_are_frequent_enough_get_a_vector():
    assert count_words(SENTENCES, TokensSection(min_count=1)) == ["the", "cat", "dog"]
    assert count_words(SENTENCES, TokensSection(min_count=2)) == ["the", "cat"]
    assert count_words(SENTENCES, TokensSection(min_count=2, lower=False)) == ["the"]
    assert count_words(iter([]), TokensSection()) == []


def test_words_are_looked_up_in_lower_case_and_the_unknown_share_a_vector():
    found = token_vectors(**WORDS)([["The", "the", "dog", "bird"]], None)[0]
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[2], found[3])
    assert not torch.equal(found[0], found[2])
    cased = token_vectors(**WORDS, lower=False)([["The", "the", "dog"]], None)[0]
    assert torch.equal(cased[0], cased[2])
    assert not torch.equal(cased[0], cased[1])


def test_characters_keep_their_case():
    found = token_vectors(**CHARACTERS)([["The", "the", "dog", "the"]], None)[0]
    assert torch.equal(found[1], found[3])
    assert not torch.equal(found[0], found[1])
    assert not torch.equal(found[1], found[2])


@pytest.mark.parametrize("settings", [BOTH, WORDS, CHARACTERS])
def test_a_word_is_the_same_in_any_batch_and_padding_is_nothing(settings):
    vectors = token_vectors(**settings)
    found = vectors(SENTENCES, None)
    assert found.shape == (3, 3, vectors.dim)
    for row, sentence in zip(found, SENTENCES, strict=True):
        torch.testing.assert_close(row[: len(sentence)], vectors([sentence], None)[0])
        assert row[: len(sentence)].any(dim=1).all()
        assert not row[len(sentence) :].any()


def test_elmo_stands_behind_the_rest_and_has_its_own_dropout():
    elmo = torch.randn(3, 3, 6)
    vectors = token_vectors(elmo_dim=6, **BOTH)
    assert vectors.dim == 15
    found = vectors(SENTENCES, elmo)
    assert torch.equal(found[:, :, :9], vectors(SENTENCES, None))
    assert torch.equal(found[:, :, 9:], elmo)
    learning = token_vectors(elmo_dim=6, dropout=0.5, **BOTH).train()(SENTENCES, elmo)
    assert torch.equal(learning[:, :, 9:], elmo)
    assert (learning[0, :2, :9] == 0).any()
    alone = token_vectors(elmo_dim=6, word_dim=0, character_filters=0)(SENTENCES, elmo)
    assert torch.equal(alone, elmo)


def test_of_a_word_something_must_be_left():
    with pytest.raises(ConfigError, match="word_dim, character_filters: without ELMo one must be"):
        token_vectors(word_dim=0, character_filters=0)


def test_lengths():
    assert lengths_of(SENTENCES, torch.device("cpu")).tolist() == [2, 3, 1]
