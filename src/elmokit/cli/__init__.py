"""The command `elmo`: parses, calls, prints. One file per command group.

Nothing that the parser needs imports torch, numpy or h5py; a command loads them when it runs.
"""

import importlib
import inspect
import os
import sys
from collections.abc import Sequence

from elmokit import __version__
from elmokit.cli.analyze import (
    AnalyzeSettings,
    DriftSettings,
    IndexSettings,
    NeighborsSettings,
    ProbeSettings,
    SensesSettings,
    SimilaritySettings,
)
from elmokit.cli.analyze_tasks import (
    EfficiencySettings,
    LayersSettings,
    PlacementSettings,
    WeightsSettings,
)
from elmokit.cli.arguments import DESCRIPTION, PROGRAM, parse
from elmokit.cli.language import PerplexitySettings, PredictSettings
from elmokit.cli.models import ConvertSettings, InfoSettings
from elmokit.cli.printing import (
    complain,
    messages_shown,
    say,
    say_all,
    say_no_more,
    streams_open,
)
from elmokit.cli.task import (
    EvalSettings,
    TaskPredictSettings,
    TaskSettings,
    TaskTrainSettings,
)
from elmokit.cli.train import TrainSettings
from elmokit.cli.vocab import VocabSettings
from elmokit.embedding.settings import EmbedSettings
from elmokit.errors import ElmokitError

_COMMANDS = {
    "embed": (EmbedSettings, "elmokit.cli.embed:run"),
    "info": (InfoSettings, "elmokit.cli.models:info"),
    "convert": (ConvertSettings, "elmokit.cli.models:convert"),
    "vocab": (VocabSettings, "elmokit.cli.vocab:run"),
    "train": (TrainSettings, "elmokit.cli.train:run"),
    "perplexity": (PerplexitySettings, "elmokit.cli.language:perplexity"),
    "predict": (PredictSettings, "elmokit.cli.language:predict"),
    "task": (TaskSettings, "elmokit.cli.task:explain"),
    "analyze": (AnalyzeSettings, "elmokit.cli.analyze:explain"),
}
"""Command -> its settings and the function that takes them."""

_GROUPS = {
    "task": {
        "train": (TaskTrainSettings, "elmokit.cli.task:train"),
        "eval": (EvalSettings, "elmokit.cli.task:evaluate"),
        "predict": (TaskPredictSettings, "elmokit.cli.task:predict"),
    },
    "analyze": {
        "probe": (ProbeSettings, "elmokit.cli.analyze:probe"),
        "index": (IndexSettings, "elmokit.cli.analyze:index"),
        "neighbors": (NeighborsSettings, "elmokit.cli.analyze:neighbors"),
        "similarity": (SimilaritySettings, "elmokit.cli.analyze:similarity"),
        "senses": (SensesSettings, "elmokit.cli.analyze:senses"),
        "drift": (DriftSettings, "elmokit.cli.analyze:drift"),
        "layers": (LayersSettings, "elmokit.cli.analyze_tasks:layers"),
        "placement": (PlacementSettings, "elmokit.cli.analyze_tasks:placement"),
        "efficiency": (EfficiencySettings, "elmokit.cli.analyze_tasks:efficiency"),
        "weights": (WeightsSettings, "elmokit.cli.analyze_tasks:weights"),
    },
}
"""Group of commands -> its commands."""

_UNEXPECTED = 1
_BAD_INPUT = 2
_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        argv: The arguments; those of the process if absent. `--debug` anywhere shows the traceback
            of an error first.

    Returns:
        The exit code: 0; 2 for bad input of any kind, 1 for an error that nobody foresaw, 130 for
        an interruption, each of these with one line on standard error.
    """
    # OpenMP's threads spin while they wait, which starves a machine that others use too. torch
    # reads this when it is loaded, if it is not yet.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    with streams_open():
        return _main([argument for argument in arguments if argument != "--debug"], debug)


def _main(arguments: Sequence[str], debug: bool) -> int:
    try:
        with messages_shown():
            _run(arguments)
            say_all()
    except SystemExit as stop:  # the parser has printed help
        return int(stop.code or 0)
    except KeyboardInterrupt:
        complain("interrupted")
        return _INTERRUPTED
    except BrokenPipeError:  # the reader, such as head, has seen enough
        say_no_more()
        return 0
    except Exception as error:  # whatever it is, a user gets one line
        message, code = _explain(error)
        complain(message, with_traceback=debug)
        return code
    return 0


def _run(arguments: Sequence[str]) -> None:
    if "--version" in arguments[:1]:
        say(f"{PROGRAM} {__version__}")
        return
    commands, program, description = _COMMANDS, PROGRAM, DESCRIPTION
    if arguments and arguments[0] in _GROUPS and len(arguments) > 1:
        group, *arguments = arguments
        kind, _ = _COMMANDS[group]
        commands, program = _GROUPS[group], f"{PROGRAM} {group}"
        description = inspect.cleandoc(kind.__doc__ or "")
    kinds = {name: kind for name, (kind, _) in commands.items()}
    settings = parse(arguments, kinds, program=program, description=description)
    module, function = dict(commands.values())[type(settings)].split(":")
    getattr(importlib.import_module(module), function)(settings)


def _explain(error: Exception) -> tuple[str, int]:
    """Returns what to say of an error, and the exit code."""
    if isinstance(error, ElmokitError):
        return str(error), _BAD_INPUT
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'file'}: {error.strerror}", _BAD_INPUT
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    return f"unexpected {text}; --debug shows where it comes from", _UNEXPECTED
