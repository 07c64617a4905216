import logging
import multiprocessing
import random
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import ConfigError, InputError, OutputError
from elmokit.training.vocabulary import (
    choose_words,
    count_words,
    make_vocabulary,
    read_vocabulary,
)
from elmokit.vocabulary import BEGIN, END, UNKNOWN
from training.corpora import write_text

SPECIAL = [BEGIN, END, UNKNOWN]


@pytest.fixture
def shards(tmp_path):
    """Three files with the same words, and how often each occurs in all."""
    draw = random.Random(1)
    words = [f"word{i}" for i in range(40)] + ["深い", "<S>", "<UNK>", "\u200b", "nul\0"]
    counts: Counter[str] = Counter()
    for name in ("a.txt", "b.txt.gz", "c.txt"):
        lines = [draw.choices(words, k=draw.randrange(9)) for _ in range(60)]
        counts.update(word for line in lines for word in line)
        write_text(tmp_path / name, map(" ".join, lines))
    return str(tmp_path / "?.txt*"), counts


def test_the_list_is_sorted_by_falling_count_then_by_word(shards, tmp_path):
    pattern, counts = shards
    output = tmp_path / "vocab.txt"
    summary = make_vocabulary([pattern], output, processes=1)
    words = output.read_bytes().decode().removesuffix("\n").split("\n")
    assert words[:3] == SPECIAL
    expected = sorted((-count, word) for word, count in counts.items() if word not in SPECIAL)
    assert words[3:] == [word for _, word in expected]
    assert list(read_vocabulary(output).words) == words
    assert (summary.num_words, summary.num_distinct) == (len(words), len(counts))
    assert (summary.num_tokens, summary.num_files) == (counts.total(), 3)
    assert summary.num_known == counts.total() - counts[UNKNOWN]


def test_processes_change_nothing(shards, tmp_path):
    pattern, _ = shards
    summaries = [
        make_vocabulary([pattern], tmp_path / f"v{processes}", processes=processes)
        for processes in (1, 2)
    ]
    assert summaries[0] == summaries[1]
    assert (tmp_path / "v1").read_bytes() == (tmp_path / "v2").read_bytes()


def test_an_error_in_another_process_is_the_same_line(tmp_path):
    good = write_text(tmp_path / "a.txt", ["the cat"])
    bad = tmp_path / "b.txt"
    bad.write_bytes(b"good\nna\xefve\n")
    with pytest.raises(InputError, match=rf"^{re.escape(str(bad))}: line 2, byte 3"):
        count_words([bad, good], processes=2)
    assert multiprocessing.active_children() == []


def test_sizes_and_counts_limit_the_list(shards, tmp_path):
    pattern, counts = shards
    frequent = {word for word, n in counts.items() if n >= 20}.difference(SPECIAL)
    assert 0 < len(frequent) < len(counts) - 3
    words = choose_words(counts, min_count=20).words
    assert set(words[3:]) == frequent
    assert choose_words(counts, max_size=10).words == choose_words(counts).words[:10]
    summary = make_vocabulary([pattern], tmp_path / "v.txt", max_size=10, processes=1)
    kept = read_vocabulary(tmp_path / "v.txt").words
    assert summary.num_words == len(kept) == 10
    assert summary.num_known == counts[BEGIN] + sum(counts[word] for word in kept[3:])


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=30))
def test_what_is_written_is_read_again(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("vocabulary")
    text = write_text(folder / "text", ["begin", *texts])
    make_vocabulary([str(text)], folder / "vocab.txt", processes=1)
    expected = {word for text in texts for word in text.split()}
    assert set(read_vocabulary(folder / "vocab.txt").words) == {"begin", *expected, *SPECIAL}


def test_sentences_are_lines_that_hold_a_word(tmp_path):
    text = write_text(tmp_path / "a.txt", ["the cat", "", " \u00a0\u3000", "sat"])
    counts = count_words([text])
    assert counts.num_sentences == 2
    assert counts.words == {"the": 1, "cat": 1, "sat": 1}


def test_an_empty_file_among_good_ones_is_a_warning(tmp_path, caplog):
    files = [
        write_text(tmp_path / name, lines)
        for name, lines in (("a", ["the"]), ("b", []), ("c", [" "]), ("d", ["cat"]))
    ]
    with caplog.at_level(logging.WARNING):
        assert count_words(files).words == {"the": 1, "cat": 1}
    assert caplog.messages == [f"{tmp_path / name}: holds no word" for name in "bc"]


def test_the_summary_is_one_line(tmp_path):
    text = write_text(tmp_path / "a.txt", ["the cat", "the <UNK>"])
    summary = make_vocabulary([str(text)], tmp_path / "v.txt", max_size=4)
    assert summary.describe() == (
        "4 words, <S>, </S>, <UNK> included, out of 3 distinct ones; "
        "they cover 50.00% of 4 tokens in 2 sentences of 1 file"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_size": 3}, "max_size: 3 must be 4 or more"),
        ({"min_count": 0}, "min_count: 0 must be 1 or more"),
        ({"processes": 0}, "processes: 0 must be 1 or more"),
        ({"encoding": "utf-99"}, "encoding: 'utf-99' is no text encoding"),
    ],
)
def test_settings_out_of_range_are_refused(tmp_path, settings, message):
    text = write_text(tmp_path / "a.txt", ["the cat"])
    with pytest.raises(ConfigError, match=message):
        make_vocabulary([str(text)], tmp_path / "v.txt", **settings)
    assert not (tmp_path / "v.txt").exists()


