"""From arguments to the settings of a command; what is wrong with them becomes one line."""

import contextlib
import io
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tyro

from elmokit.config import nearest
from elmokit.errors import ConfigError

PROGRAM = "elmo"

_DESCRIPTION = (
    "ELMo: contextual word vectors from character-level language models. "
    "`--version` tells which elmokit this is; `--debug` after any command shows where an error "
    "comes from."
)
_NO_FRAME = str.maketrans("│╭╮╰╯", "     ")
_RULE = "─- "
_HELP_TEXT_INDENT = 8
"""The parser sets the help text of an option so far to the right in its messages."""


def parse(arguments: Sequence[str], commands: Mapping[str, type]) -> Any:
    """Returns the settings of the command that the arguments begin with.

    Args:
        arguments: Those of the process, without its name.
        commands: Name -> dataclass of settings.

    Raises:
        ConfigError: An argument is unknown, missing or of a wrong type.
        SystemExit: Help was asked for and printed.
    """
    command = arguments[0] if arguments else ""
    if command and command not in commands and not command.startswith("-"):
        raise ConfigError(
            f"unknown command {command!r}{nearest(command, commands)}; "
            f"use one of {', '.join(commands)}; see {PROGRAM} --help"
        )
    try:
        with _captured() as printed:
            return _parse(arguments, commands)
    except SystemExit as stop:
        if stop.code:
            command = f"{command} " if command in commands else ""
            problem = _statement(printed.getvalue())
            raise ConfigError(f"{problem}; see {PROGRAM} {command}--help") from None
    return _parse(arguments, commands)  # help: once more, as wide and coloured as the terminal


def _parse(arguments: Sequence[str], commands: Mapping[str, type]) -> Any:
    return tyro.extras.subcommand_cli_from_dict(
        dict(commands),
        prog=PROGRAM,
        description=_DESCRIPTION,
        args=arguments,
        config=(tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone),
    )


@contextlib.contextmanager
def _captured() -> Iterator[io.StringIO]:
    """Keeps what the parser prints, without colours, and without line breaks of its own."""
    printed = io.StringIO()
    columns = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(2**20)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(printed):
            yield printed
    finally:
        del os.environ["COLUMNS"]
        if columns is not None:
            os.environ["COLUMNS"] = columns


def _statement(box: str) -> str:
    """Reduces the parser's boxed message to what is wrong, and to the nearest options if any."""
    sections: list[list[str]] = [[]]
    for line in box.translate(_NO_FRAME).strip().splitlines()[1:]:  # the first is a title
        text = line.strip()
        if text and not text.strip(_RULE):
            sections.append([])
        elif line.index(text) < _HELP_TEXT_INDENT:
            sections[-1].append(text)
    problem, *others = (rows for rows in sections if rows)
    text, *rest = itertools.takewhile(bool, problem)
    text = f"{text} {'; '.join(rest)}".rstrip(". ")
    hints = [rows[1] for rows in others if rows[0].startswith(("Perhaps you", "Arguments similar"))]
    if hints and "misplaced" not in text:
        text += f"; perhaps you meant {' and '.join(hints)}"
    return text
