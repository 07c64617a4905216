"""Speed on a GPU: embedding and training, beside a per-step loop and the rate of matrix products.

Usage: python benchmarks/gpu.py [--output results.json]
       python benchmarks/gpu.py --device cpu --quick     # whether it works, where there is no GPU

A run is meant to take less than six minutes on a large GPU. Vectors are compared with those of the
CPU in float32; a difference above 1e-3 where both are float32 fails the run.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Literal

import numpy as np
import torch
import tyro

import training_setup
from elmokit import BiLM, Embedder
from machine import describe_machine
from models import ModelName, write_model
from per_step_loop import PerStepLoop, Vectors
from random_checkpoint import SIZES
from report import make_report, print_table, write_report
from roofline import lstm_work, work_of
from sample_text import Sentences, load_text
from training_worker import Elmokit

Precision = Literal["fp32", "bf16"]
PRECISIONS: dict[Precision, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16}
Row = dict[str, Any]
TOLERANCE = 1e-3
NUM_WARMUP = 2
"""Training steps before the timed ones."""
WINDOW = 20
"""Positions of a row in a training step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is measured."""

    device: str = "cuda"
    """cuda, cuda:1, ...; or cpu, for a try."""
    quick: bool = False
    """Take tiny sizes, whatever else is set."""
    models: tuple[ModelName, ...] = ("small", "default", "original")
    """Models that embed; those of random weights are trained too."""
    num_sentences: int = 2048
    """Made-up lines of 20 words to embed."""
    batch_tokens: tuple[int, ...] = (4096, 32768)
    """elmokit's tokens in a batch."""
    batch_size: int = 64
    """Sentences in a batch of the per-step loop."""
    num_compared: int = 32
    """Sentences whose vectors are compared with the CPU's."""
    num_rounds: int = 3
    """Timed passes; the median counts."""
    train_steps: int = 10
    """Timed training steps."""
    train_rows: int = 128
    """Rows of a training batch."""
    matrix_size: int = 8192
    """Rows and columns of the square matrices whose product gives the rate."""
    num_threads: int = 4
    """Of the CPU."""
    seed: int = 1
    """Of weights and text."""
    output: Path | None = None
    """A JSON file for every number."""

    def made_quick(self) -> "Settings":
        """Return the same with tiny sizes."""
        return replace(
            self,
            models=("small",),
            num_sentences=4,
            batch_tokens=(64,),
            num_compared=2,
            num_rounds=1,
            train_steps=1,
            train_rows=2,
            matrix_size=64,
            num_threads=1,
        )


def seconds_of(compute: Callable[[], object], device: torch.device) -> float:
    """Return the time of a computation, to the end of what it queued on the device."""
    _wait(device)
    began = perf_counter()
    compute()
    _wait(device)
    return perf_counter() - began


def matrix_rates(settings: Settings) -> dict[Precision, float]:
    """Return the best operations a second of a square matrix product."""
    device, size = torch.device(settings.device), settings.matrix_size
    rates = {}
    for precision, kind in PRECISIONS.items():
        left, right = (torch.randn(size, size, device=device, dtype=kind) for _ in range(2))
        times = [seconds_of(lambda a=left, b=right: a @ b, device) for _ in range(6)]
        rates[precision] = 2 * size**3 / min(times[1:])
    return rates


def embedding_rows(
    settings: Settings, rates: dict[Precision, float], folder: Path
) -> Iterator[Row]:
    """Embed with each contender and yield what was measured."""
    device = torch.device(settings.device)
    sentences = load_text("synthetic", settings.num_sentences, settings.seed).sentences
    for name in settings.models:
        model = write_model(name, folder, settings.seed)
        bilm = BiLM.from_pretrained(model.directory)
        expected = Embedder(bilm, device="cpu").embed(sentences[: settings.num_compared])
        work = work_of(model.config, sentences).total
        for contender, precision, embed in _contenders(settings, bilm, device):
            found = embed(sentences)  # a pass to warm up
            seconds = median(
                seconds_of(lambda e=embed: e(sentences), device) for _ in range(settings.num_rounds)
            )
            yield {
                "model": name,
                "contender": contender,
                "precision": precision,
                "seconds": seconds,
                "tokens_per_second": sum(map(len, sentences)) / seconds,
                "share": work / seconds / rates[precision],
                "peak_mib": _peak_mib(device),
            } | _agreement(found[: settings.num_compared], expected)


def _contenders(
    settings: Settings, bilm: BiLM, device: torch.device
) -> Iterator[tuple[str, Precision, Callable[[Sentences], Vectors]]]:
    """Yield name, precision and what embeds; each is made when its turn comes."""
    loop = PerStepLoop(bilm, device, settings.batch_size)
    yield f"per-step loop, batch {settings.batch_size}", "fp32", loop.embed
    for precision in PRECISIONS:
        for batch_tokens in settings.batch_tokens:
            emb = Embedder(bilm, device=device, precision=precision, batch_tokens=batch_tokens)

            def embed(sentences: Sentences, emb: Embedder = emb) -> Vectors:
                emb.clear_cache()  # every word is new, as to the loop
                return emb.embed(sentences)

            yield f"elmokit, batch of {batch_tokens:,} tokens", precision, embed


