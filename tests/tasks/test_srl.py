import itertools
import random

import pytest
import torch

from elmokit.errors import InputError
from elmokit.metrics.spans import Span
from elmokit.tasks import saved
from elmokit.tasks.readers.roles import RoleSentence
from elmokit.tasks.registry import get_task
from elmokit.tasks.run import predict_file, train
from elmokit.tasks.srl.config import SrlSection
from elmokit.tasks.srl.model import RoleLabeller
from tasks.contract import TaskContract

SMALL = {
    "hidden_dim": 24,
    "num_layers": 2,
    "predicate_dim": 8,
    "tokens": {"word_dim": 12, "character_filters": 12, "dropout": 0.1, "min_count": 1},
}
WHO = ["Ada", "Bo", "Cy", "Di"]
WHAT = ["nets", "rope", "bread", "tea"]


def clauses(number=20):
    """Words with their columns of arguments: two predicates in some, none in the last."""
    generator = random.Random(0)
    for _ in range(number - 1):
        rows = [(generator.choice(WHO), "-", "(ARG0*)"), ("sold", "sell", "(V*)")]
        rows += [("old", "-", "(ARG1*"), (generator.choice(WHAT), "-", "*)")]
        if generator.random() < 0.5:
            rows = [(*row, "*") for row in rows]
            rows += [("and", "-", "*", "*"), ("paid", "pay", "*", "(V*)")]
            rows += [(generator.choice(WHO), "-", "*", "(ARG2*)")]
        elif generator.random() < 0.5:
            rows += [("that", "-", "(R-ARG1*)"), ("Ada", "-", "(C-ARG1*)")]
        yield rows
    yield [("Yes", "-")]


def conll2012(sentences):
    lines = ["#begin document (a); part 000"]
    for rows in sentences:
        for place, (word, verb, *cells) in enumerate(rows):
            sense = "-" if verb == "-" else "01"
            fixed = ["a", "0", str(place), word, "XX", "*", verb, sense, "-", "-", "*"]
            lines.append("\t".join([*fixed, *cells, "-"]))
        lines.append("")
    return "\n".join([*lines, "#end document", ""])


class TestSrl(TaskContract):
    name = "srl"
    suffix = ".conll"
    content = conll2012(clauses())
    text = "Ada **sold** old nets\n\nYes\n"
    model = SMALL
    perfect = 0.99

    def weight(self, item):
        return len(item.tokens) * len(item.predicates)

    def check_written(self, written):
        assert written == self.content  # the right columns again

    def check_written_from_text(self, written):
        assert written.splitlines() == [
            "Ada - (ARG0*)",
            "sold sold (V*)",
            "old - (ARG1*",
            "nets - *)",
            "",
            "",
            "Yes -",
            "",
        ]


def labeller(labels=("ARG0", "ARG1", "V")):
    torch.manual_seed(0)
    section = SrlSection.from_dict(SMALL | {"num_layers": 3})
    return RoleLabeller(section, ["a"], list(labels), None).eval()


def sentence(length, *predicates):
    roles = tuple((Span(place, place + 1, "V"),) for place in predicates)
    lines = tuple(range(1, length + 1))
    tokens = tuple("abcdefgh"[:length])
    return RoleSentence(name="x", lines=lines, tokens=tokens, predicates=predicates, roles=roles)


SENTENCES = [sentence(5, 1, 3), sentence(3), sentence(8, 0), sentence(4, 1, 2, 3)]


def test_a_predicate_has_a_v_that_begins_there_and_spans_do_not_overlap():
    model = labeller()
    with torch.no_grad():
        model.output.weight.mul_(30)  # tags of all kinds
    found = model.predict(SENTENCES)
    assert [len(roles) for roles in found] == [len(item.predicates) for item in SENTENCES]
    for item, roles in zip(SENTENCES, found, strict=True):
        for predicate, spans in zip(item.predicates, roles, strict=True):
            assert [span.start for span in spans if span.label == "V"] == [predicate]
            assert all(a.end <= b.start for a, b in itertools.pairwise(spans))
    assert any(len(spans) > 2 for roles in found for spans in roles)


