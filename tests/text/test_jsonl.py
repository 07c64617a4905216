import pytest

from elmokit.errors import InputError
from elmokit.text.jsonl import read_jsonl
from elmokit.text.row import Row
from elmokit.text.tokenizers import cut_whitespace, cut_words


def rows(content: str, tokenizer=cut_whitespace) -> list[Row]:
    return list(read_jsonl(enumerate(content.split("\n"), start=1), "a.jsonl", tokenizer))


def test_tokens_are_taken_as_they_are():
    assert rows('{"tokens": ["New York", "", "a\\tb"], "id": 5}\n{"tokens": []}') == [
        Row(("New York", "", "a\tb"), 1),
        Row((), 2),
    ]


def test_text_is_cut_and_kept():
    line = '{"text": "don\'t\\n go."}'
    assert rows(line) == [
        Row(("don't", "go."), 1, text="don't\n go.", offsets=((0, 5), (7, 10))),
    ]
    assert rows(line, cut_words)[0].tokens == ("don't", "go", ".")
    assert rows('{"text": ""}') == [Row((), 1, text="", offsets=())]


def test_tokens_go_before_text():
    assert rows('{"text": "x y", "tokens": ["z"]}') == [Row(("z",), 1)]


def test_blank_lines_are_no_records_and_lines_stay_counted():
    assert rows('\n{"tokens": ["a"]}\n \n{"tokens": ["b"]}\n') == [Row(("a",), 2), Row(("b",), 4)]


def test_lone_surrogates_and_nul_are_kept():
    assert rows(r'{"tokens": ["\ud83d", "\u0000", "\ud83d\ude00"]}') == [
        Row(("\ud83d", "\x00", "😀"), 1)
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", ", character 2: not JSON"),
        ('{"tokens": ["a"]} x', ", character 19: not JSON"),
        ("nope", ", character 1: not JSON"),
        ('["a"]', r": expected an object .* found \[\"a\"\]"),
        ('"a b"', ": expected an object"),
        ("null", ": expected an object .* found null"),
        ('{"token": ["a"]}', ": the record has neither 'tokens' nor 'text'"),
        ('{"tokens": "a b"}', ': tokens: expected a list of strings, found "a b"'),
        ('{"tokens": null, "text": "a"}', ": tokens: expected a list of strings, found null"),
        ('{"tokens": ["a", 5]}', r": tokens\[1\]: expected a string, found 5"),
        ('{"tokens": [["a"]]}', r": tokens\[0\]: expected a string, found \[\"a\"\]"),
        ('{"text": ["a"]}', r": text: expected a string, found \[\"a\"\]"),
        ('{"n": %s}' % ("9" * 5000), ": not JSON that can be read"),
        ("[" * 100_000, ": not JSON that can be read"),
    ],
)
def test_what_is_wrong_is_named_with_line_and_field(line, message):
    with pytest.raises(InputError, match=rf"^a\.jsonl: line 2{message}") as caught:
        rows(f'{{"tokens": []}}\n{line}')
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)
