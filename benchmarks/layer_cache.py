"""Measure what it saves to compute the layers of a frozen biLM once for all epochs of a task.

Usage: python benchmarks/layer_cache.py [--size original] [--output results.json]
"""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, Literal

import tyro

from elmokit.tasks.registry import get_task
from elmokit.tasks.run import train
from lineup import working_folder
from machine import describe_machine
from random_checkpoint import SIZES, write_checkpoint
from report import make_report, print_heading, print_table, write_report
from sample_text import REPOSITORY

REQUIRED_SPEED = 5.0
"""Least times that an epoch with kept layers is as fast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is measured."""

    size: Literal["small", "original"] = "original"
    """Of the biLM, whose weights are random: they do not matter to the speed."""
    data: Path = REPOSITORY / "examples/data/names-train.conll"
    """Sentences with names, in columns."""
    epochs: int = 4
    """Of each run; the cache is filled before the first."""
    num_threads: int = 2
    """Threads of each run."""
    output: Path | None = None
    """A JSON file for every number."""


def main(settings: Settings) -> None:
    """Train with and without the cache, print the table and check the ratio."""
    machine = describe_machine()  # before our own load
    with working_folder() as folder:
        model = folder / "model"
        model.mkdir()
        write_checkpoint(model, SIZES[settings.size], seed=1)
        rows = [measure(settings, folder, model, use=use) for use in (False, True)]
    ratio = rows[0]["median_seconds"] / rows[1]["median_seconds"]
    releases = {"python": platform.python_version()} | {
        name: version(name) for name in ("elmokit", "torch")
    }
    report = make_report(settings, machine, versions={"elmokit": releases}, rows=rows, ratio=ratio)
    print_heading(report)
    print_rows(report)
    write_report(report, settings.output)
    if not ratio >= REQUIRED_SPEED:
        raise SystemExit(f"an epoch with kept layers is less than {REQUIRED_SPEED} times as fast")


def measure(settings: Settings, folder: Path, model: Path, *, use: bool) -> dict[str, Any]:
    """Train a tagger and return what its epochs took."""
    task = get_task("ner")
    config = task.config.from_dict(
        {
            "run_dir": str(folder / f"run-{use}"),
            "data": {"train": str(settings.data), "dev": str(settings.data)},
            "elmo": {"model": str(model), "at": "input"},
            "cache": {"use": use},
            "fit": {"epochs": settings.epochs, "patience": settings.epochs, "batch_size": 16},
            "device": "cpu",
            "threads": settings.num_threads,
        }
    )
    results = train(task, config)
    return {"cache": use, "seconds": results["seconds"]} | {
        "median_seconds": median(results["seconds"])
    }


def print_rows(report: Mapping[str, Any]) -> None:
    """Print both runs and their ratio."""
    print(f"\nbiLM {report['settings']['size']}, task ner, ELMo at the input")
    print_table(
        ["layers", "seconds an epoch", "range"],
        (
            [
                "kept" if row["cache"] else "computed in each epoch",
                f"{row['median_seconds']:.2f}",
                f"{min(row['seconds']):.2f}-{max(row['seconds']):.2f}",
            ]
            for row in report["rows"]
        ),
    )
    print(f"\nan epoch with kept layers is {report['ratio']:.1f} times as fast")


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
