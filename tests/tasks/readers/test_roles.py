import pytest

from elmokit.errors import InputError
from elmokit.metrics.spans import Span
from elmokit.tasks.readers.reading import read_examples
from elmokit.tasks.readers.roles import MarkedText, RoleColumns, write_marked, write_roles

# As in CoNLL 2012: padded with spaces, a light verb, a predicate of two words, and two documents
# without a blank line between them.
CONLL2012 = """\
#begin document (a/b); part 000
a/b  0  0  Boats   NNS  (TOP(S(NP*)   -      -   -  -  *  (ARG0*)   *            *       -
a/b  0  1  that    WDT  (SBAR*        -      -   -  -  *  (R-ARG0*) *            *       (1
a/b  0  2  took    VBD  *             take   LV  -  -  *  (V*)      *            *       -
a/b  0  3  part    NN   *)            part   01  1  -  *  (ARG1*)   (V*)         *       1)
a/b  0  4  did     VBD  *             do     -   2  -  *  *         *            *       -
a/b  0  5  set     VB   *             set_up 03  -  -  *  *         (ARGM-PRD*   (V*     -
a/b  0  6  up      RP   *             -      -   -  -  *  *         *            *)      -
a/b  0  7  tents   NNS  *             -      -   -  -  *  *         *)           (ARG1*) -
a/b  0  8  early   RB   *))           -      -   -  -  *  *         (C-ARGM-PRD*) *      -

a/b  0  0  Yes     UH   (TOP*)        -      -   -  -  *  -
#end document
#begin document (c); part 000
c    0  0  Go      VB   (TOP*)        go     01  -  -  *  (V*)  -
"""
# As in CoNLL 2005, with a word that begins like a document's line.
CONLL2005 = """\
#       #   (NP*  (S*  (S(NP*  *  -     (A0*       (A1*)
boats   NN  *)    *    *)      *  -     *)         *
kept    VBD (VP*) *    (VP*    *  keep  (V*)       *
turning VBG *     *    *       *  turn  (C-V*)     (V*)
round   RB  *     *)   *)      *  -     (AM-DIR*)  (C-V*)
"""


@pytest.fixture
def read(tmp_path):
    """Reads a file of roles."""

    def run(content, *, has_roles=True, skip_bad=False, format="auto", predicate_column=7):
        (tmp_path / "a.conll").write_bytes(content.encode())
        return read_examples(
            tmp_path / "a.conll",
            lambda name: RoleColumns("a.conll", format, predicate_column, has_roles=has_roles),
            skip_bad=skip_bad,
        )

    return run


def labels(item):
    return [[(s.start, s.end, s.label) for s in spans] for spans in item.roles]


def test_conll2012(read):
    first, second, third = read(CONLL2012).items
    assert first.tokens == (
        *("Boats", "that", "took", "part"),
        *("did", "set", "up", "tents", "early"),
    )
    assert first.lines == tuple(range(2, 11))
    assert first.predicates == (2, 3, 5)  # a lemma without a frameset is no predicate
    assert labels(first) == [
        [(0, 1, "ARG0"), (1, 2, "R-ARG0"), (2, 3, "V"), (3, 4, "ARG1")],
        [(3, 4, "V"), (5, 8, "ARGM-PRD"), (8, 9, "C-ARGM-PRD")],
        [(5, 7, "V"), (7, 8, "ARG1")],
    ]
    assert (second.tokens, second.predicates, second.roles) == (("Yes",), (), ())
    assert (third.tokens, third.lines, third.roles) == (("Go",), (15,), ((Span(0, 1, "V"),),))


def test_conll2005(read):
    [item] = read(CONLL2005).items
    assert item.tokens == ("#", "boats", "kept", "turning", "round")
    assert item.predicates == (2, 3)
    assert labels(item) == [
        [(0, 2, "A0"), (2, 3, "V"), (3, 4, "C-V"), (4, 5, "AM-DIR")],
        [(0, 1, "A1"), (3, 4, "V"), (4, 5, "C-V")],
    ]
    [short] = read("He - (A0*)\nran run (V*)\n", predicate_column=2).items
    assert labels(short) == [[(0, 1, "A0"), (1, 2, "V")]]


def test_a_format_that_is_said_wins_over_what_the_line_looks_like(read):
    line = "a 0 1 b - - - - - - * -\n"
    assert read(line).items[0].tokens == ("b",)
    [item] = read(line.replace("*", "-"), format="conll2005", predicate_column=12).items
    assert item.tokens == ("a",)
    with pytest.raises(InputError, match="line 1: found 7 columns, expected 12 or more"):
        read("a b * * * * -\n", format="conll2012")


def test_the_predicate_is_added_where_nothing_is_said_of_it(read):
    assert read("He - *\nran run *\n", predicate_column=2).items[0].roles == ((Span(1, 2, "V"),),)


def test_crlf_bom_and_separators_play_no_part(read):
    plain = read(CONLL2012).items
    assert read("\ufeff" + CONLL2012.replace("\n", "\r\n")).items == plain
    tabs = ["\t".join(line.split()) if line[:1] != "#" else line for line in CONLL2012.split("\n")]
    assert read("\n".join(tabs)).items == plain


