import copy
import json

import pytest

from elmokit.errors import InputError
from elmokit.tasks.readers.passages import Cutting
from elmokit.tasks.readers.questions import PlainQuestions, read_squad, write_squad
from elmokit.tasks.readers.reading import read_examples
from elmokit.text.tokenizers import cut_words

CONTEXT = "The brig Ida sails from Hull. The brig Ida carries salt."
CUTTING = Cutting(tokenizer=cut_words, window=8, overlap=4)
PLACE = "article 1 (Ships), paragraph 1"


def document():
    """Two questions, the first with two answers that overlap."""
    answers = [{"text": "Hull", "answer_start": 24}, {"text": "from Hull", "answer_start": 19}]
    questions = [
        {"id": "q1", "question": "Where does she sail from?", "answers": answers},
        {
            "id": "q2",
            "question": "Which ship carries salt?",
            "answers": [{"text": "Ida", "answer_start": 39}],
        },
    ]
    paragraph = {"context": CONTEXT, "qas": questions}
    return {"version": "1.1", "data": [{"title": "Ships", "paragraphs": [paragraph]}]}


def read(folder, data, *, answers=True, learnt=False, skip_bad=False):
    path = folder / "a.json"
    if not isinstance(data, bytes):
        data = (data if isinstance(data, str) else json.dumps(data)).encode()
    path.write_bytes(data)
    return read_squad(
        str(path), CUTTING, encoding="utf-8", answers=answers, learnt=learnt, skip_bad=skip_bad
    )


def test_reads_answers_with_their_words(tmp_path):
    reading = read(tmp_path, document(), learnt=True)
    first, second = reading.items
    assert first.where == f"{tmp_path / 'a.json'}: {PLACE}, question 1 (q1)"
    assert first.tokens == ("Where", "does", "she", "sail", "from", "?")
    assert first.answers == ("Hull", "from Hull")
    assert first.spans == (range(5, 6), range(4, 6))
    assert second.spans == (range(9, 10),)  # the second Ida, by its place
    assert first.passage is second.passage
    assert [len(window) for window in first.passage.windows] == [8, 8, 5]


def test_a_byte_order_mark_is_no_part_of_it(tmp_path):
    data = b"\xef\xbb\xbf" + json.dumps(document(), indent=1).replace("\n", "\r\n").encode()
    assert len(read(tmp_path, data).items) == 2


def test_to_predict_no_answers_are_needed_or_looked_at(tmp_path):
    data = document()
    for question in data["data"][0]["paragraphs"][0]["qas"]:
        question.pop("answers")
    assert [item.answers for item in read(tmp_path, data, answers=False).items] == [(), ()]
    data["data"][0]["paragraphs"][0]["qas"][0]["answers"] = "nonsense"
    assert len(read(tmp_path, data, answers=False).items) == 2


def test_an_answer_may_begin_within_a_word(tmp_path):
    data = document()
    data["data"][0]["paragraphs"][0]["qas"][1]["answers"] = [{"text": "al", "answer_start": 52}]
    item = read(tmp_path, data).items[1]
    assert item.passage.characters(item.spans[0]) == "salt"


def test_questions_without_an_answer_are_scored_but_not_learnt(tmp_path):
    data = document()
    question = data["data"][0]["paragraphs"][0]["qas"][0]
    question |= {"answers": [], "is_impossible": True}
    assert read(tmp_path, data).items[0].answers == ()
    with pytest.raises(InputError, match=r"\(q1\): answers: there is none"):
        read(tmp_path, data, learnt=True)
    reading = read(tmp_path, data, learnt=True, skip_bad=True)
    assert (reading.num_skipped, len(reading.items)) == (1, 1)
    question["is_impossible"] = False
    assert read(tmp_path, data).items[0].answers == ()


def test_an_answer_in_no_window_is_not_learnt(tmp_path):
    data = document()
    answer = {"text": CONTEXT, "answer_start": 0}
    data["data"][0]["paragraphs"][0]["qas"][0]["answers"] = [answer]
    assert read(tmp_path, data).items[0].spans == (range(13),)
    with pytest.raises(
        InputError, match=r"have 13 words and lie in no window; raise model\.overlap"
    ):
        read(tmp_path, data, learnt=True)


def article(data):
    return data["data"][0]


def paragraph(data):
    return article(data)["paragraphs"][0]


def question(data):
    return paragraph(data)["qas"][0]


def answer(data):
    return question(data)["answers"][0]


