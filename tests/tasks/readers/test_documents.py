import pytest

from elmokit.errors import InputError
from elmokit.tasks.readers.documents import (
    Conll2012,
    Mention,
    PlainDocuments,
    write_conll2012,
    write_plain,
)
from elmokit.tasks.readers.reading import read_examples


def word(token, marks="-", speaker="-", name="n"):
    return f"{name}\t0\t0\t{token}\tNN\t*\t-\t-\t-\t{speaker}\t*\t{marks}\n"


def document(*words, name="(n); part 000"):
    body = "".join(words)
    return f"#begin document {name}\n{body}#end document\n"


TWO = document(
    *(word("Ann", "(3)", "Bo"), word("said"), "\n", word("her", "(1|(3)"), word("dog", "1)"), "\n")
) + document(word("It", "(0)"), "\n", name="(n); part 001")
PADDED = (
    "#begin document (a/b); part 000\n"
    "a/b   0   0   The  DT  (NP*  -  -  -  Ann#1  *  (A0*  (12\n"
    "a/b   0   1   dog  NN  *)    -  -  -  Ann#1  *  *)     12)\n\n"
    "c/d   0   0   It   PRP *     -  -  -  -      *   (12)|(7)  \n"
    "\n#end document\n"
)


@pytest.fixture
def read(tmp_path):
    """Reads a file of documents."""

    def run(content, clusters=True, singletons=True, **settings):
        raw = content if isinstance(content, bytes) else content.encode()
        (tmp_path / "a.conll").write_bytes(raw)
        return read_examples(
            tmp_path / "a.conll",
            lambda name: Conll2012("a.conll", clusters=clusters, singletons=singletons),
            **settings,
        )

    return run


def mentions(*clusters):
    return tuple(tuple(Mention(*mention) for mention in cluster) for cluster in clusters)


def written(reading, predicted):
    left = iter([mentions(*clusters) for clusters in predicted])
    return [
        line
        for entry in reading.entries
        for line in write_conll2012(entry.piece, next(left) if entry.item else None)
    ]


def test_words_speakers_and_clusters(read):
    one, two = read(TWO).items
    assert one.where == "a.conll: line 1"
    assert one.sentences == (("Ann", "said"), ("her", "dog"))
    assert one.speakers == ("Bo", None, None, None)
    assert one.clusters == (((0, 1), (2, 3)), ((2, 4),))
    assert two.clusters == (((0, 1),),)
    assert [item.clusters for item in read(TWO, singletons=False).items] == [
        (((0, 1), (2, 3)),),
        (),
    ]
    assert [item.clusters for item in read(TWO, clusters=False).items] == [None, None]


def test_padded_columns_whose_number_differs_by_sentence(read):
    with pytest.raises(InputError, match="line 5: coreference: the mention that '\\(7\\)' ends"):
        read(PADDED)
    [item] = read(PADDED.replace("|(7)", "")).items
    assert item.sentences == (("The", "dog"), ("It",))
    assert item.speakers == ("Ann#1", "Ann#1", None)
    assert item.clusters == (((0, 2), (2, 3)),)


def test_few_columns_and_no_speaker(read):
    [item] = read("#begin document x\nx 0 0 He (0)\nx 0 1 and -\nx 0 2 he (0)\n#end document").items
    assert (item.speakers, item.clusters) == ((None,) * 3, (((0, 1), (2, 3)),))


def test_a_no_break_space_is_part_of_a_word(read):
    [item] = read(document("  x 0 0 10\u00a0000  (0)\n", "x 0 1 it (0) \n")).items
    assert item.sentences == (("10\u00a0000", "it"),)
    assert item.clusters == (((0, 1), (1, 2)),)


def test_mentions_may_nest_cross_and_touch(read):
    marks = ["(1|(2", "(1", "2)|(3", "1)|1)|(1", "1)|3)"]
    [item] = read(document(*map(word, "abcde", marks))).items
    assert item.clusters == (((0, 3),), ((0, 4), (1, 4), (3, 5)), ((2, 5),))
    assert read("\n".join(written(read(document(*map(word, "abcde", marks))), [item.clusters])))


