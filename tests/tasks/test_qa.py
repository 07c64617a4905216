import dataclasses
import json
import random
from typing import ClassVar

import pytest
import torch

from elmokit.cli import main
from elmokit.errors import ConfigError
from elmokit.tasks.config import TokensSection
from elmokit.tasks.qa.model import Alikeness, Bidaf, BidafSection
from elmokit.tasks.readers.items import Question
from elmokit.tasks.readers.passages import Cutting
from elmokit.tasks.registry import get_task
from elmokit.text.tokenizers import cut_words
from tasks.contract import TaskContract

SMALL = {
    "hidden_dim": 16,
    "dropout": 0.0,
    "tokens": {"word_dim": 12, "character_filters": 12, "dropout": 0.0, "min_count": 1},
}
SHIPS = ["Ida", "Fly", "Gem", "Nora"]
PORTS = ["Hull", "Kiel", "Riga", "Bergen"]
LOADS = ["salt", "pine planks", "tea", "coal"]


def squad(number=20):
    """A document of so many questions, four a text; in half of them the ship decides."""
    generator = random.Random(5)
    paragraphs = []
    for index in range(0, number, 4):
        ships, ports = generator.sample(SHIPS, 2), generator.sample(PORTS, 2)
        loads = generator.sample(LOADS, 2)
        context = " ".join(
            f"The {ship} sails to {port} with {load}."
            for ship, port, load in zip(ships, ports, loads, strict=True)
        )
        asked = [
            (f"{what} the {ship} {verb}?", answer)
            for ship, port, load in zip(ships, ports, loads, strict=True)
            for what, verb, answer in (("Where does", "sail", port), ("What does", "carry", load))
        ]
        questions = [
            {
                "id": f"q{index + place}",
                "question": question,
                "answers": [{"text": answer, "answer_start": context.index(answer)}],
            }
            for place, (question, answer) in enumerate(asked)
        ]
        paragraphs.append({"context": context, "qas": questions})
    return {"version": "1.1", "data": [{"title": "Ships", "paragraphs": paragraphs}]}