MISSING = object()
BAD = [
    # where, field, value, message, questions left, keys of the predictions
    (answer, "answer_start", 23, r"\(q1\), answer 1: text: the context has ' Hul' at", 1, 2),
    (answer, "answer_start", -33, "answer_start: -33 lies outside the context", 1, 2),
    (answer, "answer_start", 10**400, r"answer_start: 1000+ lies outside the context", 1, 2),
    (answer, "answer_start", True, "answer_start: expected a whole number, found true", 1, 2),
    (answer, "answer_start", MISSING, "answer 1: answer_start: is missing", 1, 2),
    (answer, "text", "", "answer 1: text: has no words", 1, 2),
    (answer, "text", None, "text: expected a string, found null", 1, 2),
    (question, "answers", MISSING, r"question 1 \(q1\): answers: is missing", 1, 2),
    (question, "answers", {}, "answers: expected a list, found {}", 1, 2),
    (question, "answers", ["Hull"], 'answer 1: expected an object, found "Hull"', 1, 2),
    (question, "is_impossible", True, "is_impossible: is true, but there are answers", 1, 2),
    (question, "is_impossible", 1, "is_impossible: expected a truth value, found 1", 1, 2),
    (question, "question", " ", r"\(q1\): question: has no words", 1, 2),
    (question, "question", MISSING, "question: is missing", 1, 2),
    (question, "id", MISSING, r"\(Ships\), paragraph 1, question 1: id: is missing", 1, 2),
    (question, "id", 7, "id: expected a string, found 7", 1, 2),
    (question, "id", "q2", "question 2: id: 'q2' was there before", 1, 2),
    (paragraph, "qas", MISSING, "paragraph 1: qas: is missing", 0, 0),
    (article, "paragraphs", 3, "article 1: paragraphs: expected a list, found 3", 0, 0),
]  # fmt: skip


@pytest.mark.parametrize(("where", "field", "value", "message", "left", "keys"), BAD)
def test_what_is_wrong_is_named_and_left_out(tmp_path, where, field, value, message, left, keys):
    data = document()
    whole = copy.deepcopy(article(data)["paragraphs"])
    if value is MISSING:
        del where(data)[field]
    else:
        where(data)[field] = value
    with pytest.raises(InputError, match=message):
        read(tmp_path, data)
    if not left:  # something to read must be left
        for place in (part for part in whole[0]["qas"]):
            place["id"] += "x"
        data["data"].append({"paragraphs": whole})
        left, keys = 2, 2
    reading = read(tmp_path, data, skip_bad=True)
    assert (reading.num_skipped, len(reading.items)) == (1, left)
    written = json.loads("\n".join(write_squad(reading, ["an answer"] * left)))
    assert len(written) == keys
    assert sorted(written.values()) == [""] * (keys - left) + ["an answer"] * left


@pytest.mark.parametrize("context", ["", " \n", None, MISSING])
def test_a_bad_text_leaves_out_its_questions(tmp_path, context):
    data = document()
    data["data"].append({"paragraphs": [copy.deepcopy(paragraph(data))]})
    for q in data["data"][1]["paragraphs"][0]["qas"]:
        q["id"] += "x"
    paragraph(data)["context"] = context
    if context is MISSING:
        del paragraph(data)["context"]
    with pytest.raises(
        InputError, match=r"paragraph 1: context: (has no words|expected|is missing)"
    ):
        read(tmp_path, data)
    reading = read(tmp_path, data, answers=False, skip_bad=True)
    assert (reading.num_skipped, len(reading.items)) == (2, 2)
    written = json.loads("\n".join(write_squad(reading, ["x", "y"])))
    assert written == {"q1": "", "q2": "", "q1x": "x", "q2x": "y"}


def test_a_question_without_an_id_of_its_own_is_written_under_its_place(tmp_path):
    data = document()
    question(data)["id"] = "q2"
    reading = read(tmp_path, data, skip_bad=True)
    written = json.loads("\n".join(write_squad(reading, ["x"])))
    assert written == {"q2": "x", f"{PLACE}, question 2": ""}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('{"data": [\n 1,, 2]}', "line 2, character 4: not JSON"),
        ("", "line 1, character 1: not JSON"),
        ("[" * 100_000, "not JSON that can be read"),
        ("[]", "is not of SQuAD's format"),
        ('{"version": 1}', "a.json: is not of SQuAD's format"),
        ('{"data": {}}', "is not of SQuAD's format"),
        ('{"data": []}', "not one example"),
        ('{"data": [7]}', "article 1: expected an object, found 7"),
        ('{"data": [{"paragraphs": ["x"]}]}', "article 1, paragraph 1: expected an object"),
        (b'{"data":\n "\xff"}', "line 2, byte 3"),
    ],
)
def test_what_is_no_document_of_questions(tmp_path, data, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, data)


def test_written_answers_are_as_they_stand_in_the_text(tmp_path):
    reading = read(tmp_path, document())
    answers = ['漢字 "x"\\\n\u2028', "\ud800"]
    lines = list(write_squad(reading, answers))
    assert "漢字" in lines[1]
    assert json.loads("\n".join(lines).encode().decode()) == dict(
        zip(("q1", "q2"), answers, strict=True)
    )


def test_plain_lines(tmp_path):
    path = tmp_path / "a"
    path.write_text(f"Why?\nWho?\t{CONTEXT}\tAye.\n\nWhat?\t \n \tx\n", encoding="utf-8")

    def read(*, skip_bad):
        return read_examples(
            str(path), lambda name: PlainQuestions(name, CUTTING), skip_bad=skip_bad
        )

    with pytest.raises(InputError, match="line 1: has no tab between a question and its text"):
        read(skip_bad=False)
    reading = read(skip_bad=True)
    assert (reading.num_skipped, len(reading.entries)) == (3, 5)
    [item] = reading.items
    assert (item.where, item.tokens, item.passage.text) == (
        f"{path}: line 2",
        ("Who", "?"),
        f"{CONTEXT}\tAye.",
    )
