"""Compare how fast ELMo libraries and a small transformer embed text on a CPU, and that they agree.

Usage: python benchmarks/embedding.py [--models small original default manylangs]
    [--texts ewt synthetic] [--precisions fp32 bf16] [--output results.json]
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import tyro

from agreement import Agreement, compare
from environments import DEFAULT_FOLDER
from lineup import (
    LIBRARIES,
    NOT_ELMO,
    OURS,
    Entry,
    Library,
    Running,
    entries_of,
    interpreters,
    running,
    working_folder,
)
from machine import describe_machine
from models import MODELS, Model, ModelName, write_model
from report import make_report, print_heading, print_table, write_report
from roofline import MatrixRate, Work, work_of
from sample_text import TEXTS, TREEBANK, Text, TextName, load_text

TOLERANCE = 1e-3
"""The largest difference between two vectors in float32 that still counts as rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is measured."""

    models: tuple[ModelName, ...] = MODELS
    """Models to run."""
    texts: tuple[TextName, ...] = TEXTS
    """Texts to embed with each."""
    libraries: tuple[Library, ...] = LIBRARIES
    """Libraries that take part, where they read the model."""
    precisions: tuple[str, ...] = ("fp32",)
    """elmokit's; one that this version does not know is named and left out."""
    batch_sizes: tuple[int, ...] = (32, 64)
    """Sentences in a batch of AllenNLP and ELMoForManyLangs; the first is that of the others."""
    num_rounds: int = 3
    """Timed passes of each contender, in turns."""
    num_sentences: int = 256
    """Sentences taken from the beginning of each text."""
    num_threads: int = 2
    """Threads of each contender."""
    seed: int = 1
    """Seed of the weights and of the synthetic text."""
    treebank: Path = TREEBANK
    """The CoNLL-U file of the text ewt; synthetic sentences take its place if it is absent."""
    environments: Path = DEFAULT_FOLDER
    """Where the other libraries' virtual environments are, or are to be built."""
    output: Path | None = None
    """A JSON file for every number."""


@dataclass(slots=True, kw_only=True)
class Measurement:
    """What one contender needed."""

    entry: Entry
    seconds: dict[str, list[float]] = field(default_factory=dict)
    """By row, cold or warm, one number a round."""
    peak_mib: int = 0
    agreement: Agreement | None = None
    """With the first contender's vectors; None for that itself."""

    def add(self, reply: Mapping[str, Any]) -> None:
        """Take in the worker's reply to a timed pass."""
        self.peak_mib = reply["peak_mib"]
        for row, seconds in reply["seconds"].items():
            self.seconds.setdefault(row, []).append(seconds)


def main(settings: Settings) -> None:
    """Measure, print the tables and check that the vectors agree."""
    machine = describe_machine()  # before our own load
    texts = [
        load_text(name, settings.num_sentences, settings.seed, treebank=settings.treebank)
        for name in settings.texts
    ]
    results: list[dict[str, Any]] = []
    versions: dict[str, dict[str, str]] = {}
    rates: dict[str, dict[str, float]] = {}
    for name in settings.models:
        entries = entries_of(name, settings.libraries, settings.batch_sizes, settings.precisions)
        pythons = interpreters(entries, settings.environments)
        with working_folder() as folder:
            model = write_model(name, folder, settings.seed)
            rate = MatrixRate.of([model.config])
            with running(entries, pythons, model, settings.num_threads) as contenders:
                versions |= {one.entry.library: one.versions for one in contenders}
                for text in texts:
                    measured = measure(settings, contenders, text, rate, folder)
                    results.append(summarize(model, text, measured, rate))
        rates[name] = rate.rates
    report = make_report(settings, machine, versions=versions, matrix_rates=rates, results=results)
    print_heading(report)
    for result in results:
        print_result(result)
    write_report(report, settings.output)
    check(results)


def measure(
    settings: Settings,
    contenders: Sequence[Running],
    text: Text,
    rate: MatrixRate,
    folder: Path,
) -> list[Measurement]:
    """Let the contenders embed a text in turns, and compare what they return."""
    measurements = [Measurement(entry=one.entry) for one in contenders]
    saved = [folder / f"{one.entry.name}.npz" for one in contenders]
    for one in contenders:  # one short pass to warm up
        one.worker.ask("embed", sentences=text.sentences[: settings.batch_sizes[0]], save_to=None)
    rate.measure(settings.num_threads)
    for number in range(1, settings.num_rounds + 1):
        is_last = number == settings.num_rounds
        for one, measurement, path in zip(contenders, measurements, saved, strict=True):
            save_to = str(path) if is_last else None
            reply = one.worker.ask("embed", sentences=text.sentences, save_to=save_to)
            measurement.add(reply)
        rate.measure(settings.num_threads)
        print(f"{text.source}: round {number} of {settings.num_rounds} done", flush=True)
    comparable = [
        (measurement, path)
        for measurement, path in zip(measurements, saved, strict=True)
        if measurement.entry.library != NOT_ELMO
    ]
    for measurement, path in comparable[1:]:
        measurement.agreement = compare(path, comparable[0][1])
    return measurements