def _agreement(found: Vectors, expected: Vectors) -> Row:
    """Return the largest |a - b| / max(1, |b|), and the least cosine of a token in a layer."""
    difference, cosine = 0.0, 1.0
    for ours, theirs in zip(found, expected, strict=True):
        scale = np.maximum(1.0, np.abs(theirs))
        difference = max(difference, float(np.max(np.abs(ours - theirs) / scale, initial=0.0)))
        norms = np.linalg.norm(ours, axis=-1) * np.linalg.norm(theirs, axis=-1)
        cosine = min(cosine, float(np.min((ours * theirs).sum(axis=-1) / norms, initial=1.0)))
    return {"difference": difference, "least_cosine": cosine}


def training_rows(settings: Settings, rates: dict[Precision, float], folder: Path) -> Iterator[Row]:
    """Train each size in each precision and yield what was measured."""
    device = torch.device(settings.device)
    steps = NUM_WARMUP + settings.train_steps
    tokens = steps * settings.train_rows * WINDOW
    # The path is absent: made-up text.
    text = training_setup.make_text(
        training_setup.Settings(num_tokens=tokens, heldout_tokens=1, text=folder / "none"), folder
    )
    for name in settings.models:
        if name not in SIZES:
            continue
        size = SIZES[name]
        shape = training_setup.SPEED | {
            "cell_dim": size.lstm_dim,
            "projection_dim": size.projection_dim,
            "num_highway": size.num_highways,
            "batch_size": settings.train_rows,
            "window": WINDOW,
            "num_negatives": min(training_setup.SPEED["num_negatives"], text.num_words // 2),
        }
        for precision in PRECISIONS:
            run = training_setup.make_run(
                training_setup.Settings(seeds=(settings.seed,), num_threads=settings.num_threads),
                shape,
                text,
                training_setup.new_folder(folder, f"{name}-{precision}"),
            )
            trainer = Elmokit(replace(run, device=settings.device, precision=precision))
            trainer.step([None] * NUM_WARMUP)
            took = seconds_of(lambda t=trainer: t.step([None] * settings.train_steps), device)
            work = 3 * lstm_work(trainer.model_config) * settings.train_rows * WINDOW
            yield {
                "model": name,
                "precision": precision,
                "tokens_per_second": settings.train_steps * settings.train_rows * WINDOW / took,
                "share": work * settings.train_steps / took / rates[precision],
                "peak_mib": _peak_mib(device),
            }


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _peak_mib(device: torch.device) -> float | None:
    """Return the most GPU memory in use since the last call; None on a CPU."""
    if device.type != "cuda":
        return None
    peak = torch.cuda.max_memory_allocated(device) / 2**20
    torch.cuda.reset_peak_memory_stats(device)
    return peak


def print_report(report: Row) -> None:
    """Print what was measured."""
    rates = ", ".join(f"{name} {rate / 1e12:.1f}" for name, rate in report["rates"].items())
    print(f"\n{report['date']}, {report['name']}, torch {torch.__version__}")
    print(f"matrix products: {rates} TFLOP/s")
    slowest = {
        row["model"]: row["tokens_per_second"]
        for row in reversed(report["embedding"])
        if row["contender"].startswith("per-step")
    }
    header = ("model", "contender", "precision", "tokens/s", "times the loop's", "of the rate")
    print_table(
        (*header, "difference", "least cosine", "peak MiB"),
        (
            (
                *(row["model"], row["contender"], row["precision"]),
                *_speed(row, row["tokens_per_second"] / slowest[row["model"]]),
                *(f"{row['difference']:.1e}", f"{row['least_cosine']:.4f}", _mib(row)),
            )
            for row in report["embedding"]
        ),
    )
    print_table(
        ("training", "precision", "tokens/s", "of the rate", "peak MiB"),
        ((row["model"], row["precision"], *_speed(row), _mib(row)) for row in report["training"]),
    )


def _speed(row: Row, *ratios: float) -> tuple[str, ...]:
    times = (f"{ratio:.2f}" for ratio in ratios)
    return f"{row['tokens_per_second']:,.0f}", *times, f"{row['share']:.1%}"


def _mib(row: Row) -> str:
    return "" if row["peak_mib"] is None else f"{row['peak_mib']:,.0f}"


def main(settings: Settings) -> None:
    """Measure, print and write; the exit status is 1 if vectors differ, 2 without the device."""
    if settings.quick:
        settings = settings.made_quick()
    device = torch.device(settings.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("gpu.py: there is no GPU here; try it with --device cpu --quick", file=sys.stderr)
        raise SystemExit(2)
    torch.set_num_threads(settings.num_threads)
    on_gpu = device.type == "cuda"
    rates = matrix_rates(settings)
    with tempfile.TemporaryDirectory() as folder:
        report = make_report(
            settings,
            describe_machine(),
            name=torch.cuda.get_device_name(device) if on_gpu else "CPU, which says nothing",
            versions={"elmokit": {"torch": torch.__version__}},
            rates=rates,
            embedding=list(embedding_rows(settings, rates, Path(folder))),
            training=list(training_rows(settings, rates, Path(folder))),
        )
    print_report(report)
    write_report(report, settings.output)
    wrong = [
        row["contender"]
        for row in report["embedding"]
        if row["precision"] == "fp32" and row["difference"] > TOLERANCE
    ]
    if wrong:
        raise SystemExit(f"vectors differ from the CPU's by more than {TOLERANCE}: {wrong}")


if __name__ == "__main__":
    main(tyro.cli(Settings))
