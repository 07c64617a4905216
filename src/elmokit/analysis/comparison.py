"""Comparing set-ups of a task model: each is trained with the same seeds."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from elmokit.analysis import task_drawing
from elmokit.analysis.output import Report
from elmokit.analysis.runs import Run, Sweep
from elmokit.errors import ConfigError
from elmokit.tasks.config import TaskConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One of the set-ups that are compared."""

    name: str
    """Part of the names of its runs."""
    title: str
    """What tables and figures call it."""
    elmo: Mapping[str, Any]
    """Its settings of `elmo`; all others are the same for all arms."""

    def config(self, base: TaskConfig, seed: int) -> TaskConfig:
        """Returns a run of this arm.

        Args:
            base: What the arms have in common.
            seed: Decides initial weights, order of the examples and dropout.

        Raises:
            ConfigError: A setting is out of its range.
        """
        elmo = dataclasses.replace(base.elmo, **self.elmo)
        return dataclasses.replace(base, elmo=elmo, seed=seed)


WITHOUT = Arm(name="none", title="without ELMo", elmo={"at": "none"})
"""The baseline of every comparison."""


def compare(sweep: Sweep, base: TaskConfig, arms: Sequence[Arm], seeds: Sequence[int]) -> Report:
    """Trains every arm with every seed, and sums up the scores.

    Args:
        sweep: Where the runs are kept.
        base: What the arms have in common.
        arms: Those to compare, the baseline first.
        seeds: Those of the runs, the same for every arm.

    Returns:
        The report. Its data have `metric`; `examples` to learn from; `arms`, and for each `name`,
        `title`, `elmo`, `score` (see `summed_up`) and `runs`, one a seed.

    Raises:
        ConfigError: There are no seeds, or one is there twice.
        ElmokitError: What `Sweep.train` raises.
    """
    check_distinct("seeds", seeds)
    runs = {
        (arm.name, seed): Run(name=f"{arm.name}-seed-{seed}", config=arm.config(base, seed))
        for seed in seeds
        for arm in arms
    }
    results = dict(zip(runs, sweep.train([*runs.values()]), strict=True))
    first = next(iter(results.values()))
    summaries = [
        {
            "name": arm.name,
            "title": arm.title,
            "elmo": dict(arm.elmo),
            **outcomes([results[arm.name, seed] for seed in seeds]),
        }
        for arm in arms
    ]
    metric = first["metric"]
    title = f"{sweep.task.name}, {first['train']['examples']:,} examples"
    return Report(
        name=sweep.analysis,
        summary=_summary(sweep.task.name, metric, summaries),
        header=("set-up", f"dev {metric}", "lowest", "highest", "gain"),
        rows=tuple(_row(arm, summaries[0]) for arm in summaries),
        data={
            **sweep.data(),
            "metric": metric,
            "examples": first["train"]["examples"],
            "arms": summaries,
        },
        draw=lambda: task_drawing.ranges(summaries, title=title, axis=f"dev {metric}, %"),
    )


def outcomes(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums up runs that differ in their seed alone: `score` over them, and each in `runs`."""
    kept = ("score", "best_epoch", "epochs", "mixes")
    return {
        "score": summed_up([found["score"] for found in results]),
        "runs": [
            {"seed": found["config"]["seed"], **{name: found[name] for name in kept}}
            for found in results
        ],
    }


def summed_up(scores: Sequence[float]) -> dict[str, float]:
    """Returns `mean`, `lowest` and `highest`."""
    return {"mean": mean(scores), "lowest": min(scores), "highest": max(scores)}


def percent(score: float) -> str:
    """Writes a score for tables."""
    return f"{100 * score:.1f}"


def check_distinct(name: str, values: Sequence[float]) -> None:
    """Raises ConfigError if there are no values, or one is there twice."""
    if not values:
        raise ConfigError(f"{name}: give at least one")
    for value in values:
        if values.count(value) > 1:
            raise ConfigError(f"{name}: {value} stands there twice")


def _row(arm: Mapping[str, Any], baseline: Mapping[str, Any]) -> tuple[str, ...]:
    gain = 100 * (arm["score"]["mean"] - baseline["score"]["mean"])
    return (
        arm["title"],
        *(percent(arm["score"][name]) for name in ("mean", "lowest", "highest")),
        "" if arm is baseline else f"{gain:+.1f}",
    )


def _summary(task: str, metric: str, arms: Sequence[Mapping[str, Any]]) -> str:
    baseline, best = arms[0], max(arms, key=lambda arm: arm["score"]["mean"])
    gain, num_seeds = _row(best, baseline)[-1], len(best["runs"])
    told = f"{task}: best is {best['title']}, dev {metric} {percent(best['score']['mean'])} %"
    if gain:
        told += f", {gain} over {baseline['title']}"
    return f"{told} ({num_seeds} seed{'s' if num_seeds > 1 else ''})"
