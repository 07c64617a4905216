import json
import random
from typing import ClassVar

import pytest

from elmokit.tasks.registry import get_task
from elmokit.tasks.run import train
from elmokit.tasks.tag.config import TagData
from tasks.contract import TaskContract
from tasks.test_ner import SMALL

WORDS = [("the", "DET"), ("cat", "NOUN"), ("sat", "VERB"), ("on", "ADP"), ("old", "ADJ")]


def conllu(number=20):
    """Sentences with a multiword token, an empty node and a comment."""
    generator, blank = random.Random(1), "\t_"
    for index in range(number):
        chosen = [generator.choice(WORDS) for _ in range(generator.randrange(2, 7))]
        yield f"# sent_id = {index}\n"
        yield f"1-2\txx{blank * 8}\n"
        for place, (word, tag) in enumerate(chosen, start=1):
            yield f"{place}\t{word}\t_\t{tag}\t_{blank * 5}\n"
        yield f"{len(chosen)}.1\tghost{blank * 8}\n\n"


class TestTag(TaskContract):
    name = "tag"
    suffix = ".conllu"
    content = "".join(conllu())
    text = "the cat\n\nsat\n"
    model: ClassVar = {**SMALL, "crf": False}

    def weight(self, item):
        return len(item.tokens)

    def check_written(self, written):
        assert written == self.content

    def check_written_from_text(self, written):
        assert written == "the DET\ncat NOUN\n\n\nsat VERB\n\n"


@pytest.mark.parametrize(
    ("train", "format", "is_conllu"),
    [
        ("a.conllu", "auto", True),
        ("ud/A.CoNLLU.gz", "auto", True),
        ("a.conllu.zst", "auto", True),
        ("ud.conllu-2.15/train.txt", "auto", False),
        ("a.conllu.txt", "auto", False),
        ("a.txt", "conllu", True),
        ("a.conllu", "columns", False),
    ],
)
def test_conllu_is_known_by_how_the_name_ends(train, format, is_conllu):
    assert TagData(train=train, dev="a", format=format).is_conllu == is_conllu


@pytest.mark.parametrize("crf", [True, False])
def test_tags_that_write_spans_are_scored_as_spans(tmp_path, crf):
    lines = "He B-NP\nsees B-VP\nthe B-NP\ndog I-NP\n\nIt B-NP\nruns B-VP\n\n"
    (tmp_path / "a").write_text(lines, encoding="utf-8")
    task = get_task("tag")
    config = task.config.from_dict(
        {
            "run_dir": str(tmp_path / "run"),
            "data": {"train": str(tmp_path / "a"), "dev": str(tmp_path / "a")},
            "model": {**SMALL, "crf": crf},
            "elmo": {"at": "none"},
            "fit": {"epochs": 40, "learning_rate": 0.02},
            "device": "cpu",
        }
    )
    results = train(task, config)
    assert (results["metric"], results["score"]) == ("f1", 1.0)
    assert results["dev"]["accuracy"] == 1.0
    assert set(results["dev"]["labels"]) == {"NP", "VP"}
    lists = json.loads((tmp_path / "run" / "model" / "lists.json").read_text())
    assert lists["scheme"] == ["IOB2"]
