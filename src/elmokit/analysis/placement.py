"""Where a task model best reads ELMo (paper, table 3): nowhere, input, output, or both."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elmokit.analysis.comparison import WITHOUT, Arm, compare
from elmokit.analysis.output import Report
from elmokit.analysis.runs import Sweep
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.task import Task

ARMS = (
    WITHOUT,
    Arm(name="input", title="at the input", elmo={"at": "input"}),
    Arm(name="output", title="at the output", elmo={"at": "output"}),
    Arm(name="both", title="at both", elmo={"at": "both"}),
)
"""The set-ups that are compared."""


def compare_places(
    task: Task[Any, Any], base: TaskConfig, directory: Path, *, seeds: Sequence[int]
) -> Report:
    """Trains a task model with ELMo at different places, or goes on where that was cut off.

    Args:
        task: The task.
        base: What the runs have in common; its `elmo.at` is not used.
        directory: Place of the runs (see `analysis.runs`).
        seeds: Those of the runs, the same for every place.

    Returns:
        The report, as `compare` makes it.

    Raises:
        ConfigError: There are no seeds, or one is there twice.
        ElmokitError: What `Sweep` raises.
    """
    return compare(Sweep(directory, "placement", task, base), base, ARMS, seeds)
