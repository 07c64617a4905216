"""What a run will do, told before its first step."""

import sys
import time
from collections.abc import Callable

import torch

from elmokit.training.corpus import Corpus
from elmokit.training.trainer import Trainer

_TIMED_STEPS = 3
"""Steps that are made for the clock."""


def seconds_per_step(advance: Callable[[], object]) -> float:
    """Makes a few steps and returns how long one takes; the caller takes them back.

    Args:
        advance: Makes a step.
    """
    times = []
    for _ in range(_TIMED_STEPS):
        started = time.perf_counter()
        advance()
        times.append(time.perf_counter() - started)
    return sorted(times)[len(times) // 2]


def plan(
    trainer: Trainer, corpus: Corpus, heldout: Corpus | None, seconds: float | None
) -> list[str]:
    """Returns what a run will do, as lines.

    Args:
        trainer: At its first step, or where it goes on.
        corpus: What is learnt from.
        heldout: What is measured on.
        seconds: How long a step takes; None if there is none left.
    """
    left = trainer.num_steps - trainer.step
    words = len(corpus.vocabulary.words)
    parameters = sum(p.numel() for p in trainer.bilm.network.parameters())
    softmax = sum(p.numel() for p in trainer.bilm.parameters()) - parameters
    schedule, processes = trainer.config.schedule, trainer.processes.world_size
    negatives = trainer.config.objective.num_negatives
    compared = f"{negatives:,} sampled per step" if trainer.is_sampled else "all of them compared"
    return [
        f"text       {corpus.describe()}",
        f"held out   {heldout.describe() if heldout else 'none: no measure of what is learnt'}",
        f"words      {words:,} in the vocabulary, {compared}",
        f"model      {parameters:,} parameters and {softmax:,} in the softmax",
        f"step       {processes} x {schedule.batch_size} rows x {schedule.window} tokens"
        + (f" x {schedule.accumulate} windows" if schedule.accumulate > 1 else "")
        + f" = {trainer.step_predictions:,} predictions per direction",
        f"length     {trainer.num_steps:,} steps, {trainer.steps_per_epoch:,} per epoch, "
        f"{trainer.num_steps / trainer.steps_per_epoch:.3g} epochs"
        + (f"; {trainer.step:,} done" if trainer.step else ""),
        "time       "
        + (
            f"{seconds:.3g} s per step, {trainer.step_predictions / seconds:,.0f} tokens per "
            f"second, about {duration(left * seconds)} to go"
            if seconds
            else "nothing is left to do"
        ),
        f"memory     {_peak_memory(trainer.processes.device) / 1e9:.2f} GB at its peak so far",
    ]


def duration(seconds: float) -> str:
    """Returns a time in the unit that suits it."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"


def _peak_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    import resource  # Windows has none

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
