from builders import char_bilm, word_bilm
from elmokit.embedding.summary import COUNTS, count, describe
from elmokit.text import Row
from elmokit.vocabulary import Vocabulary


def rows(*sentences):
    return [Row(tuple(sentence), line) for line, sentence in enumerate(sentences, start=1)]


def test_counts():
    counts = count(
        rows(["fish", "&amp;", "chips"], [], ["x" * 49, "x" * 48, "\ud800a"]), char_bilm()
    )
    assert counts == {
        "rows": 3,
        "tokens": 6,
        "cut_tokens": 1,
        "unknown_characters": 1,
        "unknown_words": 0,
        "html_escapes": 1,
    }


def test_characters_outside_the_training_vocabulary_are_unknown():
    bilm = char_bilm()
    bilm.vocabulary = Vocabulary(("<S>", "</S>", "<UNK>", "abc"))
    assert count(rows(["cab", "გა", "<S>"], ["გა"]), bilm)["unknown_characters"] == 4


def test_unknown_words():
    assert count(rows(["tea", "x"], ["x"]), word_bilm(["tea"]))["unknown_words"] == 2


def test_escapes_are_looked_for_in_the_text_where_a_tokeniser_cut_it():
    row = Row(
        ("fish", "&", "amp", ";"), 1, text="fish &amp;", offsets=((0, 4), (5, 6), (6, 9), (9, 10))
    )
    assert count([row], char_bilm())["html_escapes"] == 1


def test_the_line_names_what_there_is():
    counts = dict.fromkeys(COUNTS, 0) | {"rows": 1000, "tokens": 2500, "cut_tokens": 3}
    assert describe(counts, 1234.5, 2.0) == (
        "1,000 rows, 2,500 tokens (3 cut, 0 unknown characters), 1,234 tokens per second, "
        "2.0 seconds in all"
    )
    line = describe(counts | {"rows": 1, "unknown_words": 7, "html_escapes": 1}, 1.0, 2.0)
    assert line.startswith("1 row, 2,500 tokens")
    assert "7 unknown words" in line
    assert "1 HTML escape such as" in line


def test_characters_that_cannot_be_told_are_not_called_known():
    counts = dict.fromkeys(COUNTS, 0)
    assert "unknown characters not told" in describe(counts, 1.0, 1.0, knows_characters=False)
    counts["unknown_characters"] = 1  # lone surrogates have no bytes
    assert "1 unknown character," not in describe(counts, 1.0, 1.0, knows_characters=False)
    assert "1 unknown character)" in describe(counts, 1.0, 1.0, knows_characters=False)
