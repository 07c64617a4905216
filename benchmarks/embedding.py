"""Compare how fast elmokit and AllenNLP 2.10.1 embed text on a CPU, and that they agree.

Usage: python benchmarks/embedding.py [--size original|small] [--output results.json]
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Literal, Self

import numpy as np
import tyro

from allennlp_environment import DEFAULT_FOLDER, ensure_environment
from machine import describe_machine
from random_checkpoint import SIZES, write_checkpoint
from sample_text import TREEBANK, Sentences, Text, load_text

TOLERANCE = 1e-3
"""The largest difference between two vectors that still counts as rounding."""
BASELINE = "allennlp"
WORKER = Path(__file__).with_name("embedding_worker.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is measured."""

    size: Literal["original", "small"] = "original"
    """Size of the random checkpoint: the paper's, or the smallest published one's."""
    only: Literal["allennlp", "elmokit"] | None = None
    """Run one contender alone; nothing is compared then."""
    num_rounds: int = 3
    """Timed passes of each contender, in turns."""
    num_sentences: int = 256
    """Sentences taken from the beginning of the text."""
    batch_size: int = 32
    """Sentences in a batch of AllenNLP."""
    num_threads: int = 2
    """Threads of each contender."""
    seed: int = 1
    """Seed of the weights, and of the text where it is synthetic."""
    text: Path = TREEBANK
    """A CoNLL-U file; where it is absent, synthetic text takes its place."""
    environment: Path = DEFAULT_FOLDER
    """Where AllenNLP's virtual environment is, or is to be built."""
    output: Path | None = None
    """A JSON file for every number."""


@dataclass(slots=True, kw_only=True)
class Measurement:
    """What one contender needed."""

    contender: str
    versions: dict[str, str]
    peak_mib: int = 0
    seconds: dict[str, list[float]] = field(default_factory=dict)
    """One entry a row of the table, one number a round; the first row is the one compared."""

    def add(self, reply: Mapping[str, Any]) -> None:
        """Take in the worker's reply to a timed pass."""
        self.peak_mib = reply["peak_mib"]
        for row, seconds in reply["seconds"].items():
            self.seconds.setdefault(row, []).append(seconds)