def summarize(
    model: Model, text: Text, measurements: Sequence[Measurement], rate: MatrixRate
) -> dict[str, Any]:
    """Return the table of a model and a text."""
    work = work_of(model.config, text.sentences)
    firsts: dict[Library, float] = {}
    for measurement in measurements:
        firsts.setdefault(measurement.entry.library, median(measurement.seconds["cold"]))
    others = {library: seconds for library, seconds in firsts.items() if library != OURS}
    return {
        "model": model.name,
        "text": {"source": text.source, "tokens": text.num_tokens, "types": text.num_types},
        "description": text.describe(),
        "work": asdict(work),
        "matrix_rate": rate.best,
        "roofline": text.num_tokens * rate.best / work.total,
        "compared_with": list(others),
        "rows": [
            _row(measurement, name, seconds, text.num_tokens, others)
            | {"roofline_share": _share(measurement, name, work, rate)}
            for measurement in measurements
            for name, seconds in measurement.seconds.items()
        ],
    }


def _row(
    measurement: Measurement,
    name: str,
    seconds: Sequence[float],
    num_tokens: int,
    others: Mapping[Library, float],
) -> dict[str, Any]:
    entry, middle = measurement.entry, median(seconds)
    return {
        "name": f"{entry.name}, {name}" if len(measurement.seconds) > 1 else entry.name,
        "entry": asdict(entry),
        "seconds": list(seconds),
        "median_seconds": middle,
        "tokens_per_second": num_tokens / middle,
        "times_as_fast": {library: theirs / middle for library, theirs in others.items()},
        "peak_mib": measurement.peak_mib,
        "agreement": None if measurement.agreement is None else asdict(measurement.agreement),
    }


def _share(measurement: Measurement, name: str, work: Work, rate: MatrixRate) -> float | None:
    """Return the part of the time that the work takes at the best rate; warm, of the LSTM alone."""
    if measurement.entry.library == NOT_ELMO:
        return None
    operations = work.lstm if name == "warm" else work.total
    return operations / rate.best / median(measurement.seconds[name])


def print_result(result: Mapping[str, Any]) -> None:
    """Print the table of a model and a text."""
    print(
        f"\nmodel {result['model']}; {result['description']}; roofline "
        f"{result['roofline']:,.0f} tokens/s at {result['matrix_rate'] / 1e9:.1f} GFLOP/s"
    )
    others = result["compared_with"]
    ratios = [f"times {library}'s" for library in others]
    header = ["contender", "seconds", "range", "tokens/s", *ratios, "of the roofline"]
    print_table([*header, "difference", "least cosine", "peak MiB"], map(_cells, result["rows"]))


def _cells(row: Mapping[str, Any]) -> list[str]:
    share, agreement = row["roofline_share"], row["agreement"]
    return [
        row["name"],
        f"{row['median_seconds']:.3f}",
        f"{min(row['seconds']):.3f}-{max(row['seconds']):.3f}",
        f"{row['tokens_per_second']:,.0f}",
        *(f"{ratio:.2f}" for ratio in row["times_as_fast"].values()),
        "" if share is None else f"{share:.0%}",
        "" if agreement is None else f"{agreement['difference']:.1e}",
        "" if agreement is None else f"{agreement['least_cosine']:.4f}",
        f"{row['peak_mib']:,}",
    ]


def check(results: Sequence[Mapping[str, Any]]) -> None:
    """Fail where vectors in float32 differ by more than rounding."""
    for result in results:
        for row in result["rows"]:
            is_exact = Entry(**row["entry"]).is_exact
            if row["agreement"] is None or not is_exact:
                continue
            difference = row["agreement"]["difference"]
            if not difference < TOLERANCE:  # said so, NaN fails too
                raise SystemExit(
                    f"model {result['model']}, {row['name']}: the vectors differ by "
                    f"{difference:.1e}, more than {TOLERANCE:.0e}"
                )


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
