"""How Sphinx builds the manual; `make docs` runs it with every warning an error."""

import contextlib
import dataclasses
import io
import json
import os
import textwrap
import typing
from collections.abc import Iterator
from pathlib import Path

from sphinx.pycode import ModuleAnalyzer

from elmokit import __version__
from elmokit.cli import main
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
    for command in (*commands, "task train", "task eval", "task predict"):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            main([*command.split(), "--help"])
        name = command.replace(" ", "-") or "elmo"
        (HELP / f"{name}.txt").write_text(printed.getvalue(), encoding="utf-8")


def _write_settings() -> None:
    """Writes all settings of a training run as the YAML file of their defaults."""
    docs = ModuleAnalyzer.for_module(training.__name__).find_attr_docs()
    text = "\n".join(_settings(training.TrainConfig, docs))
    (HELP / "settings.txt").write_text(f"{text}\n", encoding="utf-8")


def _settings(section: type, docs: dict[tuple[str, str], list[str]]) -> Iterator[str]:
    """Yields the lines of a section: each field below its docstring, as YAML."""
    types = typing.get_type_hints(section)
    for field in dataclasses.fields(section):
        # A docstring that begins on the line of its quotes; `X | None` stands for the section X.
        note = " ".join(" ".join(docs[section.__name__, field.name]).split())
        yield from (f"# {line}" for line in textwrap.wrap(note, 90))
        kinds = (types[field.name], *typing.get_args(types[field.name]))
        inner = next((kind for kind in kinds if dataclasses.is_dataclass(kind)), None)
        if inner is not None:
            optional = "  # as a section only" if field.default is None else ""
            yield f"{field.name}:{optional}"
            yield from (f"  {line}" for line in _settings(inner, docs))
            yield ""
        elif field.default is dataclasses.MISSING:
            yield f"{field.name}:  # needed"
        else:
            choices = [choice for choice in kinds[1:] if isinstance(choice, str)]
            others = [choice for choice in choices if choice != field.default]
            note = f"  # or {', '.join(others)}" if others else ""
            yield f"{field.name}: {json.dumps(field.default)}{note}"


HELP.mkdir(parents=True, exist_ok=True)
_write_help()
_write_settings()
