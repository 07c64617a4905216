from typing import ClassVar

from elmokit.tasks.registry import get_task
from tasks.contract import TaskContract
from tasks.test_classify import SMALL, texts, two_texts


def tree(liked, words):
    inner = f"(2 {words[-1]})"
    for word in reversed(words[:-1]):
        inner = f"(2 (2 {word}) {inner})"
    return f"({4 if liked else 0}{inner[2:]}"


class TestSentiment(TaskContract):
    name = "sentiment"
    suffix = ".txt"
    content = "".join(f"{tree(*text)}\n" for text in texts())
    text = two_texts()
    model: ClassVar = SMALL

    def check_written(self, written):
        assert written == self.content

    def check_written_from_text(self, written):
        dislike, nothing, like = self.text.splitlines()
        assert written == f"0\t{dislike}\n\t{nothing}\n4\t{like}\n"


def test_phrases_and_two_classes(tmp_path):
    (tmp_path / "a").write_text(
        "(3 (2 It) (4 (2 is) (4 good)))\n(2 so)\n(0 bad)\n", encoding="utf-8"
    )
    task = get_task("sentiment")

    def read(purpose, **data):
        config = {"run_dir": "r", "data": {"train": "a", "dev": "a", **data}}
        reading = task.read(str(tmp_path / "a"), task.config.from_dict(config), purpose)
        return [(item.label, " ".join(item.tokens)) for item in reading.items]

    assert read("train") == [("3", "It is good"), ("2", "so"), ("0", "bad")]
    assert read("eval", classes=2) == [("positive", "It is good"), ("negative", "bad")]
    assert read("predict", classes=2) == [(None, "It is good"), (None, "so"), (None, "bad")]
    assert read("train", phrases=True, classes=2) == [
        ("positive", "good"),
        ("positive", "is good"),
        ("positive", "It is good"),
        ("negative", "bad"),
    ]
    assert len(read("eval", phrases=True)) == 3
