"""Measure how long one short sentence and the first import take, beside other libraries.

Usage: python benchmarks/latency.py [--precisions fp32 int8] [--output results.json]
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import tyro

from environments import DEFAULT_FOLDER
from lineup import (
    LIBRARIES,
    Library,
    Running,
    entries_of,
    interpreters,
    running,
    working_folder,
)
from machine import describe_machine
from models import write_model
from report import make_report, print_heading, print_table, write_report
from sample_text import TREEBANK, iterate_sentences, read_conllu

NUM_WORDS = 15
REQUIRED_LATENCY = 0.010
"""Seconds for one sentence through the default model, in float32, its words met before."""
REQUIRED_IMPORT = 0.3
"""Seconds that elmokit may add to the import of torch, until its Embedder is there."""
IMPORT = """
import json
from time import perf_counter
marks = [perf_counter()]
import torch
marks.append(perf_counter())
import elmokit
marks.append(perf_counter())
elmokit.Embedder
marks.append(perf_counter())
print(json.dumps(marks))
"""
STEPS = ("import torch", "import elmokit", "elmokit.Embedder")
"""What takes the time from one mark of `IMPORT` to the next; names load when first used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is measured."""

    libraries: tuple[Library, ...] = LIBRARIES
    """Libraries that take part."""
    precisions: tuple[str, ...] = ("fp32",)
    """elmokit's; one that this version does not know is named and left out."""
    num_warmup: int = 20
    """Calls of each contender before the first turn."""
    num_rounds: int = 5
    """Turns of each contender."""
    num_calls: int = 50
    """Timed calls of a turn."""
    num_imports: int = 10
    """Fresh interpreters in which the import is timed."""
    num_threads: int = 2
    """Threads of each contender."""
    seed: int = 1
    """Seed of the sentence where the treebank is absent."""
    treebank: Path = TREEBANK
    """A CoNLL-U file; its first sentence of 15 words is taken."""
    environments: Path = DEFAULT_FOLDER
    """Where the other libraries' virtual environments are, or are to be built."""
    output: Path | None = None
    """A JSON file for every number."""


def main(settings: Settings) -> None:
    """Measure, print the tables and check the numbers against what is required."""
    machine = describe_machine()  # before our own load
    imports = measure_imports(settings.num_imports)
    entries = entries_of("default", settings.libraries, (1,), settings.precisions)
    pythons = interpreters(entries, settings.environments)
    with working_folder() as folder:
        model = write_model("default", folder, settings.seed)
        with running(entries, pythons, model, settings.num_threads) as contenders:
            versions = {one.entry.library: one.versions for one in contenders}
            source, sentence = choose_sentence(settings)
            rows = measure_calls(settings, contenders, sentence)
    report = make_report(
        settings, machine, versions=versions, imports=imports, text=source, rows=rows
    )
    print_heading(report)
    print_rows(report)
    print_imports(imports)
    write_report(report, settings.output)
    check(rows, imports)


def choose_sentence(settings: Settings) -> tuple[str, list[str]]:
    """Return where a sentence of 15 words is from, and the sentence."""
    if settings.treebank.exists():
        for sentence in read_conllu(settings.treebank):
            if len(sentence) == NUM_WORDS:
                return settings.treebank.name, sentence
    return "synthetic text", next(iterate_sentences(settings.seed, NUM_WORDS))


def measure_calls(
    settings: Settings, contenders: Sequence[Running], sentence: list[str]
) -> list[dict[str, Any]]:
    """Let the contenders embed the sentence in turns; return a row for each kind of call."""
    seconds: dict[tuple[str, str], list[float]] = {}
    for one in contenders:
        one.worker.ask("repeat", sentences=[sentence], num_calls=settings.num_warmup)
    for number in range(1, settings.num_rounds + 1):
        for one in contenders:
            reply = one.worker.ask("repeat", sentences=[sentence], num_calls=settings.num_calls)
            for row, times in reply["seconds"].items():
                seconds.setdefault((one.entry.name, row), []).extend(times)
        print(f"round {number} of {settings.num_rounds} done", flush=True)
    entries = {one.entry.name: one.entry for one in contenders}
    return [
        {
            "name": name,
            "row": row,
            "entry": asdict(entries[name]),
            "median_seconds": median(times),
            "percentile_95": quantiles(times, n=20)[-1],
            "fastest_seconds": min(times),
            "num_calls": len(times),
        }
        for (name, row), times in seconds.items()
    ]


def measure_imports(num_imports: int) -> dict[str, list[float]]:
    """Time the steps of the import in fresh interpreters, after one that fills the disk cache."""
    steps: dict[str, list[float]] = {step: [] for step in STEPS}
    for number in range(num_imports + 1):
        done = subprocess.run(
            [sys.executable, "-c", IMPORT], check=True, capture_output=True, text=True
        )
        marks = json.loads(done.stdout)
        if number > 0:
            for step, begin, end in zip(STEPS, marks[:-1], marks[1:], strict=True):
                steps[step].append(end - begin)
    return steps


def print_rows(report: Mapping[str, Any]) -> None:
    """Print how long a call takes, and the ratio to the contender's that is the target's."""
    rows = report["rows"]
    print(f"\none sentence of {NUM_WORDS} words ({report['text']}), model default")
    ours = next((row["median_seconds"] for row in rows if is_target(row)), None)
    header = ["contender", "words", "median ms", "95 % ms", "fastest ms", "times elmokit's"]
    print_table(
        header,
        (
            [
                row["name"],
                {"cold": "new", "warm": "known"}[row["row"]],
                f"{1e3 * row['median_seconds']:.2f}",
                f"{1e3 * row['percentile_95']:.2f}",
                f"{1e3 * row['fastest_seconds']:.2f}",
                "" if ours is None else f"{row['median_seconds'] / ours:.2f}",
            ]
            for row in rows
        ),
    )


def print_imports(imports: Mapping[str, Sequence[float]]) -> None:
    """Print how long the steps of the import take."""
    base = median(imports[STEPS[0]])
    print_table(
        ["step", "median s", "range", "of torch's"],
        (
            [
                f"`{step}`",
                f"{median(times):.3f}",
                f"{min(times):.3f}-{max(times):.3f}",
                f"{median(times) / base:.2f}",
            ]
            for step, times in imports.items()
        ),
    )


def is_target(row: Mapping[str, Any]) -> bool:
    """Tell whether a row is the one that a requirement is made of."""
    entry = row["entry"]
    return (entry["library"], entry["precision"], row["row"]) == ("elmokit", "fp32", "warm")


def check(rows: Sequence[Mapping[str, Any]], imports: Mapping[str, Sequence[float]]) -> None:
    """Fail where a requirement is not met."""
    for row in rows:
        if is_target(row) and not row["median_seconds"] < REQUIRED_LATENCY:
            raise SystemExit(f"one sentence takes more than {1e3 * REQUIRED_LATENCY:.0f} ms")
    added = sum(median(imports[step]) for step in STEPS[1:])
    if not added < REQUIRED_IMPORT:
        raise SystemExit(f"elmokit adds {added:.2f} s to the import, {REQUIRED_IMPORT} s at most")


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
