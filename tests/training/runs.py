"""Small training runs for the tests of training."""

import contextlib
import json
import random
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import load_file

from elmokit.training import checkpoint, pretrain
from elmokit.training.config import TrainConfig
from elmokit.training.trainer import Trainer
from elmokit.training.vocabulary import SPECIAL
from training.corpora import write_text

NAMES = [f"w{number}" for number in range(30)]

SECTIONS: dict[str, Any] = {
    "model": {
        "character_dim": 4,
        "filters": [[1, 4], [2, 4]],
        "num_highway": 1,
        "num_layers": 1,
        "cell_dim": 16,
        "projection_dim": 8,
        "max_characters": 12,
    },
    "objective": {"num_negatives": 8, "dropout": 0.1},
    "schedule": {
        "batch_size": 2,
        "window": 4,
        "accumulate": 2,
        "steps": 14,
        "evaluate_every": 5,
        "checkpoint_every": 4,
        "log_every": 1,
    },
    "device": "cpu",
    "threads": 1,
}
"""Two windows a step, 10 steps an epoch of `write_corpus`'s text."""


class Cut(BaseException):
    """A run is cut off; nothing in the program expects it."""


def write_corpus(folder: Path, *, lengths: range = range(3, 8)) -> Path:
    """Writes 24 sentences to learn from, 8 held-out ones, and their word list."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = random.Random(0)

    def sentence() -> str:
        place = generator.randrange(len(NAMES))
        words = []
        for _ in range(generator.choice(lengths)):
            words.append(NAMES[place])
            place = (3 * place + generator.choice((1, 2, 7))) % len(NAMES)
        return " ".join(words)

    write_text(folder / "train.txt", (sentence() for _ in range(24)))
    write_text(folder / "heldout.txt", (sentence() for _ in range(8)))
    write_text(folder / "vocab.txt", (*SPECIAL, *NAMES))
    return folder


def make_config(text: Path, run_dir: Path, **changes: Any) -> TrainConfig:
    """Returns a run over `write_corpus`'s text; keys of changes are `section__name` or `name`."""
    data: dict[str, Any] = {
        "run_dir": str(run_dir),
        "data": {
            "train": [str(text / "train.txt")],
            "heldout": [str(text / "heldout.txt")],
            "vocabulary": str(text / "vocab.txt"),
        },
        **{name: dict(v) if isinstance(v, dict) else v for name, v in SECTIONS.items()},
    }
    for key, value in changes.items():
        *sections, name = key.split("__")
        place = data
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = value
    return TrainConfig.from_dict(data)


def records(run_dir: Path) -> list[dict[str, Any]]:
    """Returns the lines of the log, without what a clock decides."""
    lines = [json.loads(line) for line in (run_dir / "log.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("tokens_per_second", None)
    return lines


def saved(run_dir: Path) -> dict[str, Any]:
    """Returns what the checkpoint holds, but for the settings."""
    content = torch.load(run_dir / checkpoint.CHECKPOINT, weights_only=True)
    del content["config"]
    return content


def models(run_dir: Path) -> dict[str, torch.Tensor]:
    """Returns the tensors of the models of a run."""
    return {
        f"{path.parent.name}/{name}": tensor
        for path in sorted(run_dir.glob("*/model.safetensors"))
        for name, tensor in load_file(path).items()
    }


def assert_same(found: Any, expected: Any, where: str = "") -> None:
    """Checks nested values for equality, tensors bit for bit."""
    assert type(found) is type(expected), where
    if isinstance(expected, torch.Tensor):
        assert torch.equal(found, expected), where
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key in expected:
            assert_same(found[key], expected[key], f"{where}/{key}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), where
        for number, pair in enumerate(zip(found, expected, strict=True)):
            assert_same(*pair, f"{where}/{number}")
    else:
        assert found == expected, where


def assert_same_run(run_dir: Path, expected: Path) -> None:
    """Checks that two finished runs have the same log, state and models, bit for bit."""
    assert records(run_dir) == records(expected)
    assert_same(saved(run_dir), saved(expected))
    assert_same(models(run_dir), models(expected))


@contextlib.contextmanager
def limited_files(size: int) -> Iterator[None]:
    """Lets no file grow beyond so many bytes, as if the disk were full then."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def run_as_one_of_two(rank: int, folder: Path) -> None:
    """Trains with another process, once without a stop and once with one; keeps its weights."""
    dist.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2
    )
    torch.set_num_threads(1)
    trainers: list[Trainer] = []

    class Watched(Trainer):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            trainers.append(self)

        def advance(self) -> Any:
            if self.step == cut_at:
                raise Cut
            return super().advance()

    pretrain.Trainer = Watched  # type: ignore[misc]
    for name, dropout, cut_at in (("straight", 0, None), ("whole", 0.1, None), ("cut", 0.1, 7)):
        config = two_processes_config(folder, folder / name, objective__dropout=dropout)
        try:
            pretrain.pretrain(config)
        except Cut:
            cut_at = None
            pretrain.pretrain(config, resume=True)
        torch.save(trainers[-1].bilm.state_dict(), folder / f"{name}-{rank}.pt")
    dist.destroy_process_group()


def two_processes_config(text: Path, run_dir: Path, **changes: Any) -> TrainConfig:
    """Returns a run whose steps read the same sentences however many processes share them."""
    settings = {"schedule__steps": 16, "objective__dropout": 0.0, **changes}
    return make_config(text, run_dir, **settings)
