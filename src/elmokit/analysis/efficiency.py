"""What ELMo saves (paper, figure 1): the score by the size of the training set and by the epoch."""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elmokit.analysis import task_drawing
from elmokit.analysis.comparison import WITHOUT, Arm, check_distinct, outcomes, percent, summed_up
from elmokit.analysis.defaults import FRACTIONS
from elmokit.analysis.output import Report
from elmokit.analysis.runs import Run, Sweep, check_reads_elmo
from elmokit.errors import ConfigError
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.readers.reading import check_any
from elmokit.tasks.task import Task

ARMS = (WITHOUT, Arm(name="elmo", title="with ELMo", elmo={}))
"""The set-ups that are compared."""


def measure_efficiency(
    task: Task[Any, Any],
    base: TaskConfig,
    directory: Path,
    *,
    seeds: Sequence[int],
    fractions: Sequence[float] = FRACTIONS,
) -> Report:
    """Trains with and without ELMo on parts of the training set, or goes on with that.

    The parts are nested, and the same for all seeds and for both set-ups: each holds the first
    examples of one random order. Labels that a part lacks count as errors of its models.

    Args:
        task: The task.
        base: What the runs have in common.
        directory: Place of the runs (see `analysis.runs`).
        seeds: Those of the runs, the same at every size.
        fractions: Shares of the training set, above 0 and up to 1; the whole is always measured.

    Returns:
        The report. Its data have `metric`; `examples` to learn from; `arms`, and for each `name`,
        `title`, `sizes` (`examples`, `score`, `runs`) and `epochs` (`epoch`, `score`: the best so
        far, on all examples); `equal`, what the arm with ELMo needs for the mean score that the
        other reaches in the end: `score`, `examples` and `epoch`, null where it is not reached,
        and the other's own `baseline_epoch`.

    Raises:
        ConfigError: A fraction or another setting is out of its range.
        ElmokitError: What `Sweep` raises.
    """
    check_reads_elmo(base)
    check_distinct("seeds", seeds)
    check_fractions(fractions)
    sweep = Sweep(directory, "efficiency", task, base)
    reading = task.read(base.data.train, base, "train")
    check_any(reading)
    num_examples = len(reading.items)
    if base.data.max_train is not None:
        num_examples = min(num_examples, base.data.max_train)
    sizes = sizes_of(fractions, num_examples)
    # The whole first: what is wrong with the examples shows before anything else is trained.
    runs = {
        (arm.name, size, seed): _run(arm, size, seed, base, is_part=size < num_examples)
        for size, seed, arm in itertools.product(reversed(sizes), seeds, ARMS)
    }
    results = dict(zip(runs, sweep.train([*runs.values()]), strict=True))
    logs = {
        (arm.name, seed): sweep.scores(runs[arm.name, num_examples, seed].name)
        for arm, seed in itertools.product(ARMS, seeds)
    }
    num_epochs = max(map(len, logs.values()))
    arms = [
        {
            "name": arm.name,
            "title": arm.title,
            "sizes": [
                {"examples": size, **outcomes([results[arm.name, size, seed] for seed in seeds])}
                for size in sizes
            ],
            "epochs": _by_epoch([logs[arm.name, seed] for seed in seeds], num_epochs),
        }
        for arm in ARMS
    ]
    return _report(sweep, next(iter(results.values()))["metric"], num_examples, arms)


def check_fractions(fractions: Sequence[float]) -> None:
    """Raises ConfigError unless all are shares above 0, and none is there twice."""
    check_distinct("fractions", fractions)
    for fraction in fractions:
        if not 0 < fraction <= 1:
            raise ConfigError(f"fractions: {fraction} must be above 0 and not above 1")


def sizes_of(fractions: Sequence[float], num_examples: int) -> list[int]:
    """Returns how many examples the parts have, rising: each at least one, the last all."""
    parts = {max(1, round(fraction * num_examples)) for fraction in fractions}
    return sorted({*parts, num_examples})


