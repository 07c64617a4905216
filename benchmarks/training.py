"""Compare elmokit's training on a CPU with simple-elmo 0.9.2's, which is bilm-tf's: speed, quality.

Usage: python benchmarks/training.py [--quality] [--output results.json]
"""

import gzip
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
import tyro

import elmokit
from elmokit.training.vocabulary import choose_words, write_vocabulary
from embedding import Worker, working_folder
from machine import describe_machine
from sample_text import REPOSITORY, Sentences, make_sentences
from simple_elmo_environment import DEFAULT_FOLDER, ensure_environment
from training_worker import Run

CORPUS = REPOSITORY.parent / "shared/corpus/en"
WORKER = Path(__file__).with_name("training_worker.py")
BASELINE = "simple-elmo"
REQUIRED_SPEED = 3.0
"""Times simple-elmo's tokens per second."""
ALLOWED_PERPLEXITY = 1.03
"""Times simple-elmo's mean perplexity."""
SYNTHETIC_LENGTH = 20.5
"""Mean length of a made-up sentence."""

SPEED: dict[str, Any] = {
    "filters": [(1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)],
    "num_highway": 1,
    "cell_dim": 1024,
    "projection_dim": 128,
    "batch_size": 128,
    "window": 20,
    "num_negatives": 1024,
    "dropout": 0.1,
}
QUALITY: dict[str, Any] = SPEED | {
    "filters": [(1, 32), (2, 32), (3, 64)],
    "cell_dim": 256,
    "projection_dim": 64,
    "batch_size": 32,
}
CONTENDERS = (
    ("simple-elmo", "bilm-tf"),
    ("elmokit", "frequency"),
    ("elmokit", "bilm-tf"),
)
"""Library and start of the softmax: the rows of the table of perplexities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is measured."""

    quality: bool = False
    """Train small models to the end and compare their perplexity, instead of the speed."""
    num_rounds: int = 5
    """Speed: timed turns of each contender."""
    steps_per_round: int = 3
    """Speed: steps of a turn."""
    num_warmup: int = 2
    """Speed: steps before the first turn."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Quality: seeds of weights, order of the text, dropout and sampled words. Speed: the first."""
    epochs: float = 3.0
    """Quality: times that the text is read."""
    num_tokens: int = 500_000
    """Tokens to train on."""
    heldout_tokens: int = 50_000
    """Quality: tokens to measure perplexity on."""
    vocabulary_size: int = 20_000
    """Words of the softmax at most, the special ones included."""
    num_threads: int = 2
    """Threads of each contender."""
    text: Path = CORPUS
    """Folder with train-*.txt.gz and heldout.txt.gz; synthetic text takes its place if absent."""
    environment: Path = DEFAULT_FOLDER
    """Where simple-elmo's virtual environment is, or is to be built."""
    output: Path | None = None
    """A JSON file for every number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Sentences to learn from and to measure on, and the words to predict."""

    source: str
    train: Path
    vocabulary: Path
    num_words: int
    num_tokens: int
    num_sentences: int
    heldout: Sentences

    def describe(self) -> str:
        """Return one line about the text."""
        return (
            f"{self.source}: {self.num_tokens:,} tokens in {self.num_sentences:,} sentences, "
            f"{self.num_words:,} words, {sum(map(len, self.heldout)):,} tokens held out"
        )


def main(settings: Settings) -> None:
    """Measure, print the table and check the result against what is required."""
    pythons = {BASELINE: ensure_environment(settings.environment), "elmokit": Path(sys.executable)}
    machine = describe_machine()  # before our own load
    with working_folder() as folder:
        text = make_text(settings, folder)
        print(text.describe(), flush=True)
        measure, print_table = (
            (measure_quality, print_quality) if settings.quality else (measure_speed, print_speed)
        )
        results, versions = measure(settings, text, pythons, folder)
    ours = asdict(settings)
    del ours["text"], ours["environment"], ours["output"]  # paths say nothing elsewhere
    report = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine,
        "versions": versions,
        "settings": ours,
        "model": QUALITY if settings.quality else SPEED,
        "text": text.describe(),
        "results": results,
    }
    print_heading(report)
    failure = print_table(results)
    if settings.output is not None:
        settings.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if failure is not None:
        raise SystemExit(failure)