def test_crlf_bom_and_blank_lines_play_no_part(read):
    plain = read(TWO).items
    changed = "\ufeff\n\n" + TWO.replace("#end document\n", "#end document\n\n \n")
    again = read(changed.replace("\n", "\r\n")).items
    assert [item.clusters for item in again] == [item.clusters for item in plain]
    assert [item.sentences for item in again] == [item.sentences for item in plain]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds not one example"),
        ("\n\n", "holds not one example"),
        (document("\n"), "line 1: the document has not one word"),
        (word("a"), "line 1: found a word where none has begun; put '#begin document"),
        (TWO + word("a"), "line 13: found a word where none has begun"),
        ("#end document\n", "line 1: found a document ends where none has begun"),
        (TWO.replace("#end document\n", "", 1), "line 1: the document (n); part 000 has no '#end"),
        (TWO.removesuffix("#end document\n"), "line 9: the document (n); part 001 has no"),
        (TWO.replace("part 001", "part 000"), "line 9: the document (n); part 000 was there befo"),
        (document(word("a"), name="") * 2, "line 4: the document without a name was there before"),
        (document(word("a"), "n\t0\t1\tb\t-\n"), "line 3: found 5 columns, the first line of the"),
        (document("n 0 0 -\n"), "line 2: found 4 columns, expected those of CoNLL-2012"),
        (document(word("")), "line 2: the column of the word is empty"),
        (document(word("a", "")), "line 2: the column of the coreference is empty"),
        (document(word("a", "(1"), word("b")), "line 2: coreference: '(1' is never closed"),
        (document(word("a"), word("b", "1)")), "line 3: coreference: '1)' closes a mention that"),
        (document(word("a", "(1"), word("b", "2)")), "line 3: coreference: '2)' closes a mention"),
        (document(word("a", "(1)|(2)")), "line 2: coreference: the mention that '(2)' ends is mar"),
        (document(word("a", "(1)|(1)")), "is marked twice, in cluster 1 and in 1"),
        (document(word("a", "7")), "line 2: coreference: found '7' in '7', expected marks"),
        (document(word("a", "((7)")), "line 2: coreference: found '((7)' in '((7)'"),
        (document(word("a", "(7)|")), "line 2: coreference: found '' in '(7)|'"),
        (document(word("a")).encode() + b"#begin \xff\n", "line 4, byte 8 (byte"),
    ],
)
def test_bad_input_is_named(read, content, message):
    with pytest.raises(InputError) as caught:
        read(content)
    assert message in str(caught.value)


def test_bad_documents_are_left_out_counted_and_written_as_they_are(read, caplog):
    bad = document(word("a", "(1"), name="bad")
    cut = document(word("b", "(1)"), name="cut").removesuffix("#end document\n")
    content = f"{word('c')}{bad}{cut}{TWO}{TWO}"
    reading = read(content, skip_bad=True)
    assert reading.num_skipped == 5
    assert "skipped: a.conll: line 1: found a word" in caplog.text
    lines = written(reading, [(((0, 3), (3, 4)),), ()])
    expected = f"{word('c')}{bad}{cut}"
    expected += TWO.replace("(3)\n", "(0\n").replace("(1|(0\n", "0)\n").replace("1)\n", "(0)\n")
    expected = expected.replace("It\tNN\t*\t-\t-\t-\t-\t*\t(0)", "It\tNN\t*\t-\t-\t-\t-\t*\t-")
    assert "\n".join(lines) + "\n" == expected + TWO


def test_to_predict_brackets_are_not_read(read):
    bad = document(word("a", "(1"), word("b", "x"))
    reading = read(bad, clusters=False)
    assert "\n".join(written(reading, [(((0, 2),), ((1, 2),))])) + "\n" == document(
        word("a", "(0"), word("b", "0)|(1)")
    )


def test_comments_are_no_part_of_documents(read):
    content = "# mine\n\n" + TWO.replace("#end", "# so\n#end", 1) + "# the end\n"
    reading = read(content)
    assert [len(entry.piece) > 2 for entry in reading.entries if entry.item] == [True, True]
    assert [item.clusters for item in reading.items] == [item.clusters for item in read(TWO).items]
    assert "\n".join(written(reading, [(), ()])).count("# ") == 3


def test_the_last_column_may_hold_spaces(read):
    reading = read(document(word("a", "(0) x"), word("b", " 7 ")), clusters=False)
    assert "\n".join(written(reading, [(((0, 1),),)])) + "\n" == document(
        word("a", "(0)"), word("b", "-")
    )


def test_padding_is_kept(read):
    reading = read(PADDED, clusters=False)
    lines = written(reading, [(((0, 2), (2, 3)),)])
    assert lines == PADDED.replace("12", "0").replace("(0)|(7)", "(0)").splitlines()


def test_plain_text(tmp_path):
    (tmp_path / "a.txt").write_text("\nAnn runs .\nShe sings\n\n\nNo\n", encoding="utf-8")
    reading = read_examples(tmp_path / "a.txt", PlainDocuments)
    assert [item.sentences for item in reading.items] == [
        (("Ann", "runs", "."), ("She", "sings")),
        (("No",),),
    ]
    lines = list(write_plain(reading.items[0], mentions([(0, 1), (3, 4)]), 7))
    (tmp_path / "a.conll").write_text("\n".join(lines), encoding="utf-8")
    [again] = read_examples(tmp_path / "a.conll", lambda name: Conll2012(name, clusters=True)).items
    assert again.sentences == reading.items[0].sentences
    assert again.clusters == (((0, 1), (3, 4)),)
    assert lines[0] == "#begin document (text); part 007"
    assert [line.count("\t") for line in lines] == [0, 11, 11, 11, 0, 11, 11, 0, 0]
