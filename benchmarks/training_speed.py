"""The speed of training, against simple-elmo's and against the roofline."""

import os
import random
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from statistics import mean, median
from typing import Any

from elmokit.config import BiLMConfig, CharCNNConfig, LSTMConfig
from report import print_table
from roofline import NUM_DIRECTIONS, MatrixRate, lstm_work, type_work
from training_setup import BASELINE, SPEED, WORKER, Settings, Text, make_run, new_folder
from worker import Worker

REQUIRED_SPEED = 3.3
"""Least times simple-elmo's tokens per second, by whichever processes use the cores best."""
PASSES = 3
"""Products of a step for each product of the forward pass: that, and the gradients by input and by
weight."""
NUM_SAMPLES = 5
"""Batches whose word types are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A library and how many processes of how many threads train with it."""

    library: str
    num_threads: int
    num_processes: int = 1

    @property
    def name(self) -> str:
        """What a table calls it."""
        processes = "process" if self.num_processes == 1 else "processes"
        threads = "thread" if self.num_threads == 1 else "threads"
        return f"{self.library}, {self.num_processes} {processes} of {self.num_threads} {threads}"


def entries_of(num_threads: int) -> list[Entry]:
    """Return the rows of the table: both libraries, then one process and several of one thread."""
    entries = [
        Entry(library=BASELINE, num_threads=num_threads),
        Entry(library="elmokit", num_threads=num_threads),
    ]
    if num_threads > 1:
        entries += [
            Entry(library="elmokit", num_threads=1),
            Entry(library="elmokit", num_threads=1, num_processes=num_threads),
        ]
    return entries


def measure_speed(
    settings: Settings, text: Text, pythons: Mapping[str, Path], folder: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Let the contenders make steps in turns; return the timings and the versions."""
    os.environ["OMP_WAIT_POLICY"] = "active"  # of torch alone: TensorFlow has threads of its own
    entries = entries_of(settings.num_threads)
    rate, work = MatrixRate.of([config()]), step_work(text, settings.seeds[0])
    results: dict[str, Any] = {}
    versions = {}
    with ExitStack() as stack:
        workers = []
        for entry in entries:
            python = pythons[entry.library]
            worker = stack.enter_context(
                Worker(
                    entry.name,
                    python,
                    entry.num_threads,
                    WORKER,
                    num_processes=entry.num_processes,
                )
            )
            place = new_folder(folder, entry.name)
            run = make_run(settings, SPEED, text, place, num_threads=entry.num_threads)
            reply = worker.ask("load", contender=entry.library, run=asdict(run))
            versions[entry.library] = reply["versions"]
            worker.ask("step", num_steps=settings.num_warmup)
            results[entry.name] = {"entry": asdict(entry), "rounds": [], "cpu_rounds": []}
            workers.append(worker)
        rate.measure(settings.num_threads)
        for number in range(1, settings.num_rounds + 1):
            for worker in workers:
                reply = worker.ask("step", num_steps=settings.steps_per_round)
                result = results[worker.contender]
                result["rounds"].append(reply.pop("seconds"))
                result["cpu_rounds"].append(reply.pop("cpu_seconds"))
                result |= reply
            rate.measure(settings.num_threads)
            load = os.getloadavg()[0]
            print(f"round {number} of {settings.num_rounds} done, load {load:.1f}", flush=True)
    for entry in entries:
        summarize(results, entry, work / rate.best)
    return results, versions


def summarize(results: Mapping[str, Any], entry: Entry, least_seconds: float) -> None:
    """Add to an entry's result what follows from its timings.

    Args:
        results: By name; the first one is compared with, whose own summary is made first.
        entry: Whose result.
        least_seconds: What the matrix products of a batch take at the best rate.
    """
    result = results[entry.name]
    middle = median(chain.from_iterable(result["rounds"]))
    predictions = SPEED["batch_size"] * SPEED["window"] * entry.num_processes
    result["cpu_seconds"] = median(chain.from_iterable(result["cpu_rounds"]))
    result["median_seconds"] = middle
    result["tokens_per_second"] = predictions / middle
    baseline = next(iter(results.values()))["tokens_per_second"]
    result["times_as_fast"] = result["tokens_per_second"] / baseline
    result["roofline_share"] = least_seconds * entry.num_processes / middle


def print_speed(results: Mapping[str, Any]) -> str | None:
    """Print the table in Markdown; return what is wrong with the result."""
    header = ["contender", "s a step", "range", "CPU s", "tokens/s", "times simple-elmo's"]
    rows = []
    for name, result in results.items():
        seconds = list(chain.from_iterable(result["rounds"]))
        rows.append(
            [
                name,
                f"{result['median_seconds']:.2f}",
                f"{min(seconds):.2f}-{max(seconds):.2f}",
                f"{result['cpu_seconds']:.2f}",
                f"{result['tokens_per_second']:,.0f}",
                f"{result['times_as_fast']:.2f}",
                f"{result['roofline_share']:.0%}",
                f"{result['peak_mib']:,}",
            ]
        )
    print_table([*header, "of the roofline", "peak MiB"], rows)
    baseline, ours, *scaling = results.values()
    pairs = zip(baseline["rounds"], ours["rounds"], strict=True)
    ratios = [median(theirs) / median(own) for theirs, own in pairs]
    print(f"\nratio in each round: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
    if scaling:
        alone, together = (result["tokens_per_second"] for result in scaling)
        count = scaling[1]["entry"]["num_processes"]
        print(f"{count} processes read {together / alone:.2f} times as many tokens as one")
    sizes = {result["parameters"] for result in results.values()}
    if len(sizes) > 1:
        return f"the models differ: {sorted(sizes)} parameters"
    best = max(result["times_as_fast"] for result in (ours, *scaling))
    if not best >= REQUIRED_SPEED:
        return f"elmokit is less than {REQUIRED_SPEED} times as fast, however many processes it has"
    return None


def config() -> BiLMConfig:
    """Return the shape of the model that is trained."""
    return BiLMConfig(
        lstm=LSTMConfig(cell_dim=SPEED["cell_dim"], projection_dim=SPEED["projection_dim"]),
        characters=CharCNNConfig(
            num_characters=261,
            filters=tuple(SPEED["filters"]),
            num_highway=SPEED["num_highway"],
        ),
    )


def step_work(text: Text, seed: int) -> float:
    """Return the operations of a step: LSTMs, word types, sampled softmax, forward and back."""
    model, rows, window = config(), SPEED["batch_size"], SPEED["window"]
    lstm = rows * window * lstm_work(model)
    words = 1 + SPEED["num_negatives"]
    logits = 2.0 * NUM_DIRECTIONS * rows * window * words * SPEED["projection_dim"]
    types = mean(
        sum(type_work(model, word) for word in distinct)
        for distinct in sampled_types(text, rows, window, seed)
    )
    return float(PASSES * (lstm + logits + types))


def sampled_types(text: Text, rows: int, window: int, seed: int) -> Sequence[set[str]]:
    """Return the distinct words of batches of windows, from random places of the text."""
    tokens = text.train.read_text(encoding="utf-8").split()
    generator = random.Random(seed)
    batches = []
    for _ in range(NUM_SAMPLES):
        starts = [generator.randrange(len(tokens)) for _ in range(rows)]
        batches.append({word for start in starts for word in tokens[start : start + window]})
    return batches