def crossing(sizes: Sequence[float], scores: Sequence[float], target: float) -> float | None:
    """Returns the size at which a curve first reaches a score, None if it never does.

    Args:
        sizes: Rising, above 0.
        scores: One a size; between two sizes the curve is straight on the log scale of sizes.
        target: The score. A curve that begins at it or above crosses at its first size, though a
            smaller one might do.
    """
    if scores[0] >= target:
        return sizes[0]
    for (size, score), (next_size, next_score) in itertools.pairwise(
        zip(sizes, scores, strict=True)
    ):
        if next_score >= target:
            share = (target - score) / (next_score - score)
            return size * math.exp(share * math.log(next_size / size))
    return None


def best_so_far(scores: Sequence[float], num_epochs: int) -> list[float]:
    """Returns the best score up to each epoch; after a run's end it is that of the run."""
    best = list(itertools.accumulate(scores, max))
    return best + best[-1:] * (num_epochs - len(best))


def _run(arm: Arm, size: int, seed: int, base: TaskConfig, *, is_part: bool) -> Run:
    config = arm.config(base, seed)
    if is_part:
        data = dataclasses.replace(config.data, max_train=size, skip_bad=True)
        config = dataclasses.replace(config, data=data)
    return Run(name=f"{arm.name}-{size}-seed-{seed}", config=config)


def _by_epoch(scores: Sequence[Sequence[float]], num_epochs: int) -> list[dict[str, Any]]:
    curves = zip(*(best_so_far(run, num_epochs) for run in scores), strict=True)
    return [{"epoch": epoch, "score": summed_up(at)} for epoch, at in enumerate(curves, 1)]


def _equal(without: Mapping[str, Any], with_elmo: Mapping[str, Any]) -> dict[str, float | None]:
    """Returns what ELMo needs for the mean score that the baseline reaches with everything."""
    target = without["sizes"][-1]["score"]["mean"]
    sizes = with_elmo["sizes"]
    means = [size["score"]["mean"] for size in sizes]
    return {
        "score": target,
        "examples": crossing([size["examples"] for size in sizes], means, target),
        "epoch": _first_epoch(with_elmo, target),
        "baseline_epoch": _first_epoch(without, target),
    }


def _first_epoch(arm: Mapping[str, Any], target: float) -> int | None:
    reached = (entry["epoch"] for entry in arm["epochs"] if entry["score"]["mean"] >= target)
    return next(reached, None)


def _report(
    sweep: Sweep, metric: str, num_examples: int, arms: Sequence[Mapping[str, Any]]
) -> Report:
    without, with_elmo = arms
    equal, least = _equal(without, with_elmo), with_elmo["sizes"][0]["examples"]
    title = f"{sweep.task.name}: what ELMo saves"
    return Report(
        name=sweep.analysis,
        summary=f"{sweep.task.name}: {_told(equal, least, num_examples)}",
        header=("examples", "of all", without["title"], with_elmo["title"]),
        rows=tuple(
            (
                f"{one['examples']:,}",
                _share(one["examples"], num_examples),
                *(_cell(side["score"]) for side in (one, other)),
            )
            for one, other in zip(without["sizes"], with_elmo["sizes"], strict=True)
        ),
        data={
            **sweep.data(),
            "metric": metric,
            "examples": num_examples,
            "arms": arms,
            "equal": equal,
        },
        draw=lambda: task_drawing.learning(arms, equal, title=title, axis=f"dev {metric}, %"),
    )


def _cell(score: Mapping[str, float]) -> str:
    lowest, highest = percent(score["lowest"]), percent(score["highest"])
    return f"{percent(score['mean'])} ({lowest} to {highest})"


def _share(part: float, whole: float) -> str:
    share = 100 * part / whole
    return f"{share:.0f} %" if share >= 10 else f"{share:.2g} %"


def _told(equal: Mapping[str, float | None], least: int, num_examples: int) -> str:
    """Says in a sentence what ELMo needs to equal the baseline."""
    examples, epoch = equal["examples"], equal["epoch"]
    if examples is None:
        needed = "not reached"
    else:
        fewer = " or fewer" if examples == least else ""
        needed = f"reached with {examples:,.0f}{fewer} ({_share(examples, num_examples)})"
    in_epoch = "in no epoch" if epoch is None else f"in epoch {epoch}"
    return (
        f"the baseline's {percent(equal['score'] or 0.0)} % with {num_examples:,} examples is, "
        f"with ELMo, {needed}; with all of them {in_epoch}, where the baseline needs "
        f"{equal['baseline_epoch']}"
    )