def test_predicates_and_sentences_of_a_batch_do_not_mix():
    model = labeller()
    scores, is_predicate, lengths = model.scores([SENTENCES[0], *SENTENCES[2:]])
    alone = [
        model.scores([RoleSentence(name="x", lines=s.lines, tokens=s.tokens, predicates=(at,))])
        for s in SENTENCES
        for at in s.predicates
    ]
    assert lengths.tolist() == [5, 5, 8, 4, 4, 4]
    assert is_predicate.nonzero().tolist() == [[0, 1], [1, 3], [2, 0], [3, 1], [4, 2], [5, 3]]
    for row, (expected, _, length) in enumerate(alone):
        torch.testing.assert_close(scores[row, : int(length)], expected[0])
    assert not torch.allclose(scores[0, 0], scores[1, 0])  # the mark is seen


def test_the_loss_is_that_of_words_once_a_predicate():
    model = labeller()
    losses = [
        -torch.log_softmax(scores[row, place], dim=0)[model._ids["B-V" if is_one else "O"]]
        for item in (SENTENCES[0], SENTENCES[3])
        for scores, marks, _ in [model.scores([item])]
        for row in range(len(item.predicates))
        for place, is_one in enumerate(marks[row].tolist())
    ]
    found = model.loss(SENTENCES[:2] + SENTENCES[3:])
    torch.testing.assert_close(found, torch.stack(losses).mean())


def test_sentences_without_predicates_teach_nothing_and_get_nothing():
    model = labeller()
    loss = model.loss([SENTENCES[1]])
    loss.backward()
    assert loss.item() == 0.0
    assert model.predict([SENTENCES[1]]) == [()]


@pytest.fixture
def run(tmp_path):
    """Begins a run without ELMo, on files with their content."""

    def begin(content, dev=None, **data):
        for name, text in (("train", content), ("dev", dev or content)):
            (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        task = get_task("srl")
        files = {"train": str(tmp_path / "train"), "dev": str(tmp_path / "dev")}
        config = {
            "run_dir": str(tmp_path / "run"),
            "data": files | data,
            "model": SMALL,
            "elmo": {"at": "none"},
            "fit": {"epochs": 1},
            "device": "cpu",
        }
        return train(task, task.config.from_dict(config))

    return begin


PROPS = "He - (A0*)\nran run (V*)\n\n"


def test_bad_input_ends_a_run_before_it_begins(run, tmp_path):
    for train_text, dev, message in (
        (PROPS, f"{PROPS}a - *\n", "dev: line 4: the sentence has 1 columns of arguments and 0"),
        (f"{PROPS}a - *)\nb x (V*)\n", None, "train: line 4: column 3: the bracket closes nothi"),
        ("Yes -\n", None, "train: no sentence has a predicate; set data.format, or data.predicat"),
        (PROPS, "", "dev: holds not one example"),
        (PROPS, PROPS.replace("A0", "A7"), "dev: line 1: the label 'A7' occurs in no training"),
        (PROPS.encode() + b"\xff - *\n", None, "train: line 4, byte 1"),
    ):
        if dev == "":
            dev = b"\n"
        with pytest.raises(InputError) as caught:
            run(train_text, dev, predicate_column=2)
        assert message in str(caught.value)
        assert not (tmp_path / "run").exists()


def test_a_part_without_predicates_is_learnt_from(run):
    """The first example of one is drawn; what the part lacks are errors of its model."""
    results = run(f"Yes -\n\n{PROPS}", PROPS, predicate_column=2, max_train=1, skip_bad=True)
    assert results["train"]["examples"] == 1
    assert (results["dev"]["unseen_labels"], results["dev"]["f1"]) == (1, 0.0)


def test_bad_input_is_passed_over_and_counted(run, tmp_path):
    bad = "a - *)\nb x (V*)\n\n"
    dev = f"{PROPS}{bad}{PROPS.replace('A0', 'A7')}"
    results = run(PROPS + bad, dev, predicate_column=2, skip_bad=True)
    assert results["train"] == {"examples": 1, "skipped": 1}
    assert results["dev"]["unseen_labels"] == 1
    assert results["dev"]["labels"]["A7"]["gold"] == 1
    assert results["dev"]["gold"] == 2

    trained = saved.load(tmp_path / "run" / "model", device="cpu")
    (tmp_path / "new").write_text("He -\nran run\nhe\n\nHe - *)\nran run *\n\nYes -\n")
    assert predict_file(trained, str(tmp_path / "new"), tmp_path / "out") == 2
    lines = (tmp_path / "out").read_text().split("\n")
    assert lines[:4] == ["He -", "ran run", "he", ""]  # bad, and so as it was
    assert [line.split()[:2] for line in lines[4:]] == [
        ["He", "-"],
        ["ran", "run"],
        [],
        ["Yes", "-"],
        [],
    ]
