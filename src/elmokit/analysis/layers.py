"""Which layers a task needs (paper, table 2): none, the last, or a mix of all by its lambda."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elmokit.analysis.comparison import WITHOUT, Arm, check_distinct, compare
from elmokit.analysis.defaults import LAMBDAS
from elmokit.analysis.output import Report
from elmokit.analysis.runs import Sweep, check_reads_elmo
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.task import Task


def arms(lambdas: Sequence[float] = LAMBDAS) -> list[Arm]:
    """Returns the set-ups that are compared.

    Args:
        lambdas: Strengths of the pull towards an even mix.
    """
    return [
        WITHOUT,
        Arm(name="last", title="last layer", elmo={"layers": "last"}),
        *(
            Arm(
                name=f"all-{value:.15g}",
                title=f"all layers, lambda = {value:g}",
                elmo={"layers": "all", "l2": value},
            )
            for value in lambdas
        ),
    ]


def compare_layers(
    task: Task[Any, Any],
    base: TaskConfig,
    directory: Path,
    *,
    seeds: Sequence[int],
    lambdas: Sequence[float] = LAMBDAS,
) -> Report:
    """Trains a task model with different layers, or goes on where that was cut off.

    Args:
        task: The task.
        base: What the runs have in common; ELMo is read at its `elmo.at`.
        directory: Place of the runs (see `analysis.runs`).
        seeds: Those of the runs, the same for every set-up.
        lambdas: Strengths of the pull towards an even mix of all layers.

    Returns:
        The report, as `compare` makes it.

    Raises:
        ConfigError: A setting is out of its range, or there is nothing to compare.
        ElmokitError: What `Sweep` raises.
    """
    check_reads_elmo(base)
    check_distinct("lambdas", lambdas)
    return compare(Sweep(directory, "layers", task, base), base, arms(lambdas), seeds)
