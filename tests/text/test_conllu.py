import pytest

from elmokit.errors import InputError
from elmokit.text.conllu import read_conllu
from elmokit.text.row import Row

REST = "\t_" * 8


def rows(content: str) -> list[Row]:
    return list(read_conllu(enumerate(content.split("\n"), start=1), "a.conllu"))


def test_words_are_the_forms_of_integer_ids():
    content = "\n".join(
        [
            "# sent_id = 1",
            f"1-2\tvámonos{REST}",
            f"1\tvamos{REST}",
            f"2\tnos{REST}",
            f"2.1\tghost{REST}",
            f"3\t10 000{REST}",
            "",
            f"1\t#{REST}",
        ]
    )
    assert rows(content) == [Row(("vamos", "nos", "10 000"), 1), Row(("#",), 8)]


def test_a_last_sentence_without_a_blank_line_counts_once():
    sentence = f"1\ta{REST}"
    for end in ("", "\n", "\n\n", "\n\n\n"):
        assert rows(sentence + end) == [Row(("a",), 1)]


def test_extra_blank_lines_and_lone_comments_are_no_sentences():
    assert rows(f"# newdoc\n\n\n1\ta{REST}\n \n# end") == [Row(("a",), 4)]
    assert rows("") == []


def test_a_sentence_without_words_is_an_empty_row():
    assert rows(f"1.1\tghost{REST}\n\n1\ta{REST}") == [Row((), 1), Row(("a",), 3)]


@pytest.mark.parametrize("line", ["1\ta", "1 a _ _ _ _ _ _ _ _", f"1\ta{REST}\t_"])
def test_a_wrong_number_of_columns_is_named_with_its_line(line):
    with pytest.raises(InputError, match=r"^a\.conllu: line 2: found \d+ columns, expected the 10"):
        rows(f"# one\n{line}")


@pytest.mark.parametrize("word_id", ["one", "", "-1", "1-", "1-2-3", " 1", "²"])
def test_an_id_that_is_no_number_is_named_with_its_line(word_id):
    with pytest.raises(InputError, match=r"^a\.conllu: line 2: id: .* is no number"):
        rows(f"1\ta{REST}\n{word_id}\tb{REST}")