def right_answers(document):
    """Id -> answer."""
    return {
        question["id"]: question["answers"][0]["text"]
        for article in document["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    }


class TestQa(TaskContract):
    name = "qa"
    suffix = ".json"
    content = json.dumps(squad())
    text = "Where does the Ida sail?\tThe Ida sails to Hull.\n\nWhat?\t漢字 !\n"
    model: ClassVar = SMALL

    def check_written(self, written):
        assert json.loads(written) == right_answers(squad())

    def check_written_from_text(self, written):
        lines = written.splitlines()
        assert [line.split("\t", 1)[1] for line in lines] == self.text.splitlines()
        for line in (lines[0], lines[2]):
            answer, _, context = line.split("\t")
            assert answer
            assert answer in context
        assert lines[1] == "\t"

    def test_predictions_for_what_is_bad(self, folder, fitted, capsys):
        data = squad()
        paragraphs = data["data"][0]["paragraphs"]
        for question in (q for paragraph in paragraphs for q in paragraph["qas"]):
            del question["answers"]
        paragraphs[1]["context"] = ""
        del paragraphs[2]["qas"][1]["question"]
        (folder / "bad.json").write_text("\ufeff" + json.dumps(data), encoding="utf-8")
        files = [str(folder / name) for name in ("fitted/model", "bad.json")]
        command = ["task", "predict", "qa", *files, "-o", str(folder / "out"), "--device", "cpu"]
        assert main(command) == 2
        assert "bad.json: article 1 (Ships), paragraph 2: context: has" in capsys.readouterr().err
        assert main([*command, "--skip-bad"]) == 0
        assert "15 examples predicted" in capsys.readouterr().out
        left_out = dict.fromkeys(["q4", "q5", "q6", "q7", "q9"], "")
        assert json.loads((folder / "out").read_text()) == right_answers(squad()) | left_out

    def test_a_file_with_nothing_but_bad_questions(self, folder, fitted, capsys):
        data = squad()
        del data["data"][0]["paragraphs"][1:]
        data["data"][0]["paragraphs"][0]["context"] = ""
        (folder / "all-bad.json").write_text(json.dumps(data), encoding="utf-8")
        files = [str(folder / name) for name in ("fitted/model", "all-bad.json")]
        output = folder / "all-bad-out.json"
        command = ["task", "predict", "qa", *files, "-o", str(output), "--skip-bad"]
        assert main([*command, "--device", "cpu"]) == 0
        assert set(json.loads(output.read_text()).values()) == {""}
        assert main(["task", "eval", "qa", *files, "--skip-bad", "--device", "cpu"]) == 2
        assert "all-bad.json: holds not one example" in capsys.readouterr().err

    def test_what_has_no_answer_counts_as_answered_wrongly(self, folder, fitted, capsys):
        data = squad()
        for question in data["data"][0]["paragraphs"][0]["qas"]:
            question |= {"answers": [], "is_impossible": True}
        (folder / "impossible.json").write_text(json.dumps(data), encoding="utf-8")
        files = [str(folder / name) for name in ("fitted/model", "impossible.json")]
        assert main(["task", "eval", "qa", *files, "--device", "cpu"]) == 0
        scores = json.loads(capsys.readouterr().out)
        found = {name: scores[name] for name in ("f1", "exact_match", "unanswerable", "skipped")}
        assert found == {"f1": 0.8, "exact_match": 0.8, "unanswerable": 4, "skipped": 0}


def test_whatever_is_answered_is_wrong_where_nothing_is_right():
    """Also an article, of which nothing is left once answers are normalised."""
    items = [question("the"), question("a b", [range(1)]), question("b the", [range(1, 2)])]
    scores = get_task("qa").evaluate(items, ["the", "a", "b"], {})
    assert scores == {"f1": 0.0, "exact_match": 1 / 3, "unanswerable": 1}
    scores = get_task("qa").evaluate(items[:1], ["the"], {})
    assert scores == {"f1": 0.0, "exact_match": 0.0, "unanswerable": 1}


WORDS = ["a", "b", "c", "d", "?"]


def model(**changes):
    torch.manual_seed(0)
    tokens = TokensSection(word_dim=8, character_filters=0)
    sizes = {"window": 8, "overlap": 4, "longest_answer": 3, **changes}
    return Bidaf(BidafSection(hidden_dim=6, tokens=tokens, **sizes), WORDS, None).eval()


def question(text, answers=(), window=8, overlap=4):
    """A question about a text, with its answers as ranges of words."""
    passage = Cutting(tokenizer=cut_words, window=window, overlap=overlap).passage(text)
    texts = tuple(map(passage.characters, answers))
    return Question(
        where="x", passage=passage, tokens=("a", "?"), answers=texts, spans=tuple(answers)
    )


def given_scores(bidaf, first, last):
    """Lets the words of all windows have these scores."""
    scores = torch.stack([torch.tensor(first), torch.tensor(last)], dim=1)
    bidaf._scores = lambda read: torch.stack([scores[w.start : w.stop] for _, w in read])
    return bidaf


def test_the_best_answer_ends_after_it_begins_and_is_not_too_long():
    item = question("w0 w1 w2 w3 w4")
    bidaf = given_scores(model(), [0.0, 1.0, 0.0, 5.0, 0.0], [4.0, 9.0, 0.0, 2.0, 3.0])
    assert bidaf.predict([item]) == ["w1"]  # 1 + 9; 5 + 9 would end before it begins
    bidaf = given_scores(model(), [9.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 5.0, 5.0])
    assert bidaf.predict([item]) == ["w0 w1 w2"]  # up to w3 there are four words


def test_of_all_windows_the_best_answer_is_taken():
    text = " ".join(f"w{number}" for number in range(16))
    item = question(text)
    assert item.passage.windows == (range(8), range(4, 12), range(8, 16))
    first, last = [0.0] * 16, [0.0] * 16
    first[1] = last[1] = 1.0
    first[13], last[14] = 3.0, 2.0
    assert given_scores(model(), first, last).predict([item, item]) == ["w13 w14"] * 2


def test_what_is_read_together_changes_nothing():
    texts = ["a b c d a b", "c", "b c. D a? c b a d d b c a c a b", "d d", "a b c d a b"]
    items = [question(text) for text in texts]
    bidaf = model()
    assert bidaf.predict(items) == [bidaf.predict([item])[0] for item in items]
    learnt = [question(text, [range(1)]) for text in texts]
    alone = torch.stack([bidaf.loss([item]) for item in learnt])
    torch.testing.assert_close(bidaf.loss(learnt), alone.mean())
    assert alone.isfinite().all()


def test_the_loss_is_that_of_all_answers_in_the_window():
    spans = [range(1, 3), range(2, 3), range(11, 12)]  # the third lies in other windows
    item = question(" ".join("abcd"[place % 4] for place in range(14)), spans)
    bidaf = model()
    first, last = bidaf._scores([(item, item.passage.windows[0])])[0].softmax(dim=0).unbind(dim=1)
    expected = -(first[1] + first[2]).log() - last[2].log()
    torch.testing.assert_close(bidaf.loss([item]), expected)
    bidaf.train()
    bidaf.loss([item, question("c", [range(1)])]).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in bidaf.parameters())


def test_alikeness_is_a_sum_of_three_products():
    alike = Alikeness(3)
    one, other = torch.randn(2, 4, 3), torch.randn(2, 5, 3)
    found = alike(one, other)
    for row, i, j in ((0, 1, 2), (1, 3, 4)):
        a, b = one[row, i], other[row, j]
        expected = alike.one.weight[0] @ a + alike.other.weight[0] @ b + (a * b) @ alike.product
        torch.testing.assert_close(found[row, i, j], expected)


def test_attention_is_bounded_by_the_window():
    """However long a text is, no step sees more of it."""
    item = question("a b c d " * 100, window=8)
    seen = []
    bidaf = model()
    scores = bidaf._scores
    bidaf._scores = lambda read: seen.append((len(read), scores(read))) or seen[-1][1]
    bidaf.predict([item])
    assert len(seen) == len(item.passage.windows) > 90
    assert {(number, found.shape[:2]) for number, found in seen} == {(1, (1, 8))}


def test_words_of_a_text_count_once():
    item = question("x y")
    other = dataclasses.replace(item, tokens=("y", "z"))
    config = get_task("qa").config.from_dict({"run_dir": "r", "data": {"train": "", "dev": ""}})
    words = get_task("qa").make_lists([item, item, other], config)["words"]
    assert set(words) == {"a", "?", "y"}  # but not x, which stands once in the one text


def test_chinese_is_read_by_characters(tmp_path):
    context = "寶船在鎮江停泊，載有茶葉。"
    answers = [{"text": "鎮江", "answer_start": 3}]
    asked = {"id": "一", "question": "船在哪裡？", "answers": answers}
    data = {"data": [{"paragraphs": [{"context": context, "qas": [asked]}]}]}
    (tmp_path / "a.json").write_text(json.dumps(data), encoding="utf-8")
    task = get_task("qa")
    config = task.config.from_dict({"run_dir": "r", "data": {"train": "", "dev": ""}})
    reading = task.read(str(tmp_path / "a.json"), config, "train")
    [item] = reading.items
    assert item.tokens == tuple("船在哪裡？")
    assert item.passage.tokens == tuple(context)
    assert item.spans == (range(3, 5),)
    written = "\n".join(task.write(reading, ["鎮江"], config, {}, "task"))
    assert written == '{\n "一": "鎮江"\n}'


@pytest.mark.parametrize(
    "sizes", [{"overlap": 16}, {"window": 100}, {"longest_answer": 0}, {"dropout": 1.0}]
)
def test_sizes_that_do_not_fit(sizes):
    with pytest.raises(ConfigError, match=next(iter(sizes))):
        BidafSection(**sizes)
