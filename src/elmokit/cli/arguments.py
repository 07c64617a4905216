"""From arguments to the settings of a command; what is wrong with them becomes one line."""

import contextlib
import dataclasses
import io
import itertools
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import tyro
from tyro.constructors import ConstructorRegistry, StructConstructorSpec, StructTypeInfo

from elmokit.cli.printing import standard_output
from elmokit.config import nearest
from elmokit.errors import ConfigError

PROGRAM = "elmo"

DESCRIPTION = (
    "ELMo: contextual word vectors from character-level language models.\n"
    "`--version` tells which elmokit this is.\n"
    "`--debug` after any command shows where an error comes from."
)
"""Its lines are printed as they are, however wide the terminal is."""

_NO_FRAME = str.maketrans("│╭╮╰╯", "     ")
_RULE = "─- "
_HELP_TEXT_INDENT = 8
"""The parser sets the help text of an option so far to the right in its messages."""


def parse(
    arguments: Sequence[str],
    commands: Mapping[str, type],
    *,
    program: str = PROGRAM,
    description: str = DESCRIPTION,
) -> Any:
    """Returns the settings of the command that the arguments begin with.

    Args:
        arguments: Those of the process, without the program.
        commands: Name -> dataclass of settings.
        program: What stands before them: the process's name, and the group of commands if any.
        description: What the help says of the commands together.

    Raises:
        ConfigError: An argument is unknown, missing or of a wrong type.
        SystemExit: Help was asked for and printed.
    """
    command = arguments[0] if arguments else ""
    if command and command not in commands and not command.startswith("-"):
        raise ConfigError(
            f"unknown command {command!r}{nearest(command, commands)}; "
            f"use one of {', '.join(commands)}; see {program} --help"
        )
    try:
        with _captured() as printed:
            settings = _parse(arguments, commands, program, description)
        _refuse_folder(arguments, settings)
        return settings
    except SystemExit as stop:
        if stop.code:
            command = f"{command} " if command in commands else ""
            problem = _statement(printed.getvalue())
            raise ConfigError(f"{problem}; see {program} {command}--help") from None
    with standard_output():
        try:
            # Help: once more, as the terminal shows it.
            return _parse(arguments, commands, program, description)
        finally:
            sys.stdout.flush()


def _parse(
    arguments: Sequence[str], commands: Mapping[str, type], program: str, description: str
) -> Any:
    return tyro.extras.subcommand_cli_from_dict(
        dict(commands),
        prog=program,
        description=description,
        args=arguments,
        config=(tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone),
        registry=_registry(commands.values()),
    )


def _registry(kinds: Collection[type]) -> ConstructorRegistry:
    """Returns a rule that leaves `(default: None)` and `(default: False)` out of the help."""
    registry = ConstructorRegistry()
    plain = tyro.conf.arg(help_behavior_hint="")
    asked: set[type] = set()

    @registry.struct_rule
    def rule(info: StructTypeInfo) -> StructConstructorSpec | None:
        if info.type not in kinds or info.type in asked:
            return None  # the parser's own rule
        asked.add(info.type)
        spec = ConstructorRegistry.get_struct_spec(info)
        asked.remove(info.type)
        if not isinstance(spec, StructConstructorSpec):
            return None
        fields = tuple(
            dataclasses.replace(field, type=cast(Any, Annotated[field.type, plain]))
            if field.default is None or field.default is False
            else field
            for field in spec.fields
        )
        return dataclasses.replace(spec, fields=fields)

    return registry


def _refuse_folder(arguments: Sequence[str], settings: Any) -> None:
    """Refuses a slash at the end of an output file, which paths do not keep."""
    output = getattr(settings, "output", None)
    for argument in arguments:
        text = argument.partition("=")[2] if argument.startswith("-") else argument
        if text.endswith(("/", os.sep)) and Path(text) == output:
            raise ConfigError(
                f"{text}: ends in a slash; give the name of a file with -o, no folder"
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