def make_text(settings: Settings, folder: Path) -> Text:
    """Write the text and its vocabulary into a folder, the same files for both contenders."""
    if settings.text.exists():
        source = f"{settings.text.parent.name}/{settings.text.name}"
        train = _take(_read(sorted(settings.text.glob("train-*.txt.gz"))), settings.num_tokens)
        heldout = _take(_read([settings.text / "heldout.txt.gz"]), settings.heldout_tokens)
    else:
        source = f"synthetic text, since {settings.text} is absent"
        wanted = settings.num_tokens + settings.heldout_tokens
        sentences = iter(make_sentences(math.ceil(1.1 * wanted / SYNTHETIC_LENGTH), seed=1))
        train = _take(sentences, settings.num_tokens)
        heldout = _take(sentences, settings.heldout_tokens)
    counts = Counter(token for sentence in train for token in sentence)
    vocabulary = choose_words(counts, max_size=settings.vocabulary_size)
    text = Text(
        source=source,
        train=folder / "train.txt",
        vocabulary=folder / "vocab.txt",
        num_words=len(vocabulary.words),
        num_tokens=counts.total(),
        num_sentences=len(train),
        heldout=heldout,
    )
    lines = "".join(f"{' '.join(sentence)}\n" for sentence in train)
    text.train.write_text(lines, encoding="utf-8")
    write_vocabulary(vocabulary, text.vocabulary)
    return text


