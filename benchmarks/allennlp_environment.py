"""Build the virtual environment in which AllenNLP 2.10.1 runs its ELMo on a current PyTorch.

AllenNLP was archived in 2022 and asks for torch below 1.13, but its ELMo needs nothing that has
gone since. So it is installed without its own requirements, beside pinned releases of just the
packages that its imports touch, and an empty stand-in for torchvision, which it imports and its
ELMo never calls. Run this file to build the environment on its own.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
DEFAULT_FOLDER = REPOSITORY / ".bench" / "allennlp"

REQUIREMENTS = (
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
)
INSTALLED_ALONE = ("allennlp==2.10.1", "fairscale==0.4.13")
"""Packages whose own requirements are out of date, installed without them."""

EXECUTABLE = "python.exe" if sys.platform == "win32" else "python"

STUBS = ("torchvision/__init__.py", "torchvision/ops/__init__.py", "torchvision/ops/boxes.py")
STUB_TEXT = '"""An empty stand-in: AllenNLP imports this name, its ELMo uses nothing of it."""\n'


def ensure_environment(folder: Path = DEFAULT_FOLDER) -> Path:
    """Return the interpreter of AllenNLP's environment, which is built first if need be.

    Args:
        folder: The environment's place; what lies there is replaced unless AllenNLP imports.

    Raises:
        RuntimeError: AllenNLP still does not import after the installation.
    """
    if import_error(python_of(folder)) is None:
        return python_of(folder)
    print(f"building AllenNLP's environment in {folder} (once, about two minutes)", flush=True)
    build(folder)
    error = import_error(python_of(folder))
    if error is not None:
        raise RuntimeError(f"AllenNLP does not import in {folder}:\n{error}")
    return python_of(folder)


def build(folder: Path) -> None:
    """Create the environment and install everything into it."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    pip: list[str | Path] = [python_of(folder), "-m", "pip", "install", "-qq"]
    subprocess.run([*pip, *REQUIREMENTS], check=True)
    subprocess.run([*pip, "--no-deps", *INSTALLED_ALONE], check=True)
    site_packages = Path(_venv_path(folder, "purelib"))
    for name in STUBS:
        stub = site_packages / name
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.write_text(STUB_TEXT, encoding="utf-8")


def python_of(folder: Path) -> Path:
    """Return where the environment's interpreter is, or would be."""
    return Path(_venv_path(folder, "scripts")) / EXECUTABLE


def import_error(python: Path) -> str | None:
    """Return what importing AllenNLP's ELMo says, or None if it imports."""
    if not python.exists():
        return f"{python} does not exist"
    command: list[str | Path] = [python, "-c", "import allennlp.modules.elmo"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else None


def _venv_path(folder: Path, kind: str) -> str:
    base = str(folder)
    return sysconfig.get_path(kind, scheme="venv", vars={"base": base, "platbase": base})


if __name__ == "__main__":
    print(ensure_environment())
