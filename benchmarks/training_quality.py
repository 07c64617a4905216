"""The perplexity that training reaches, against simple-elmo's."""

import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch

import elmokit
from sample_text import Sentences
from training_setup import QUALITY, WORKER, Settings, Text, make_run, new_folder
from worker import Worker

ALLOWED_PERPLEXITY = 1.03
"""Times simple-elmo's mean perplexity."""
CONTENDERS = (
    ("simple-elmo", "bilm-tf"),
    ("elmokit", "frequency"),
    ("elmokit", "bilm-tf"),
)
"""Library and start of the softmax: the rows of the table of perplexities."""


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
