"""One contender of the training benchmark, in a process and with an interpreter of its own.

It answers requests on standard input, one JSON object a line, with one line on standard output:

    {"request": "load", "contender": ..., "run": {...}}   -> {"versions": {...}}
    {"request": "step", "num_steps": ...}  -> {"seconds": [...], "cpu_seconds": [...],
                                               "parameters": ..., "peak_mib": ...}
    {"request": "train", "num_steps": ...} -> {"seconds": ..., "model": folder}

A process steps, or trains once. What the libraries print is dropped. This file imports nothing
beyond the standard library until a contender is loaded, as the two interpreters have little in
common.
"""

import json
import os
import random
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Protocol, TextIO

from serving import peak_mib, versions_of

MAX_CHARACTERS, CHARACTER_DIM = 50, 16
NUM_LAYERS, CLIP = 2, 3.0
LEARNING_RATE, CLIP_NORM = 0.2, 10.0
ENDLESS = 10**9
"""Steps that no benchmark makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a contender is to train, all of it alike for both."""

    text: str
    """A file with a sentence a line."""
    vocabulary: str
    folder: str
    """An empty folder for what the contender writes."""
    num_words: int
    """Words of the vocabulary."""
    filters: list[tuple[int, int]]
    num_highway: int
    cell_dim: int
    projection_dim: int
    batch_size: int
    window: int
    num_negatives: int
    dropout: float
    softmax_init: str
    """elmokit's objective.softmax_init; simple-elmo has bilm-tf's alone."""
    seed: int
    num_threads: int
    device: str = "cpu"
    """elmokit's; simple-elmo has another way to choose one."""
    precision: str = "fp32"
    """elmokit's."""


class Contender(Protocol):
    """A library that trains biLMs."""

    packages: tuple[str, ...]

    def step(self, steps: Iterable[None]) -> None:
        """Make a training step, and all that leads to it, for each item."""
        ...

    def train(self, num_steps: int) -> Path:
        """Make so many steps and return the folder of the trained model."""
        ...

    def num_parameters(self) -> int:
        """Return how many numbers are learnt."""
        ...


class SimpleElmo:
    """simple-elmo's `train` as it is, checkpoints and summaries included."""

    packages: tuple[str, ...] = ("simple-elmo", "tensorflow-cpu", "numpy")

    def __init__(self, run: Run) -> None:
        threads = str(run.num_threads)
        os.environ |= {
            "TF_NUM_INTRAOP_THREADS": threads,
            "TF_NUM_INTEROP_THREADS": threads,
            "TF_CPP_MIN_LOG_LEVEL": "2",
        }
        import tensorflow as tf
        from simple_elmo import data, training

        tf.get_logger().setLevel("ERROR")
        tf.compat.v1.disable_eager_execution()
        tf.compat.v1.disable_resource_variables()
        tf.compat.v1.set_random_seed(run.seed)
        random.seed(run.seed)  # the order of the text
        self._run, self._tf, self._train = run, tf, training.train
        words = training.load_vocab(run.vocabulary, MAX_CHARACTERS)
        self._data = data.BidirectionalLMDataset(run.text, words, shuffle_on_load=True)

    def step(self, steps: Iterable[None]) -> None:
        """Hold its loop back at the batches: it gets one for each item."""
        self._start(PacedBatches(self._data, steps), ENDLESS)

    def train(self, num_steps: int) -> Path:
        """Let its loop run to the end, where it writes a checkpoint."""
        folder = self._start(self._data, num_steps)
        shutil.copy(self._run.vocabulary, folder / "vocab.txt")
        return folder

    def num_parameters(self) -> int:
        """Count what its graph holds."""
        variables = self._tf.compat.v1.trainable_variables()
        return sum(variable.shape.num_elements() for variable in variables)

    def _start(self, batches: Any, num_steps: int) -> Path:
        model, log = (Path(self._run.folder) / name for name in ("model", "log"))
        model.mkdir()
        self._train(self._options(num_steps), batches, 1, str(model), str(log))
        return model

    def _options(self, num_steps: int) -> dict[str, Any]:
        run = self._run
        return {
            "bidirectional": True,
            "char_cnn": {
                "activation": "relu",
                "embedding": {"dim": CHARACTER_DIM},
                "filters": run.filters,
                "max_characters_per_token": MAX_CHARACTERS,
                "n_characters": 261,
                "n_highway": run.num_highway,
            },
            "lstm": {
                "cell_clip": CLIP,
                "dim": run.cell_dim,
                "n_layers": NUM_LAYERS,
                "proj_clip": CLIP,
                "projection_dim": run.projection_dim,
                "use_skip_connections": True,
            },
            "dropout": run.dropout,
            "all_clip_norm_val": CLIP_NORM,
            "learning_rate": LEARNING_RATE,
            "batch_size": run.batch_size,
            "unroll_steps": run.window,
            "n_negative_samples_batch": run.num_negatives,
            "n_tokens_vocab": run.num_words,
            "n_epochs": 1,
            "n_train_tokens": num_steps * run.batch_size * run.window,
        }