def measure_speed(
    settings: Settings, text: Text, pythons: Mapping[str, Path], folder: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Let both contenders make steps in turns; return the timings and the versions."""
    os.environ["OMP_WAIT_POLICY"] = "active"  # of torch alone: TensorFlow has threads of its own
    results: dict[str, Any] = {}
    versions = {}
    with ExitStack() as stack:
        workers = []
        for contender, python in pythons.items():
            run = make_run(settings, SPEED, text, new_folder(folder, contender))
            worker = stack.enter_context(
                Worker(contender, python, settings.num_threads, script=WORKER)
            )
            versions[contender] = worker.ask("load", contender=contender, run=asdict(run))[
                "versions"
            ]
            worker.ask("step", num_steps=settings.num_warmup)
            results[contender] = {"rounds": [], "cpu_rounds": []}
            workers.append(worker)
        for number in range(1, settings.num_rounds + 1):
            for worker in workers:
                reply = worker.ask("step", num_steps=settings.steps_per_round)
                result = results[worker.contender]
                result["rounds"].append(reply.pop("seconds"))
                result["cpu_rounds"].append(reply.pop("cpu_seconds"))
                result |= reply
            load = os.getloadavg()[0]
            print(f"round {number} of {settings.num_rounds} done, load {load:.1f}", flush=True)
    predictions = SPEED["batch_size"] * SPEED["window"]
    for result in results.values():
        seconds = list(chain.from_iterable(result["rounds"]))
        result["cpu_seconds"] = median(chain.from_iterable(result["cpu_rounds"]))
        result["median_seconds"] = median(seconds)
        result["fastest_seconds"], result["slowest_seconds"] = min(seconds), max(seconds)
        result["tokens_per_second"] = predictions / median(seconds)
        result["times_as_fast"] = results[BASELINE]["median_seconds"] / median(seconds)
    return results, versions


def print_speed(results: Mapping[str, Any]) -> str | None:
    """Print the table in Markdown; return what is wrong with the result."""
    print("\n| contender | s a step | range | CPU s | tokens/s | times simple-elmo's | peak MiB |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for contender, result in results.items():
        print(
            f"| {contender} | {result['median_seconds']:.2f} "
            f"| {result['fastest_seconds']:.2f}-{result['slowest_seconds']:.2f} "
            f"| {result['cpu_seconds']:.2f} | {result['tokens_per_second']:,.0f} "
            f"| {result['times_as_fast']:.2f} | {result['peak_mib']:,} |"
        )
    baseline, ours = (results[contender]["rounds"] for contender in (BASELINE, "elmokit"))
    ratios = [median(theirs) / median(own) for theirs, own in zip(baseline, ours, strict=True)]
    print(f"\nratio in each round: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
    sizes = {result["parameters"] for result in results.values()}
    if len(sizes) > 1:
        return f"the models differ: {sorted(sizes)} parameters"
    if not results["elmokit"]["times_as_fast"] >= REQUIRED_SPEED:
        return f"elmokit is less than {REQUIRED_SPEED} times as fast"
    return None


def measure_quality(
    settings: Settings, text: Text, pythons: Mapping[str, Path], folder: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Train every contender with every seed; return the perplexities and the versions."""
    torch.set_num_threads(settings.num_threads)
    predictions = text.num_tokens + text.num_sentences
    positions = QUALITY["batch_size"] * QUALITY["window"]
    num_steps = math.ceil(settings.epochs * math.ceil(predictions / positions))
    print(f"{num_steps:,} steps of {positions:,} predictions per direction", flush=True)
    results: dict[str, Any] = {}
    versions = {}
    for seed in settings.seeds:
        for contender, softmax_init in CONTENDERS:
            name = f"{contender}, {softmax_init}"
            run = make_run(
                settings,
                QUALITY,
                text,
                new_folder(folder, f"{name}, {seed}"),
                softmax_init=softmax_init,
                seed=seed,
            )
            with Worker(contender, pythons[contender], settings.num_threads, WORKER) as worker:
                loaded = worker.ask("load", contender=contender, run=asdict(run))
                trained = worker.ask("train", num_steps=num_steps)
            versions[contender] = loaded["versions"]
            perplexity = heldout_perplexity(trained["model"], text.heldout)
            result = results.setdefault(name, {"perplexities": [], "seconds": []})
            result["perplexities"].append(perplexity)
            result["seconds"].append(trained["seconds"])
            print(
                f"seed {seed}, {name}: perplexity {perplexity:.2f}, "
                f"{trained['seconds']:.0f} s, load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
    baseline = mean(next(iter(results.values()))["perplexities"])
    for result in results.values():
        result["mean"] = mean(result["perplexities"])
        result["of_baseline"] = result["mean"] / baseline
    return results, versions


def print_quality(results: Mapping[str, Any]) -> str | None:
    """Print the table in Markdown; return what is wrong with the result."""
    print("\n| contender, softmax | perplexity by seed | mean | of simple-elmo's | s |")
    print("|---|---|---:|---:|---:|")
    for name, result in results.items():
        by_seed = ", ".join(f"{perplexity:.1f}" for perplexity in result["perplexities"])
        print(
            f"| {name} | {by_seed} | {result['mean']:.1f} | {result['of_baseline']:.3f} "
            f"| {median(result['seconds']):.0f} |"
        )
    default = results["elmokit, frequency"]
    if not default["of_baseline"] <= ALLOWED_PERPLEXITY:
        return f"elmokit's mean perplexity is above {ALLOWED_PERPLEXITY} times simple-elmo's"
    return None


def heldout_perplexity(model: str, heldout: Sentences) -> float:
    """Return the perplexity over all words, running text, whichever contender wrote the model."""
    embedder = elmokit.Embedder.from_pretrained(model, device="cpu")
    return embedder.perplexity(heldout, state="carry").mean


def make_run(
    settings: Settings,
    model: Mapping[str, Any],
    text: Text,
    folder: Path,
    *,
    softmax_init: str = "frequency",
    seed: int | None = None,
) -> Run:
    """Return what a worker needs to know."""
    return Run(
        text=str(text.train),
        vocabulary=str(text.vocabulary),
        num_words=text.num_words,
        folder=str(folder),
        softmax_init=softmax_init,
        seed=settings.seeds[0] if seed is None else seed,
        num_threads=settings.num_threads,
        **model,
    )


def new_folder(parent: Path, name: str) -> Path:
    """Make a folder for what a worker writes."""
    folder = parent / name
    folder.mkdir()
    return folder


def print_heading(report: Mapping[str, Any]) -> None:
    """Print what was measured, on what and with which releases."""
    settings, machine, model = report["settings"], report["machine"], report["model"]
    print(
        f"\n{report['date']}, {machine['processor']}, {settings['num_threads']} threads of "
        f"{machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, "
        f"load {machine['load']} before"
    )
    print(
        f"cell {model['cell_dim']}, projection {model['projection_dim']}, "
        f"{sum(count for _, count in model['filters']):,} filters, "
        f"{model['num_highway']} highway, batch {model['batch_size']}, window {model['window']}, "
        f"{model['num_negatives']:,} negatives, dropout {model['dropout']}; {report['text']}"
    )
    for releases in report["versions"].values():
        print(", ".join(f"{name} {number}" for name, number in releases.items()))


def _read(files: Sequence[Path]) -> Iterator[list[str]]:
    """Yield the tokens of each line that has any."""
    for file in files:
        with gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
            yield from filter(None, map(str.split, lines))


def _take(sentences: Iterator[list[str]], num_tokens: int) -> Sentences:
    """Return sentences of so many tokens; the last is cut."""
    taken: Sentences = []
    while num_tokens > 0 and (sentence := next(sentences, None)):
        taken.append(list(islice(sentence, num_tokens)))
        num_tokens -= len(sentence)
    return taken


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
