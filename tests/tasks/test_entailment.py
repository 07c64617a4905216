import json
import random
from typing import ClassVar

import pytest

from elmokit.tasks.registry import get_task
from tasks.contract import TaskContract
from tasks.test_classify import SMALL

THINGS = ["dog", "cat", "man", "bird"]


def pairs(number=20):
    """Records: what is named again follows, what is not does not."""
    generator = random.Random(3)
    for index in range(number):
        one, other = generator.sample(THINGS, 2)
        follows = index % 2 == 0
        named = one if follows else other
        yield {
            "gold_label": "entailment" if follows else "neutral",
            "sentence1": f"a {one} {generator.choice(['runs', 'sleeps over'])} there",
            "sentence2": f"there is {generator.choice(['a', 'the same'])} {named}",
        }


class TestEntailment(TaskContract):
    name = "entailment"
    suffix = ".jsonl"
    content = "".join(f"{json.dumps(record)}\n" for record in pairs())
    text = "a dog runs there\tthere is a dog\n\na man sleeps there\tthere is a bird\n"
    model: ClassVar = SMALL

    def check_written(self, written):
        assert written == self.content

    def check_written_from_text(self, written):
        lines = written.splitlines()
        assert [line.split("\t", 1)[1] for line in lines] == self.text.splitlines()
        assert {line.split("\t")[0] for line in lines} <= {"entailment", "neutral", ""}
        assert lines[1] == "\t"


@pytest.mark.parametrize(
    ("format", "content"),
    [
        ("tsv", "neutral\ta dog\ta cat\n"),
        (
            "sick",
            "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
            "1\ta dog\ta cat\t2.0\tneutral\n",
        ),
    ],
)
def test_other_formats(tmp_path, format, content):
    (tmp_path / "a").write_text(content, encoding="utf-8")
    task = get_task("entailment")
    data = {"run_dir": "r", "data": {"train": "a", "dev": "a", "format": format}}
    config = task.config.from_dict(data)
    [item] = task.read(str(tmp_path / "a"), config, "train").items
    assert (item.premise, item.hypothesis, item.label) == (("a", "dog"), ("a", "cat"), "neutral")
    reading = task.read(str(tmp_path / "a"), config, "predict")
    assert reading.items[0].label is None
    written = task.write(reading, ["entailment"], config, {}, "task")
    assert "\n".join(written) + "\n" == content.replace("neutral", "entailment")