def test_a_corpus_without_words_for_the_list_is_refused(tmp_path):
    empty = write_text(tmp_path / "a.txt", ["", " "])
    special = write_text(tmp_path / "b.txt", ["<S> </S>"])
    rare = write_text(tmp_path / "c.txt", ["the the cat"])
    for text, message in (
        (empty, "a.txt: not a single word to count"),
        (special, "min_count: no word occurs 3 times; the highest count is 1"),
        (rare, "min_count: no word occurs 3 times; the highest count is 2"),
    ):
        with pytest.raises(InputError, match=message):
            make_vocabulary([str(text)], tmp_path / "v.txt", min_count=3)
    assert not (tmp_path / "v.txt").exists()


def test_an_old_list_stays_until_the_new_one_is_complete(tmp_path):
    text = write_text(tmp_path / "a.txt", ["the cat"])
    output = tmp_path / "v.txt"
    output.write_text("old")
    with pytest.raises(OutputError, match=r"v\.txt: exists; use --overwrite"):
        make_vocabulary([str(text)], output)
    with pytest.raises(InputError, match="missing"):
        make_vocabulary([str(text), str(tmp_path / "missing")], output, overwrite=True)
    assert output.read_text() == "old"
    make_vocabulary([str(text)], output, overwrite=True)
    assert read_vocabulary(output).words == (*SPECIAL, "cat", "the")


def test_places_where_no_list_can_be_are_refused(tmp_path):
    text = write_text(tmp_path / "a.txt", ["the cat"])
    for output, message in (
        (tmp_path / "no" / "v.txt", "there is no folder .*no; create it first"),
        (tmp_path, "is a folder; give the name of a file with -o"),
        (text, r"a\.txt: is part of the corpus; give another name with -o"),
    ):
        with pytest.raises(OutputError, match=message):
            make_vocabulary([str(text)], output, overwrite=True)
    assert text.read_text() == "the cat\n"


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    def refuse(temporary, path):
        raise OSError(28, "No space left on device", str(temporary))

    monkeypatch.setattr("elmokit.embedding.manifest.move_into_place", refuse)
    text = write_text(tmp_path / "a.txt", ["the cat"])
    with pytest.raises(OutputError, match=r"v\.txt: cannot be written: No space left on device"):
        make_vocabulary([str(text)], tmp_path / "v.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_word_that_is_no_utf_8_is_refused(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a +2AA- b")
    with pytest.raises(InputError, match=r"'\\ud800' in a word cannot be written as UTF-8"):
        make_vocabulary([str(tmp_path / "a.txt")], tmp_path / "v.txt", encoding="utf-7")
    assert not (tmp_path / "v.txt").exists()


def test_windows_line_ends_and_a_byte_order_mark_are_mended(tmp_path):
    path = tmp_path / "v.txt"
    path.write_bytes("\ufeff<S>\r\n</S>\r\n<UNK>\r\nthe\r\n深い".encode())
    assert read_vocabulary(path).words == (*SPECIAL, "the", "深い")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*SPECIAL, "", "the"], "line 4: is empty; delete it"),
        ([*SPECIAL, "the", "cat", "the"], "line 6: 'the' is on line 4 already; delete one of them"),
        ([*SPECIAL, "New York"], "line 4: 'New York' holds white space; a word has none"),
        ([*SPECIAL, "the "], "line 4: 'the ' holds white space"),
        ([*SPECIAL, "\u3000"], r"line 4: '\u3000' holds white space"),
        ([*SPECIAL, "<S>"], "line 4: '<S>' is on line 1 already"),
        ([BEGIN, END, "the"], "v.txt: the word <UNK> is missing; insert it as line 3"),
        ([END, UNKNOWN], "v.txt: the word <S> is missing; insert it as line 1"),
        ([], "v.txt: the word <S> is missing; insert it as line 1"),
        ([END, BEGIN, UNKNOWN], "line 2: <S> belongs on line 1; move it"),
        ([BEGIN, END, "the", "cat", UNKNOWN], "line 5: <UNK> belongs on line 3; move it"),
    ],
)
def test_a_list_that_is_wrong_is_refused_with_line_and_mend(tmp_path, lines, message):
    path = write_text(tmp_path / "v.txt", lines)
    with pytest.raises(InputError) as caught:
        read_vocabulary(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_a_list_that_is_missing_or_no_utf_8_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"v\.txt: cannot be read"):
        read_vocabulary(tmp_path / "v.txt")
    (tmp_path / "v.txt").write_bytes(b"<S>\n</S>\n<UNK>\nna\xefve\n")
    with pytest.raises(InputError, match=r"v\.txt: line 4, byte 3.*; save the word list as UTF-8"):
        read_vocabulary(tmp_path / "v.txt")


def test_lists_of_the_original_program_are_read(reference):
    words = read_vocabulary(reference / "E_training_char" / "vocab.txt").words
    assert len(words) == 200
