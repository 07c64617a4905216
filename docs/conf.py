"""How Sphinx builds the manual; `make docs` runs it with every warning an error."""

import contextlib
import dataclasses
import io
import json
import os
import textwrap
import typing
from collections.abc import Collection, Iterator
from pathlib import Path

from sphinx.pycode import ModuleAnalyzer

from elmokit import __version__
from elmokit.cli import main
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.registry import TaskName, get_task
from elmokit.training import config as training

project = "elmokit"
author = "The elmokit authors"
copyright = author
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"elmokit {release}"

default_role = "code"  # docstrings write `names` in single backticks
autodoc_member_order = "bysource"
autoclass_content = "both"
autodoc_typehints = "description"
autodoc_typehints_format = "fully-qualified"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
myst_heading_anchors = 3


HELP = Path(__file__).parent / "_build" / "help"


def _write_help() -> None:
    """Writes what `elmo COMMAND --help` prints, for the page of the command line to include."""
    os.environ["COLUMNS"] = "90"
    commands = ["", "embed", "info", "convert", "vocab", "train", "perplexity", "predict"]
    analyses = ["probe", "index", "neighbors", "similarity", "senses", "drift"]
    analyses += ["layers", "placement", "efficiency", "weights"]
    groups = ["task train", "task eval", "task predict", *(f"analyze {x}" for x in analyses)]
    for command in (*commands, *groups):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            main([*command.split(), "--help"])
        name = command.replace(" ", "-") or "elmo"
        (HELP / f"{name}.txt").write_text(printed.getvalue(), encoding="utf-8")


def _write_settings() -> None:
    """Writes all settings of training runs as the YAML files of their defaults."""
    _write("settings", training.TrainConfig)
    common = [field.name for field in dataclasses.fields(TaskConfig)]
    _write("task-settings", TaskConfig, leave_out=["model"])
    for name in typing.get_args(TaskName):
        # What a task has of its own: its section of data, and its model.
        leave_out = [field for field in common if field not in ("data", "model")]
        _write(f"task-{name}-settings", get_task(name).config, leave_out)


def _write(name: str, section: type, leave_out: Collection[str] = ()) -> None:
    text = "\n".join(_settings(section, leave_out))
    (HELP / f"{name}.txt").write_text(f"{text}\n", encoding="utf-8")


def _settings(section: type, leave_out: Collection[str] = ()) -> Iterator[str]:
    """Yields the lines of a section: each field below its docstring, as YAML."""
    types = typing.get_type_hints(section)
    for field in dataclasses.fields(section):
        if field.name in leave_out:
            continue
        # A docstring that begins on the line of its quotes; `X | None` stands for the section X.
        note = " ".join(_docstring(section, field.name).split())
        yield from (f"# {line}" for line in textwrap.wrap(note, 90))
        kinds = (types[field.name], *_choices(types[field.name]))
        inner = next((kind for kind in kinds if dataclasses.is_dataclass(kind)), None)
        if inner is not None:
            optional = "  # as a section only" if field.default is None else ""
            yield f"{field.name}:{optional}"
            yield from (f"  {line}" for line in _settings(inner))
            yield ""
        elif field.default is dataclasses.MISSING:
            yield f"{field.name}:  # needed"
        else:
            choices = [choice for choice in kinds if isinstance(choice, str | int)]
            others = [str(choice) for choice in choices if choice != field.default]
            note = f"  # or {', '.join(others)}" if others else ""
            yield f"{field.name}: {json.dumps(field.default)}{note}"


def _choices(kind: object) -> Iterator[object]:
    """Yields what a union or a Literal is made of, to the last one."""
    for part in typing.get_args(kind):
        yield from (part, *_choices(part))


def _docstring(section: type, name: str) -> str:
    """Returns what stands under a field, in the class that has it."""
    for kind in section.__mro__:
        docs = ModuleAnalyzer.for_module(kind.__module__).find_attr_docs()
        if (kind.__name__, name) in docs:
            return " ".join(docs[kind.__name__, name])
    raise KeyError(f"{section.__name__}.{name} has no docstring")


HELP.mkdir(parents=True, exist_ok=True)
_write_help()
_write_settings()
