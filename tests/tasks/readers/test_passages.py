import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.tasks.readers.passages import Cutting, window_around, windows
from elmokit.text.tokenizers import cut_characters, cut_words


@given(st.integers(1, 60), st.integers(2, 20), st.data())
def test_windows_hold_every_short_run_whole(num_words, size, data):
    overlap = data.draw(st.integers(0, size - 1))
    cut = windows(num_words, size, overlap)
    assert all(0 < len(window) <= size for window in cut)
    assert len(set(cut)) == len(cut)
    for length in range(1, max(overlap, 1) + 1):
        for start in range(num_words - length + 1):
            run = range(start, start + length)
            assert any(set(run) <= set(window) for window in cut)
    if num_words <= size:
        assert cut == (range(num_words),)


@given(st.text("ab .,漢字é\n\t", min_size=1, max_size=40), st.data())
def test_answers_are_cut_from_the_text(text, data):
    passage = Cutting(tokenizer=cut_words, window=8, overlap=2).passage(text)
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    span = passage.words(start, end)
    if text[start:end].strip():
        found = passage.characters(span)
        assert found in text
        assert text[start:end].strip() in found
    else:
        assert len(span) == 0
    for place in range(len(passage.tokens)):
        assert passage.characters(range(place, place + 1)) == passage.tokens[place]
        assert passage.words(*passage.offsets[place]) == range(place, place + 1)


@pytest.mark.parametrize("cut", [cut_words, cut_characters])
def test_each_chinese_character_is_a_word(cut):
    passage = Cutting(tokenizer=cut, window=9, overlap=2).passage("船在鎮江，停泊。")
    assert passage.tokens == ("船", "在", "鎮", "江", "，", "停", "泊", "。")
    assert passage.characters(passage.words(2, 4)) == "鎮江"


def test_the_window_around_an_answer_has_most_on_both_sides():
    cut = windows(20, 10, 6)
    assert cut == (range(10), range(4, 14), range(8, 18), range(12, 20))
    assert window_around([range(8, 10)], cut) == range(4, 14)
    assert window_around([range(2, 15)], cut) is None
    assert window_around([], cut) is None
    assert window_around([range(2, 15), range(19, 20)], cut) == range(12, 20)


def test_a_question_is_cut_at_the_window():
    assert Cutting(tokenizer=cut_words, window=2, overlap=1).question("Who is it?") == ("Who", "is")
