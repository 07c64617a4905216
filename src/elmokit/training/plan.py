"""What a run will do, told before its first step."""

import copy
import resource
import sys
import time

import torch

from elmokit.training.corpus import Corpus
from elmokit.training.trainer import Trainer

_TIMED_STEPS = 3
"""Steps that are made for the clock, and taken back."""


def plan(trainer: Trainer, corpus: Corpus, heldout: Corpus | None) -> list[str]:
    """Times a few steps, takes them back, and returns the plan as lines.

    Args:
        trainer: At its first step, or where it goes on; it is left there.
        corpus: What is learnt from.
        heldout: What is measured on.
    """
    seconds = _seconds_per_step(trainer)
    left = trainer.num_steps - trainer.step
    words = len(corpus.vocabulary.words)
    parameters = sum(p.numel() for p in trainer.bilm.network.parameters())
    softmax = sum(p.numel() for p in trainer.bilm.parameters()) - parameters
    negatives = trainer.config.objective.num_negatives
    schedule = trainer.config.schedule
    processes = trainer.processes.world_size
    return [
        f"text       {corpus.describe()}",
        f"held out   {heldout.describe() if heldout else 'none: no measure of what is learnt'}",
        f"words      {words:,} in the vocabulary, "
        + (f"{negatives:,} sampled per step" if negatives else "all of them compared"),
        f"model      {parameters:,} parameters and {softmax:,} in the softmax",
        f"step       {processes} x {schedule.batch_size} rows x {schedule.window} tokens"
        + (f" x {schedule.accumulate} windows" if schedule.accumulate > 1 else "")
        + f" = {trainer.step_predictions:,} predictions per direction",
        f"length     {trainer.num_steps:,} steps, {trainer.steps_per_epoch:,} per epoch, "
        f"{trainer.num_steps / trainer.steps_per_epoch:.3g} epochs"
        + (f"; {trainer.step:,} done" if trainer.step else ""),
        f"time       {seconds:.3g} s per step, {trainer.step_predictions / seconds:,.0f} tokens "
        f"per second, about {_duration(left * seconds)} to go",
        f"memory     {_peak_memory(trainer.processes.device) / 1e9:.2f} GB at its peak so far",
    ]


def _seconds_per_step(trainer: Trainer) -> float:
    shared, own = copy.deepcopy(trainer.state()), copy.deepcopy(trainer.own_state())
    times = []
    for _ in range(_TIMED_STEPS):
        started = time.perf_counter()
        trainer.advance()
        times.append(time.perf_counter() - started)
    trainer.restore(shared, own)
    return sorted(times)[len(times) // 2]


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"


def _peak_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
