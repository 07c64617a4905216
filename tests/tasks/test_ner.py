import random

import pytest

from elmokit.errors import InputError
from elmokit.metrics.spans import first_invalid
from elmokit.tasks.registry import get_task
from tasks.contract import TaskContract

SMALL = {
    "hidden_dim": 24,
    "num_layers": 1,
    "dropout": 0.1,
    "tokens": {"word_dim": 12, "character_filters": 12, "dropout": 0.1, "min_count": 1},
}
NAMES = ["Ada", "Bo", "Cy", "Di"]
PLACES = ["Oslo", "Rome", "Lima"]


def sentences(scheme="IOB1", number=20):
    """Lines of sentences with names and places, some side by side."""
    generator = random.Random(0)
    for _ in range(number):
        lines = [("He", "O"), ("met", "O")]
        first = "I-PER" if scheme == "IOB1" else "B-PER"
        lines.append((generator.choice(NAMES), first))
        if generator.random() < 0.5:
            lines.append((generator.choice(NAMES), "B-PER"))  # right after another
        lines.append((generator.choice(["in", "near"]), "O"))
        lines.append((generator.choice(PLACES), "I-LOC" if scheme == "IOB1" else "B-LOC"))
        if generator.random() < 0.5:
            lines.append(("City", "I-LOC"))
        yield [f"{word} X {tag}" for word, tag in lines]


def content(scheme="IOB1", number=20):
    return "-DOCSTART- X O\n\n" + "".join(
        "\n".join(lines) + "\n\n" for lines in sentences(scheme, number)
    )


class TestNer(TaskContract):
    name = "ner"
    suffix = ".conll"
    content = content()
    text = "He met Ada\n\nin Oslo City\n"
    model = SMALL

    def check_written(self, written):
        before, after = self.content.splitlines(), written.splitlines()
        assert len(before) == len(after)
        for old, new in zip(before, after, strict=True):
            # The right tag again, in the scheme of the training file.
            assert new == (f"{old} {old.split()[-1]}" if old else "")

    def check_written_from_text(self, written):
        rows = written.split("\n\n")
        assert [row.split()[::2] for row in written.replace("\n\n\n", "\n\n").split("\n\n")] == [
            ["He", "met", "Ada"],
            ["in", "Oslo", "City"],
            [],
        ]
        assert written.count("\n\n") >= 2
        assert rows[0].splitlines()[2] == "Ada I-PER"


@pytest.fixture
def refused(tmp_path):
    """Begins a run that must be refused; returns why."""

    def run(train, dev=None, **data):
        for name, text in (("train", train), ("dev", dev or train)):
            (tmp_path / name).write_text(text, encoding="utf-8")
        task = get_task("ner")
        from elmokit.tasks.run import train as train_task

        config = task.config.from_dict(
            {
                "run_dir": str(tmp_path / "run"),
                "data": {"train": str(tmp_path / "train"), "dev": str(tmp_path / "dev"), **data},
                "model": SMALL,
                "elmo": {"at": "none"},
                "fit": {"epochs": 1},
                "device": "cpu",
            }
        )
        if data.get("skip_bad"):
            return train_task(task, config)
        with pytest.raises(InputError) as caught:
            train_task(task, config)
        assert not (tmp_path / "run").exists()
        return str(caught.value).replace(str(tmp_path) + "/", "")

    return run


IOB2 = content("IOB2", 4)


def test_impossible_sequences_are_named_left_out_or_read_as_conll_does(refused):
    bad = f"{IOB2}a X O\nb X I-PER\n"
    line = bad.count("\n")
    assert f"train: line {line}: tag I-PER cannot stand there in IOB2" in refused(bad)
    assert refused(bad, skip_bad=True)["train"] == {"examples": 4, "skipped": 1}


@pytest.mark.parametrize(("policy", "read"), [("conlleval", "S-PER"), ("discard", "O")])
def test_policies_for_impossible_sequences(policy, read, tmp_path):
    (tmp_path / "a").write_text(f"{IOB2}a X O\nb X I-PER\n", encoding="utf-8")
    task = get_task("ner")
    data = {"train": "a", "dev": "a", "invalid_tags": policy}
    config = task.config.from_dict({"run_dir": "r", "data": data})
    *_, item = task.read(str(tmp_path / "a"), config, "train").items
    assert item.tags == ("O", read)


def test_other_bad_input_is_named(refused):
    assert "train: line 5: tag 'PER'" in refused("a O\nb O\n\nc O\nd PER\n")
    assert "there is no column 7" in refused(IOB2, column=7)
    assert "dev: holds not one example" in refused(IOB2, dev="\n\n")
    unseen = "a X O\nb X B-NEW\n"
    message = refused(IOB2, dev=unseen)
    assert "dev: line 2: the label 'S-NEW' occurs in no training example" in message
    assert "--skip-bad" in message


def test_unseen_labels_are_counted_as_errors(refused):
    results = refused(IOB2, dev=f"{IOB2}b X B-NEW\n", skip_bad=True)
    assert results["dev"]["unseen_labels"] == 1
    assert results["dev"]["labels"]["NEW"]["gold"] == 1


def test_a_long_sentence_runs(refused):
    long = "".join(f"w{n % 7} X O\n" for n in range(2000))
    results = refused(f"{IOB2}{long}", skip_bad=True)
    assert results["train"] == {"examples": 5, "skipped": 0}


def test_inside_tags_are_bioes(tmp_path):
    (tmp_path / "a").write_text(content("IOB1"), encoding="utf-8")
    task = get_task("ner")
    data = {"run_dir": "r", "data": {"train": "a", "dev": "a"}}
    reading = task.read(str(tmp_path / "a"), task.config.from_dict(data), "train")
    assert {item.scheme for item in reading.items} == {"IOB1"}
    assert all(first_invalid(item.tags, "BIOES") is None for item in reading.items)
