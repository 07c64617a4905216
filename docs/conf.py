"""How Sphinx builds the manual; `make docs` runs it with every warning an error."""

import contextlib
import io
import os
from pathlib import Path

from elmokit import __version__
from elmokit.cli import main

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


def _write_help() -> None:
    """Writes what `elmo COMMAND --help` prints, for the page of the command line to include."""
    os.environ["COLUMNS"] = "90"
    directory = Path(__file__).parent / "_build" / "help"
    directory.mkdir(parents=True, exist_ok=True)
    for command in ("", "embed", "info", "convert"):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            main([*command.split(), "--help"])
        (directory / f"{command or 'elmo'}.txt").write_text(printed.getvalue(), encoding="utf-8")


_write_help()