def test_right_answers_are_not_needed_to_predict(read):
    rows = ["\t".join(line.split()[:7]) for line in CONLL2005.splitlines()]
    [item] = read("\n".join(rows), has_roles=False).items
    assert (item.predicates, item.roles) == ((2, 3), None)
    assert read(CONLL2005.replace("(A0*", "?"), has_roles=False).items[0].predicates == (2, 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a - (A0*\nb x (V*)\n", "line 2: column 3: V begins inside A0; arguments of a predicate"),
        ("a - *\nb x (V*)\nc - (A1*\n", "line 3: column 3: the bracket of A1 is never closed"),
        ("a - *)\nb x (V*)\n", "line 1: column 3: the bracket closes nothing"),
        ("a - (A0*))\nb x (V*)\n", "line 1: column 3: found '(A0*))', expected *, (LABEL*, *)"),
        ("a - (A0(A1*)\nb x (V*)\n", "line 1: column 3: found '(A0(A1*)'"),
        ("a - (V*)\nb x *\n", "line 2: column 3: found nothing at the predicate, expected (V*"),
        ("a - (A0*\nb x *)\n", "line 2: column 3: found A0 at the predicate"),
        ("a - *\nb x *\nc y *\n", "line 1: the sentence has 1 columns of arguments and 2 predicat"),
        ("a - * *\nb x (V*) *\n", "line 1: the sentence has 2 columns of arguments and 1 pr"),
        ("a - *\nb x\n", "line 2: found 2 columns, the first line of the sentence has 3"),
        ("a\nb\n", "line 1: found 1 columns, expected 2 or more; set data.format"),
        ("a\t-\t*\n\tx\t(V*)\n", "line 2: column 1 is empty; expected a word"),
        ("a\t\t*\n", "line 1: column 2 is empty; expected a predicate"),
        ("", "holds not one example"),
        ("#begin document (a); part 000\n#end document\n", "holds not one example"),
    ],
)
def test_bad_input_is_named(read, content, message):
    with pytest.raises(InputError) as caught:
        read(content, predicate_column=2)
    assert f"a.conll: {message}" in str(caught.value)


def test_bad_sentences_are_left_out_counted_and_written_as_they_are(read, caplog):
    bad = "c\t-\t*)\nd\ty\t(V*)\n"
    content = f"a\t-\t(A0*)\nb\tx\t(V*)\n\n{bad}\n\ne\t-\n"
    reading = read(content, predicate_column=2, skip_bad=True)
    assert [item.tokens for item in reading.items] == [("a", "b"), ("e",)]
    assert reading.num_skipped == 1
    assert "skipped: a.conll: line 4: column 3: the bracket closes nothing" in caplog.text
    assert written(reading, predicate_column=2) == content


def written(reading, roles=None, predicate_column=7):
    lines = [
        line
        for entry in reading.entries
        for line in write_roles(
            entry.piece, entry.item and (roles or entry.item.roles), "auto", predicate_column
        )
    ]
    return "\n".join([*lines, ""])


@pytest.mark.parametrize("content", [CONLL2012, CONLL2005])
def test_what_is_read_is_written_again(read, content):
    plain = "\n".join(
        line if line[:6] in ("#begin", "#end d") else " ".join(line.split())
        for line in content.split("\n")
    )
    assert written(read(content)) == plain


def test_other_roles_take_the_place_of_those_that_were_read(read):
    content = "a\t-\t(A0*)\t*\nb\tx\t(V*)\t*\nc\ty\t*\t(V*)\n"
    roles = [[Span(0, 3, "A2")], [Span(0, 1, "A1"), Span(1, 2, "C-A1")]]
    expected = "a\t-\t(A2*\t(A1*)\nb\tx\t*\t(C-A1*)\nc\ty\t*)\t*\n"
    assert written(read(content, predicate_column=2), roles, predicate_column=2) == expected
    bare = "a\t-\nb\tx\nc\ty\n"
    reading = read(bare, has_roles=False, predicate_column=2)
    assert written(reading, roles, predicate_column=2) == expected


def test_a_predicate_may_be_a_hyphen(tmp_path, read):
    (tmp_path / "text").write_text("He **-** -\n", encoding="utf-8")
    [entry] = read_examples(tmp_path / "text", MarkedText).entries
    lines = list(write_marked(entry.piece, [[Span(0, 1, "A0"), Span(1, 2, "V")]]))
    assert lines == ["He - (A0*)", "- -- (V*)", "- - *", ""]
    [again] = read("\n".join(lines), predicate_column=2).items
    assert (again.tokens, again.predicates) == (("He", "-", "-"), (1,))


def test_marked_text(tmp_path):
    (tmp_path / "text").write_text("A **b** ** ****\n\n **c** **d**\n", encoding="utf-8")
    reading = read_examples(tmp_path / "text", MarkedText)
    first, second = reading.items
    assert (first.tokens, first.predicates) == (("A", "b", "**", "****"), (1,))
    assert (second.tokens, second.predicates) == (("c", "d"), (0, 1))
    roles = iter([[[Span(0, 2, "A0")]], [[Span(0, 1, "V")], [Span(0, 1, "A1")]]])
    lines = [
        line
        for entry in reading.entries
        for line in write_marked(entry.piece, next(roles) if entry.item else None)
    ]
    assert lines == [
        *("A - (A0*", "b b *)", "** - *", "**** - *", ""),
        "",
        *("c c (V*) (A1*)", "d d * *", ""),
    ]