class PacedBatches:
    """A data set for simple-elmo that makes a batch for each item of an iterable."""

    def __init__(self, data: Any, steps: Iterable[None]) -> None:
        self._data, self._steps = data, steps

    def iter_batches(self, batch_size: int, num_steps: int) -> Iterator[dict[str, Any]]:
        """Yield batches as the data set does; the trainer asks for one once a step is done."""
        batches = self._data.iter_batches(batch_size, num_steps)
        for _ in self._steps:
            yield next(batches)


class Elmokit:
    """elmokit's Trainer."""

    packages: tuple[str, ...] = ("elmokit", "torch", "numpy")

    def __init__(self, run: Run) -> None:
        import torch

        from elmokit.training.build import build
        from elmokit.training.config import TrainConfig
        from elmokit.training.corpus import prepare
        from elmokit.training.distributed import joined
        from elmokit.training.trainer import Trainer
        from elmokit.training.vocabulary import read_vocabulary

        torch.set_num_threads(run.num_threads)
        config = TrainConfig.from_dict(self._settings(run))
        self._folder = Path(run.folder)
        vocabulary = read_vocabulary(Path(run.vocabulary))
        self._stack = ExitStack()  # the processes part when this one ends
        processes = self._stack.enter_context(joined(run.device))
        prepared = self._folder / f"corpus-{processes.rank}"
        corpus = prepare(config.data.train, vocabulary, prepared)
        self._trainer = Trainer(config, build(config, corpus, None), corpus, processes)

    def step(self, steps: Iterable[None]) -> None:
        """Advance for each item."""
        for _ in steps:
            self._trainer.advance()

    def train(self, num_steps: int) -> Path:
        """Advance, then write the model."""
        self.step([None] * num_steps)
        self._trainer.bilm.save_pretrained(self._folder / "model")
        return self._folder / "model"

    @property
    def model_config(self) -> Any:
        """The configuration of the network."""
        return self._trainer.bilm.config

    def num_parameters(self) -> int:
        """Count without the character that means nothing, which learns nothing."""
        return sum(p.numel() for p in self._trainer.bilm.parameters()) - CHARACTER_DIM

    def _settings(self, run: Run) -> dict[str, Any]:
        return {
            "run_dir": run.folder,
            "data": {"train": [run.text], "vocabulary": run.vocabulary},
            "model": {
                "max_characters": MAX_CHARACTERS,
                "character_dim": CHARACTER_DIM,
                "filters": run.filters,
                "num_highway": run.num_highway,
                "num_layers": NUM_LAYERS,
                "cell_dim": run.cell_dim,
                "projection_dim": run.projection_dim,
                "cell_clip": CLIP,
                "projection_clip": CLIP,
            },
            "objective": {
                "num_negatives": run.num_negatives,
                "dropout": run.dropout,
                "softmax_init": run.softmax_init,
            },
            "optimizer": {"learning_rate": LEARNING_RATE, "clip_norm": CLIP_NORM},
            "schedule": {"batch_size": run.batch_size, "window": run.window},
            "seed": run.seed,
            "device": run.device,
            "precision": run.precision,
        }


CONTENDERS: dict[str, type[SimpleElmo] | type[Elmokit]] = {
    "simple-elmo": SimpleElmo,
    "elmokit": Elmokit,
}


def serve(requests: TextIO, replies: TextIO) -> None:
    """Load a contender, then answer until there are no more requests."""
    request = json.loads(requests.readline())
    contender = CONTENDERS[request["contender"]](Run(**request["run"]))
    print(json.dumps({"versions": versions_of(contender.packages)}), file=replies, flush=True)
    for line in requests:
        request = json.loads(line)
        if request["request"] == "step":
            contender.step(paced_steps(contender, chain([line], requests), replies))
        else:
            began = perf_counter()
            model = contender.train(request["num_steps"])
            seconds = perf_counter() - began
            reply = {"seconds": seconds, "model": str(model)}
            print(json.dumps(reply), file=replies, flush=True)


def paced_steps(contender: Contender, requests: Iterable[str], replies: TextIO) -> Iterator[None]:
    """Yield once for each step that is wanted, and answer a request when its steps are made."""
    for line in requests:
        seconds, cpu_seconds = [], []
        for _ in range(json.loads(line)["num_steps"]):
            began, cpu_began = perf_counter(), process_time()
            yield
            seconds.append(perf_counter() - began)
            cpu_seconds.append(process_time() - cpu_began)
        reply = {
            "seconds": seconds,
            "cpu_seconds": cpu_seconds,
            "parameters": contender.num_parameters(),
            "peak_mib": peak_mib(),
        }
        print(json.dumps(reply), file=replies, flush=True)


def _claim_standard_output() -> TextIO:
    """Return the standard output and drop what others print there."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return replies


if __name__ == "__main__":
    with _claim_standard_output() as channel:
        serve(sys.stdin, channel)
