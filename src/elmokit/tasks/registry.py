"""The tasks by name; needs no torch until one is asked for."""

import importlib
from typing import TYPE_CHECKING, Any, Literal, get_args

from elmokit.config import nearest
from elmokit.errors import ConfigError

if TYPE_CHECKING:
    from elmokit.tasks.task import Task

TaskName = Literal["ner", "tag", "sentiment", "classify", "entailment", "srl", "qa", "coref"]
"""ner: names in text. tag: parts of speech, chunks and other tags of words. sentiment: how a
sentence judges. classify: one label for a text. entailment: whether a text follows from another.
srl: who did what to whom. qa: which piece of a text answers a question. coref: what in a document
is the same thing."""


def get_task(name: str) -> "Task[Any, Any]":
    """Returns a task.

    Raises:
        ConfigError: There is no such task; the nearest name is given.
    """
    names = get_args(TaskName)
    if name not in names:
        raise ConfigError(
            f"task: {name!r} is unknown{nearest(name, names)}; use one of {', '.join(names)}"
        )
    task: Task[Any, Any] = importlib.import_module(f"elmokit.tasks.{name}.task").TASK
    return task
