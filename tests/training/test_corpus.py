import gzip
import json
import logging
import shutil
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import ConfigError, InputError, OutputError
from elmokit.training import arrays
from elmokit.training.corpus import open_corpus, prepare
from elmokit.training.streams import WindowStream
from elmokit.vocabulary import BEGIN, END, UNKNOWN, Vocabulary
from training.corpora import WORDS, write_text

LINES = ["the cat sat", "", "the dog sat", "  ", "深い \u00a0\u3000 深い", "dog"]
SENTENCES = [line.split() for line in LINES if line.split()]


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path / "text.txt", LINES)


@pytest.fixture
def corpus(text, tmp_path):
    return prepare([str(text)], WORDS, tmp_path / "made")


def sentences(corpus):
    return [
        [corpus.types[number] for number in corpus.sentence(i)] for i in range(corpus.num_sentences)
    ]


def refusal(*arguments, error=InputError, **settings):
    with pytest.raises(error) as caught:
        prepare(*arguments, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# What a corpus holds


def test_every_line_and_token_is_accounted_for(corpus):
    assert sentences(corpus) == SENTENCES
    assert (corpus.num_files, corpus.num_lines, corpus.num_sentences) == (1, 6, 4)
    assert (corpus.num_tokens, corpus.num_unknown, corpus.num_predictions) == (9, 2, 13)
    assert corpus.unknown_rate == 2 / 9
    assert corpus.describe() == (
        "1 file, 6 lines (2 blank), 4 sentences, 9 tokens (22.22% unknown, 0 dropped)"
    )


def test_types_are_surface_forms_and_targets_words_of_the_vocabulary(corpus):
    assert corpus.types == (BEGIN, END, "the", "cat", "sat", "dog", "深い")
    assert [WORDS.words[target] for target in corpus.targets] == [
        *(BEGIN, END, "the", "cat", "sat", UNKNOWN, "深い")
    ]
    assert corpus.type_counts.tolist() == [4, 4, 2, 1, 2, 2, 2]


def test_sentences_lie_end_to_end_with_their_boundaries(corpus):
    words = [corpus.types[number] for number in corpus.tokens]
    assert words == [word for sentence in SENTENCES for word in (BEGIN, *sentence, END)]
    assert corpus.offsets.tolist() == [0, 5, 10, 14, 17]
    assert corpus.tokens.dtype == np.int32
    assert not corpus.tokens.flags.writeable


WORD = st.sampled_from(["a", "b", "c", "d", BEGIN, END, UNKNOWN])


@given(st.lists(st.lists(WORD, max_size=5), min_size=1, max_size=8))
def test_counts_are_those_of_the_predictions_made(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("corpus")
    text = write_text(folder / "text", [*map(" ".join, rows), "a"])
    corpus = prepare(str(text), Vocabulary((BEGIN, END, UNKNOWN, "a", "b")), folder / "made")
    counts: Counter[str] = Counter()
    for row in [*rows, ["a"]]:
        counts.update(word if word in corpus.vocabulary.words else UNKNOWN for word in row)
        counts.update([BEGIN, END] if row else [])
    assert corpus.counts.tolist() == [counts[word] for word in corpus.vocabulary.words]
    assert corpus.num_unknown == counts[UNKNOWN]


def test_many_blocks_are_as_one(text, tmp_path, monkeypatch):
    whole = prepare([str(text)], WORDS, tmp_path / "whole")
    monkeypatch.setattr(arrays, "_BLOCK_TOKENS", 4)
    blocks = prepare([str(text)], WORDS, tmp_path / "blocks")
    assert sentences(blocks) == sentences(whole)
    assert blocks.type_counts.tolist() == whole.type_counts.tolist()
    assert blocks.fingerprint == whole.fingerprint


def test_a_very_long_line_is_a_sentence_like_any_other(tmp_path):
    text = write_text(tmp_path / "long.txt", ["the cat " * 500_000, "sat"])
    corpus = prepare([str(text)], WORDS, tmp_path / "made")
    assert np.diff(corpus.offsets).tolist() == [1_000_002, 3]
    assert corpus.type_counts.tolist() == [2, 2, 500_000, 500_000, 1]


def test_words_that_are_no_utf_8_are_kept(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"the +2AA- b")
    corpus = prepare([str(tmp_path / "a.txt")], WORDS, tmp_path / "made", encoding="utf-7")
    assert sentences(corpus) == [["the", "\ud800", "b"]]


# The fingerprint


def test_the_fingerprint_is_that_of_sentences_and_vocabulary(text, corpus, tmp_path):
    def fingerprint(name, files, vocabulary=WORDS):
        for file, lines in files.items():
            (tmp_path / file).parent.mkdir(exist_ok=True)
            write_text(tmp_path / file, lines)
        return prepare([str(tmp_path / file) for file in files], vocabulary, tmp_path / name)

    same = [
        fingerprint("compressed", {"text.txt.gz": LINES}),
        fingerprint("split", {"1.txt": LINES[:3], "2.txt": LINES[3:]}),
        fingerprint("blank", {"3.txt": ["", *LINES]}),
    ]
    others = [
        fingerprint("order", {"4.txt": LINES[::-1]}),
        fingerprint("word", {"5.txt": [*LINES[:-1], "dogs"]}),
        fingerprint("cut", {"6.txt": ["the cat sat </S> <S> the dog sat", *LINES[3:]]}),
        fingerprint("vocabulary", {"text.txt": LINES}, Vocabulary((*WORDS.words, "dog"))),
    ]
    assert {found.fingerprint for found in same} == {corpus.fingerprint}
    assert len({found.fingerprint for found in [corpus, *others]}) == 5
    assert len(corpus.fingerprint) == 64


# Used again


@pytest.fixture
def unread(monkeypatch):
    """From here on, nothing may be read or written but a prepared folder."""

    def refuse(*_):
        raise AssertionError("the text is read again")

    monkeypatch.setattr("elmokit.training.corpus.write_arrays", refuse)


def test_a_prepared_text_is_not_read_again(corpus, text, tmp_path, unread, caplog):
    with caplog.at_level(logging.INFO):
        again = prepare([str(text)], WORDS, tmp_path / "made")
    assert again.fingerprint == corpus.fingerprint
    assert caplog.messages == [
        f"{tmp_path / 'made'}: holds this text already; it is not read again"
    ]


def test_another_vocabulary_needs_no_reading(corpus, text, tmp_path, unread):
    other = prepare([str(text)], Vocabulary((*WORDS.words, "dog")), tmp_path / "made")
    assert other.num_unknown == 0
    assert other.tokens.tolist() == corpus.tokens.tolist()


@pytest.mark.parametrize("change", ["longer", "as long", "encoding", "one more file"])
def test_another_text_takes_its_place(corpus, text, tmp_path, change):
    files, encoding = [str(text)], "utf-8"
    match change:
        case "longer":
            write_text(text, [*LINES, "the cat"])
        case "as long":
            write_text(text, ["the cat cat", *LINES[1:]])
        case "encoding":
            encoding = "latin-1"
        case "one more file":
            files.append(str(write_text(tmp_path / "more.txt", ["the cat"])))
    other = prepare(files, WORDS, tmp_path / "made", encoding=encoding)
    assert other.fingerprint != corpus.fingerprint
    assert sentences(corpus) == SENTENCES  # a run that has it open goes on
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == [
        *("corpus.json", "counts.bin", "offsets.bin", "tokens.bin", "types.txt")
    ]


def test_the_text_may_move_and_vanish(corpus, text, tmp_path):
    windows = [next(WindowStream(corpus, batch_size=2, window=3))]
    text.unlink()
    moved = shutil.move(tmp_path / "made", tmp_path / "elsewhere")
    again = open_corpus(moved, WORDS)
    assert again.fingerprint == corpus.fingerprint
    windows.append(next(WindowStream(again, batch_size=2, window=3)))
    assert windows[0].forward.types.tolist() == windows[1].forward.types.tolist()


# Bad text


def test_empty_files_among_good_ones_are_a_warning(tmp_path, caplog):
    for name, lines in (("a", ["the cat"]), ("b", []), ("c", ["sat"]), ("d", ["", " "])):
        write_text(tmp_path / f"{name}.txt", lines)
    with caplog.at_level(logging.WARNING):
        corpus = prepare([str(tmp_path / "?.txt")], WORDS, tmp_path / "made")
    assert sentences(corpus) == [["the", "cat"], ["sat"]]
    assert caplog.messages == [f"{tmp_path / name}.txt: holds no sentence" for name in "bd"]


def test_a_corpus_without_a_sentence_is_refused(tmp_path, caplog):
    texts = [str(write_text(tmp_path / name, ["", " "])) for name in ("a.txt", "b.txt.gz")]
    assert refusal(texts, WORDS, tmp_path / "made") == (
        f"{texts[0]}, {texts[1]}: not a single sentence to train on"
    )
    assert list((tmp_path / "made").iterdir()) == []
    assert caplog.messages == []


def test_a_shard_in_another_encoding_is_told_and_the_old_corpus_stays(corpus, text, tmp_path):
    odd = tmp_path / "odd.txt"
    odd.write_bytes("the cat\nla forêt\n".encode("latin-1"))
    message = refusal([str(text), str(odd)], WORDS, tmp_path / "made")
    assert message.startswith(f"{odd}: line 2, byte 7 ")
    assert "expected utf-8" in message
    assert open_corpus(tmp_path / "made", WORDS).fingerprint == corpus.fingerprint
    assert len(list((tmp_path / "made").iterdir())) == 5


def test_text_of_unknown_words_only_is_refused_and_need_not_be_read_again(tmp_path, unread_after):
    text = write_text(tmp_path / "a.txt", ["THE CAT", "SAT"])
    message = refusal([str(text)], WORDS, tmp_path / "made")
    assert message.startswith(f"{text}: none of the 3 tokens is in the vocabulary; ")
    unread_after()
    lower = Vocabulary((BEGIN, END, UNKNOWN, "THE"))
    assert prepare([str(text)], lower, tmp_path / "made").num_unknown == 2


@pytest.fixture
def unread_after(request):
    return lambda: request.getfixturevalue("unread")


@pytest.mark.parametrize("missing", [BEGIN, END, UNKNOWN])
def test_a_vocabulary_without_a_special_word_is_refused(text, tmp_path, missing):
    words = Vocabulary(tuple(word for word in WORDS.words if word != missing))
    message = refusal([str(text)], words, tmp_path / "made", error=ConfigError)
    assert message == f"vocabulary: it lacks {missing}; add that to the list"


def test_an_unknown_encoding_is_refused_before_anything_is_made(text, tmp_path):
    refusal([str(text)], WORDS, tmp_path / "made", encoding="utf-99", error=ConfigError)
    assert not (tmp_path / "made").exists()


def test_a_file_that_vanishes_or_grows_meanwhile_is_told(text, tmp_path, monkeypatch):
    read_lines = arrays.read_lines
    for change, reason in ((text.unlink, "cannot be read"), (grow(text), "changed while")):
        write_text(text, LINES)

        def read_and_change(source, encoding, change=change):
            yield from read_lines(source, encoding)
            change()

        monkeypatch.setattr(arrays, "read_lines", read_and_change)
        message = refusal([str(text)], WORDS, tmp_path / "made")
        assert message.startswith(f"{text}: {reason}")
        assert list((tmp_path / "made").iterdir()) == []


def grow(text):
    return lambda: text.write_bytes(text.read_bytes() + b"more\n")


def test_damaged_text_is_told(tmp_path):
    text = write_text(tmp_path / "a.txt.gz", LINES)
    text.write_bytes(gzip.compress(b"the cat\n" * 1000)[:-9])
    assert refusal([str(text)], WORDS, tmp_path / "made").startswith(f"{text}: the compressed data")


# Bad folders


def test_a_folder_that_cannot_be_made_or_written_is_told(text, tmp_path, monkeypatch):
    message = refusal([str(text)], WORDS, text / "made", error=OutputError)
    assert message == f"{text / 'made'}: cannot be written: Not a directory"

    def refuse(temporary, path):
        raise OSError(28, "No space left on device", str(temporary))

    monkeypatch.setattr(arrays, "move_into_place", refuse)
    message = refusal([str(text)], WORDS, tmp_path / "made", error=OutputError)
    assert message == f"{tmp_path / 'made'}: cannot be written: No space left on device"


@pytest.mark.parametrize(
    "name", ["corpus.json", "counts.bin", "offsets.bin", "tokens.bin", "types.txt"]
)
def test_a_prepared_file_that_vanished_or_was_cut_is_told_and_made_anew(
    corpus, text, tmp_path, name
):
    path = tmp_path / "made" / name
    for damage in (lambda: path.write_bytes(path.read_bytes()[:-1]), path.unlink):
        damage()
        with pytest.raises(InputError) as caught:
            open_corpus(tmp_path / "made", WORDS)
        assert str(caught.value).startswith(f"{path}: ")
        assert str(caught.value).endswith("; put it back from a copy, or begin a new run")
        again = prepare([str(text)], WORDS, tmp_path / "made")
        assert again.fingerprint == corpus.fingerprint


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged"),
        (b"\xff", "damaged"),
        (b"[]", "damaged"),
        (b"{}", "damaged"),
        (b'{"version": 99}', "has version 99, this elmokit reads 1"),
        (b'{"version": 1, "nothing": 1}', "unknown field 'nothing'"),
    ],
)
def test_a_record_that_is_none_is_told_and_made_anew(corpus, text, tmp_path, content, message):
    (tmp_path / "made" / "corpus.json").write_bytes(content)
    with pytest.raises(InputError, match=message):
        open_corpus(tmp_path / "made", WORDS)
    again = prepare([str(text)], WORDS, tmp_path / "made")
    assert again.fingerprint == corpus.fingerprint
    assert json.loads((tmp_path / "made" / "corpus.json").read_bytes())["num_lines"] == len(LINES)


def test_a_folder_without_a_corpus_is_told(tmp_path):
    with pytest.raises(InputError, match=r"corpus\.json: No such file or directory"):
        open_corpus(tmp_path, WORDS)


def test_a_crash_between_two_files_leaves_no_corpus(corpus, text, tmp_path, monkeypatch):
    move = arrays.move_into_place

    def crash(temporary, path):
        if path.name == "counts.bin":
            raise KeyboardInterrupt
        move(temporary, path)

    write_text(text, [*LINES, "the cat"])
    monkeypatch.setattr(arrays, "move_into_place", crash)
    with pytest.raises(KeyboardInterrupt):
        prepare([str(text)], WORDS, tmp_path / "made")
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"corpus\.json: No such file"):
        open_corpus(tmp_path / "made", WORDS)
    assert prepare([str(text)], WORDS, tmp_path / "made").num_sentences == 5
