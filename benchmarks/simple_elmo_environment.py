"""Build the virtual environment in which simple-elmo 0.9.2 trains, which is bilm-tf's trainer.

simple-elmo is bilm-tf carried over to TensorFlow 2, where it runs in graph mode. 2.15 is the last
TensorFlow that has all the parts of version 1 it is made of, and Python 3.11 the last that this
TensorFlow is built for. Run this file to build the environment on its own.
"""

import subprocess
import sys
from pathlib import Path

from allennlp_environment import REPOSITORY, python_of

DEFAULT_FOLDER = REPOSITORY / ".bench" / "simple-elmo"

REQUIREMENTS = (
    "simple-elmo==0.9.2",
    "tensorflow-cpu==2.15.1",
    "numpy==1.26.4",
    "h5py==3.16.0",
    "pandas==3.0.6",
    "scipy==1.17.1",
    "smart_open==9.0.2",
)


def ensure_environment(folder: Path = DEFAULT_FOLDER) -> Path:
    """Return the interpreter of simple-elmo's environment, which is built first if need be.

    Args:
        folder: The environment's place; what lies there is replaced unless simple-elmo imports.

    Raises:
        RuntimeError: This Python is too new to build it, or simple-elmo still does not import after
            the installation.
    """
    if import_error(python_of(folder)) is None:
        return python_of(folder)
    if sys.version_info >= (3, 12):
        raise RuntimeError(
            "TensorFlow 2.15 needs Python 3.11; run simple_elmo_environment.py with that once, "
            "then this again"
        )
    print(f"building simple-elmo's environment in {folder} (once, some two minutes)", flush=True)
    build(folder)
    error = import_error(python_of(folder))
    if error is not None:
        raise RuntimeError(f"simple-elmo does not import in {folder}:\n{error}")
    return python_of(folder)


def build(folder: Path) -> None:
    """Create the environment and install everything into it."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    subprocess.run([python_of(folder), "-m", "pip", "install", "-qq", *REQUIREMENTS], check=True)


def import_error(python: Path) -> str | None:
    """Return what importing simple-elmo's trainer says, or None if it imports."""
    if not python.exists():
        return f"{python} does not exist"
    command: list[str | Path] = [python, "-c", "import simple_elmo.training"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else None


if __name__ == "__main__":
    print(ensure_environment())
