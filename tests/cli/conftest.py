"""Runs commands in this process and looks at what they say and leave behind."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from elmokit.cli import main


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def elmo(capsys) -> Callable[..., Ran]:
    """`elmo("info", path)` runs a command."""

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def refused(elmo, tmp_path) -> Callable[..., str]:
    """Runs a command that must fail with one line and change no file; returns the line."""

    def run(*arguments: object) -> str:
        before = contents(tmp_path)
        ran = elmo(*arguments)
        assert (ran.code, ran.out) == (2, ""), ran
        assert ran.err.endswith("\n")
        assert ran.err.count("\n") == 1, ran.err
        assert ran.err.startswith("elmo: ")
        assert "Traceback" not in ran.err
        assert contents(tmp_path) == before
        return ran.err.removeprefix("elmo: ").rstrip("\n")

    return run


def contents(folder: Path) -> dict[str, bytes | None]:
    """The files of a folder and what is in them; None stands for a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
