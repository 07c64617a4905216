import gzip

import pytest


@pytest.fixture
def text(tmp_path):
    (tmp_path / "a.txt").write_text("the cat sat\n\nthe cat\n")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"the end\n"))
    (tmp_path / "empty").touch()
    return tmp_path / "?.txt*"


def test_a_list_is_made_and_told_in_one_line(elmo, text, tmp_path):
    output = tmp_path / "vocab.txt"
    ran = elmo("vocab", text, "-o", output, "--min-count", 2, "--processes", 1)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        f"{output}: 5 words, <S>, </S>, <UNK> included, out of 4 distinct ones; "
        "they cover 71.43% of 7 tokens in 3 sentences of 2 files\n"
    )
    assert output.read_text() == "<S>\n</S>\n<UNK>\nthe\ncat\n"


def test_several_files_may_be_named(elmo, text, tmp_path):
    output = tmp_path / "vocab.txt"
    names = (text.parent / "b.txt.gz", text.parent / "a.txt")
    assert elmo("vocab", *names, "-o", output, "--max-size", 4, "--processes", 1).code == 0
    assert output.read_text().split() == ["<S>", "</S>", "<UNK>", "the"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "v.txt"), "corpus: no file is named"),
        (("no*.txt", "-o", "v.txt"), "no*.txt: matches no file; the folder . holds a.txt, b.txt"),
        (("'a*.txt'", "-o", "v.txt"), "there are quotes inside the pattern, leave them out"),
        (("a.txt", "-o", "a.txt", "--overwrite"), "a.txt: is part of the corpus"),
        (("a.txt", "-o", "b.txt.gz"), "b.txt.gz: exists; use --overwrite"),
        (
            ("a.txt", "-o", "v.txt.xz"),
            "the list is plain text, and would be taken for a compressed",
        ),
        (("a.txt", "-o", "v.txt", "--max-size", 2), "max_size: 2 must be 4 or more"),
        (("a.txt", "-o", "v.txt", "--min-count", 9), "no word occurs 9 times"),
        (("a.txt", "-o", "v.txt", "--encoding", "utf-16"), "a.txt: line 1"),
        (("empty", "-o", "v.txt"), "empty: not a single word to count"),
        (("a.txt",), "--output"),
    ],
)
def test_what_is_wrong_is_one_line(refused, text, monkeypatch, arguments, message):
    monkeypatch.chdir(text.parent)
    assert message in refused("vocab", *arguments)