class Worker:
    """A contender's process."""

    def __init__(
        self, contender: str, python: Path, num_threads: int, script: Path = WORKER
    ) -> None:
        self.contender = contender
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(num_threads))
        self._process = subprocess.Popen(
            [python, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env=os.environ | threads | {"CUDA_VISIBLE_DEVICES": ""},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, request: str, **arguments: object) -> dict[str, Any]:
        """Send a request and wait for its reply."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({"request": request} | arguments)
        print(line, file=self._process.stdin, flush=True)
        reply = self._process.stdout.readline()
        if not reply:
            self._process.wait()  # for the rest of its error message
            raise RuntimeError(f"the worker of {self.contender} has failed; its error is above")
        answer: dict[str, Any] = json.loads(reply)
        return answer


def main(settings: Settings) -> None:
    """Measure, print the table and check that the vectors agree."""
    text = load_text(settings.text, settings.num_sentences, settings.seed)
    print(text.describe(), flush=True)
    machine = describe_machine()  # before our own load
    measurements, difference = measure(settings, text.sentences)
    report = {"machine": machine} | make_report(settings, text, measurements, difference)
    print_report(report, measurements)
    if settings.output is not None:
        settings.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if difference is not None and not difference < TOLERANCE:  # said so, NaN fails too
        raise SystemExit(f"the vectors differ by {difference:.1e}, more than {TOLERANCE:.0e}")


def measure(settings: Settings, sentences: Sentences) -> tuple[list[Measurement], float | None]:
    """Run all rounds and return the timings and the largest difference between the vectors."""
    with working_folder() as folder, workers(settings, folder) as (processes, measurements):
        for process in processes:  # one short pass to warm up
            process.ask("embed", sentences=sentences[: settings.batch_size], save_to=None)
        saved = [folder / f"{process.contender}.npz" for process in processes]
        for round_number in range(1, settings.num_rounds + 1):
            is_last = round_number == settings.num_rounds
            for process, measurement, path in zip(processes, measurements, saved, strict=True):
                save_to = str(path) if is_last else None
                measurement.add(process.ask("embed", sentences=sentences, save_to=save_to))
            print(f"round {round_number} of {settings.num_rounds} done", flush=True)
        return measurements, largest_difference(*saved) if len(saved) > 1 else None


@contextmanager
def working_folder() -> Iterator[Path]:
    """Make a folder for one run's checkpoint and vectors, beside AllenNLP's environment."""
    DEFAULT_FOLDER.parent.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=DEFAULT_FOLDER.parent) as folder:
        yield Path(folder)


@contextmanager
def workers(settings: Settings, folder: Path) -> Iterator[tuple[list[Worker], list[Measurement]]]:
    """Start a process for each contender and load the same new checkpoint in all of them."""
    pythons = interpreters(settings)
    options, weights = write_checkpoint(folder, SIZES[settings.size], settings.seed)
    with ExitStack() as stack:
        processes, measurements = [], []
        for contender, python in pythons.items():
            process = stack.enter_context(Worker(contender, python, settings.num_threads))
            versions = process.ask(
                "load",
                contender=contender,
                options=str(options),
                weights=str(weights),
                num_threads=settings.num_threads,
                batch_size=settings.batch_size,
            )["versions"]
            processes.append(process)
            measurements.append(Measurement(contender=contender, versions=versions))
        yield processes, measurements


def interpreters(settings: Settings) -> dict[str, Path]:
    """Return the interpreter of each contender that takes part, the baseline first."""
    pythons = {}
    if settings.only != "elmokit":
        pythons["allennlp"] = ensure_environment(settings.environment)
    if settings.only != "allennlp":
        pythons["elmokit"] = Path(sys.executable)
    return pythons


def largest_difference(path: Path, other_path: Path) -> float:
    """Return the largest absolute difference between two saved lists of vectors."""
    with np.load(path) as vectors, np.load(other_path) as others:
        if vectors.files != others.files:
            raise SystemExit(f"{len(vectors.files)} sentences and {len(others.files)} came back")
        differences = [_difference(vectors[key], others[key]) for key in vectors.files]
    return float(np.max(differences))


def _difference(vectors: np.ndarray, others: np.ndarray) -> float:
    if vectors.shape != others.shape:
        raise SystemExit(f"a sentence has shapes {vectors.shape} and {others.shape}")
    return float(np.abs(vectors - others).max(initial=0.0))


def make_report(
    settings: Settings, text: Text, measurements: Sequence[Measurement], difference: float | None
) -> dict[str, Any]:
    """Return everything there is to say about a run, ready for JSON."""
    ours = asdict(settings)
    del ours["text"], ours["environment"], ours["output"]  # paths say nothing elsewhere
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "settings": ours,
        "text": {"source": text.source, "tokens": text.num_tokens, "types": text.num_types},
        "contenders": [asdict(measurement) for measurement in measurements],
        "rows": table_rows(measurements, text.num_tokens),
        "largest_difference": difference,
    }


def table_rows(measurements: Sequence[Measurement], num_tokens: int) -> list[dict[str, Any]]:
    """Return the lines of the table: a contender's whole pass, then its other timings."""
    timings = [
        (measurement, name, seconds)
        for measurement in measurements
        for name, seconds in measurement.seconds.items()
    ]
    has_baseline = measurements[0].contender == BASELINE
    baseline = median(timings[0][2]) if has_baseline else None
    return [
        {
            "name": f"{measurement.contender}, {name}",
            "median_seconds": median(seconds),
            "fastest_seconds": min(seconds),
            "slowest_seconds": max(seconds),
            "tokens_per_second": num_tokens / median(seconds),
            "times_as_fast": None if baseline is None else baseline / median(seconds),
            "peak_mib": measurement.peak_mib,
        }
        for measurement, name, seconds in timings
    ]


def print_report(report: Mapping[str, Any], measurements: Sequence[Measurement]) -> None:
    """Print the table in Markdown, with what it was measured on."""
    settings, machine = report["settings"], report["machine"]
    print(
        f"\n{report['date']}, {machine['processor']}, {settings['num_threads']} threads of "
        f"{machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, "
        f"load {machine['load']} before; size {settings['size']}, "
        f"median of {settings['num_rounds']} rounds"
    )
    for measurement in measurements:
        print(", ".join(f"{name} {number}" for name, number in measurement.versions.items()))
    print("\n| contender | seconds | range | tokens/s | times AllenNLP's speed | peak MiB |")
    print("|---|---:|---:|---:|---:|---:|")
    for row in report["rows"]:
        ratio = "" if row["times_as_fast"] is None else f"{row['times_as_fast']:.2f}"
        print(
            f"| {row['name']} | {row['median_seconds']:.2f} "
            f"| {row['fastest_seconds']:.2f}-{row['slowest_seconds']:.2f} "
            f"| {row['tokens_per_second']:,.0f} | {ratio} | {row['peak_mib']:,} |"
        )
    if report["largest_difference"] is not None:
        print(f"\nlargest difference between the vectors: {report['largest_difference']:.1e}")


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
