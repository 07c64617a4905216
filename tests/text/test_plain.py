from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.text.plain import read_raw, read_text
from elmokit.text.row import Row
from elmokit.text.tokenizers import cut_characters, cut_words

quick = settings(derandomize=True, deadline=None, max_examples=100)


def test_text_rows_are_lines_and_blank_ones_are_kept():
    lines = [(1, "tea\u00a0is\u3000hot"), (2, ""), (3, " \t"), (4, "a\x00b\u200bc d\u2028e")]
    assert list(read_text(lines, None)) == [
        Row(("tea", "is", "hot"), 1),
        Row((), 2),
        Row((), 3),
        Row(("a\x00b\u200bc", "d", "e"), 4),
    ]


def test_text_with_a_tokenizer_has_text_and_offsets():
    assert list(read_text([(1, "a bc"), (2, "")], cut_characters)) == [
        Row(("a", "b", "c"), 1, text="a bc", offsets=((0, 1), (2, 3), (3, 4))),
        Row((), 2, text="", offsets=()),
    ]


def test_raw_rows_are_sentences_with_offsets_in_their_line():
    lines = [(1, "  Hi there. Don't go!"), (2, " "), (3, "好。不")]
    assert list(read_raw(lines, cut_words)) == [
        Row(("Hi", "there", "."), 1, text="Hi there.", offsets=((2, 4), (5, 10), (10, 11))),
        Row(("Don't", "go", "!"), 1, text="Don't go!", offsets=((12, 17), (18, 20), (20, 21))),
        Row(("好", "。"), 3, text="好。", offsets=((0, 1), (1, 2))),
        Row(("不",), 3, text="不", offsets=((2, 3),)),
    ]


@quick
@given(st.text(st.sampled_from(" \u00a0.!?。”aAb'1日\u0301\x00"), max_size=40))
def test_raw_tokens_are_pieces_of_their_line_and_none_is_lost(line):
    rows = list(read_raw([(7, line)], cut_words))
    found = [
        (token, line[start:end])
        for row in rows
        for token, (start, end) in zip(row.tokens, row.offsets, strict=True)
    ]
    assert all(token == piece for token, piece in found)
    assert "".join(token for token, _ in found) == "".join(line.split())
    for row in rows:
        begin = row.offsets[0][0]  # where the sentence starts
        assert line[begin : begin + len(row.text)] == row.text
