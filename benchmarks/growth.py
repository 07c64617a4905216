"""Check that four times the text takes four times the time and no more memory.

Usage: python benchmarks/growth.py [--num-sentences 5000] [--output results.json]
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import tyro

from lineup import working_folder
from machine import describe_machine
from report import make_report, print_heading, print_table, write_report
from sample_text import LINE_LENGTH

WORKER = Path(__file__).with_name("growth_worker.py")
FACTOR = 4
ALLOWED_TIME = 4.1
"""Times the seconds of the shorter text."""
ALLOWED_MEMORY = 1.05
"""Times its peak memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is measured."""

    model: str = "default"
    """What `Embedder.from_pretrained` loads."""
    num_sentences: int = 5_000
    """Lines of the shorter text, 20 made-up words each."""
    num_rounds: int = 3
    """Runs of each length, in turns, each in a process of its own."""
    num_threads: int = 2
    """Threads of each process."""
    seed: int = 1
    """Seed of the text: the longer one begins with the shorter."""
    output: Path | None = None
    """A JSON file for every number."""


def main(settings: Settings) -> None:
    """Measure, print the table and check the growth."""
    machine = describe_machine()  # before our own load
    runs: dict[int, list[dict[str, Any]]] = {
        settings.num_sentences: [],
        FACTOR * settings.num_sentences: [],
    }
    with working_folder() as folder:
        for number in range(1, settings.num_rounds + 1):
            for num_sentences, done in runs.items():
                done.append(stream(settings, num_sentences, folder / "vectors"))
            print(f"round {number} of {settings.num_rounds} done", flush=True)
    rows = [summarize(num_sentences, done) for num_sentences, done in runs.items()]
    short, long = rows
    growth = {
        "time": long["median_seconds"] / short["median_seconds"],
        "memory": long["peak_mib"] / short["peak_mib"],
    }
    packages = ("elmokit", "torch", "numpy")
    releases = {"python": platform.python_version()} | {name: version(name) for name in packages}
    report = make_report(
        settings, machine, versions={"elmokit": releases}, rows=rows, growth=growth
    )
    print_heading(report)
    print_rows(report)
    write_report(report, settings.output)
    if not growth["time"] <= ALLOWED_TIME:
        raise SystemExit(f"the time grows more than {ALLOWED_TIME} times")
    if not growth["memory"] <= ALLOWED_MEMORY:
        raise SystemExit(f"the peak memory grows more than {ALLOWED_MEMORY} times")


def stream(settings: Settings, num_sentences: int, path: Path) -> dict[str, Any]:
    """Stream so many sentences into a file, in a fresh process; the file is removed."""
    request = {
        "model": settings.model,
        "num_sentences": num_sentences,
        "seed": settings.seed,
        "path": str(path),
        "num_threads": settings.num_threads,
    }
    done = subprocess.run(
        [sys.executable, WORKER, json.dumps(request)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": str(settings.num_threads)},
    )
    path.unlink()
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def summarize(num_sentences: int, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of a length."""
    seconds = [run["seconds"] for run in runs]
    return {
        "num_sentences": num_sentences,
        "seconds": seconds,
        "median_seconds": median(seconds),
        "tokens_per_second": num_sentences * LINE_LENGTH / median(seconds),
        "peaks_mib": [run["peak_mib"] for run in runs],
        "peak_mib": max(run["peak_mib"] for run in runs),
        "bytes": runs[0]["bytes"],
    }


def print_rows(report: Mapping[str, Any]) -> None:
    """Print both lengths and what grew."""
    print(
        f"\nmodel {report['settings']['model']}, lines of {LINE_LENGTH} made-up words, all layers"
    )
    print_table(
        ["sentences", "seconds", "range", "tokens/s", "peak MiB", "file MiB"],
        (
            [
                f"{row['num_sentences']:,}",
                f"{row['median_seconds']:.2f}",
                f"{min(row['seconds']):.2f}-{max(row['seconds']):.2f}",
                f"{row['tokens_per_second']:,.0f}",
                f"{row['peak_mib']:,}",
                f"{row['bytes'] / 2**20:,.0f}",
            ]
            for row in report["rows"]
        ),
    )
    growth = report["growth"]
    print(
        f"\n{FACTOR} times the sentences: {growth['time']:.2f} times the time, "
        f"{growth['memory']:.3f} times the peak memory"
    )


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
