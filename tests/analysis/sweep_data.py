"""Small data, and a training that is quick because nothing is learnt in it."""

import json
from pathlib import Path

from builders import char_bilm
from elmokit.tasks.registry import get_task

TAGS = ("DET", "NOUN", "VERB")


def write_data(folder: Path, examples: int = 20) -> None:
    """Writes tagged sentences, for training and for dev, and a biLM."""
    for name, number in (("train", examples), ("dev", 4)):
        sentences = [f"the DET\nn{place % 7} NOUN\nv{place % 3} VERB\n" for place in range(number)]
        (folder / f"{name}.conll").write_text("\n".join(sentences), encoding="utf-8")
    char_bilm().save_pretrained(folder / "elmo")


def settings(folder: Path, **fit) -> dict:
    """A small run on that data, as plain values."""
    return {
        "run_dir": "unused",
        "data": {"train": str(folder / "train.conll"), "dev": str(folder / "dev.conll")},
        "model": {
            "hidden_dim": 4,
            "num_layers": 1,
            "crf": False,
            "tokens": {"word_dim": 4, "character_filters": 0, "min_count": 1},
        },
        "elmo": {"model": str(folder / "elmo")},
        "fit": {"epochs": 2, "batch_size": 4, "learning_rate": 0.1, **fit},
        "device": "cpu",
        "threads": 1,
    }


def base(folder: Path, **fit):
    """The task and its run."""
    task = get_task("tag")
    return task, task.config.from_dict(settings(folder, **fit))


class FakeTraining:
    """Stands in for `tasks.run.train`; `scores(config)` gives the score after each epoch."""

    def __init__(self, scores, fails_at: int | None = None) -> None:
        self.scores, self.fails_at = scores, fails_at
        self.calls: list[tuple[str, bool]] = []

    def __call__(self, task, config, *, resume=False):
        self.calls.append((Path(config.run_dir).name, resume))
        place, scores = Path(config.run_dir), self.scores(config)
        place.mkdir(parents=True, exist_ok=True)
        (place / "run.json").write_text(json.dumps(config.to_dict()))
        if len(self.calls) == self.fails_at:
            raise RuntimeError("the power is out")
        log = [json.dumps({"epoch": n, "accuracy": x}) for n, x in enumerate(scores, 1)]
        (place / "log.jsonl").write_text("\n".join(log) + "\n")
        results = {
            "metric": "accuracy",
            "score": max(scores),
            "best_epoch": scores.index(max(scores)) + 1,
            "epochs": len(scores),
            "mixes": {},
            "train": {"examples": config.data.max_train or 20},
            "config": config.to_dict(),
        }
        (place / "results.json").write_text(json.dumps(results))
        (place / "checkpoint.pt").write_bytes(b"large")
        return results

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]
