"""What the package promises as a whole: light imports, names, versions, small files, clean text."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

import elmokit
from elmokit import BiLM, Embedder
from elmokit.checkpoints.source import BUNDLED
from elmokit.text import is_tokenizer

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "elmokit"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

# Prints a report as its last line. The first part must run before anything imports torch.
REPORT = """
import importlib, json, logging, os, pkgutil, sys, warnings

EXTRAS = "huggingface_hub pyarrow zstandard spacy yaml scipy sklearn matplotlib fastapi uvicorn"
for name in [*EXTRAS.split(), "tensorboard", "ray", "flair"]:
    sys.modules[name] = None  # importing it is a ModuleNotFoundError

import elmokit
from elmokit.cli import main

codes = [main(arguments) for arguments in (["--help"], ["embed", "--help"])]
heavy = sorted({"torch", "numpy", "h5py", "safetensors"} & set(sys.modules))

import h5py, numpy, regex, safetensors.torch, torch, tqdm, tyro

def globals_of_the_process():
    known = list(logging.root.manager.loggerDict)
    loggers = [logging.getLogger(), *map(logging.getLogger, known)]
    return {
        "handlers": sum(len(logger.handlers) for logger in loggers),
        "filters": [str(entry) for entry in warnings.filters],
        "environment": dict(os.environ),
        "device": str(torch.get_default_device()),
        "torch": [torch.get_num_threads(), torch.is_grad_enabled(), torch.initial_seed()],
    }

before = globals_of_the_process()
failed, names = {}, []
for module in pkgutil.walk_packages(elmokit.__path__, "elmokit."):
    names.append(module.name)
    try:
        importlib.import_module(module.name)
    except Exception as error:
        failed[module.name] = repr(error)
after = globals_of_the_process()
changed = [name for name in before if before[name] != after[name]]
report = {"codes": codes, "heavy": heavy, "failed": failed, "names": names, "changed": changed}
print(json.dumps(report))
"""


@pytest.fixture(scope="module")
def report():
    """What a new process found that has the core dependencies alone."""
    command = [sys.executable, "-c", REPORT]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_import_and_help_need_no_heavy_library(report):
    assert report["codes"] == [0, 0]
    assert report["heavy"] == []


def test_every_module_imports_without_extras(report):
    report["failed"].pop("elmokit.nn.triton_cell", None)  # loaded on a GPU, where torch has Triton
    assert report["failed"] == {}
    assert len(report["names"]) > 50


def test_importing_sets_nothing(report):
    assert report["changed"] == []


def test_public_names_resolve():
    for name in elmokit.__all__:
        assert getattr(elmokit, name) is not None
    assert set(elmokit.__all__) <= set(dir(elmokit))
    with pytest.raises(AttributeError, match="'Elmoo'"):
        _ = elmokit.Elmoo


def test_type_information_ships():
    assert (files("elmokit") / "py.typed").is_file()


def test_versions_agree():
    place = PYPROJECT["tool"]["hatch"]["version"]["path"]
    assert f'__version__ = "{elmokit.__version__}"' in (ROOT / place).read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {elmokit.__version__}\n" in citation
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)", changes, re.MULTILINE)
    assert newest is not None
    assert newest[1] == elmokit.__version__


@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_model_comes_with_all_that_a_user_must_know(name):
    folder = SOURCE / "pretrained" / name
    card = BiLM.from_pretrained(name).card
    assert card.name
    assert card.language
    assert card.licence.startswith("Apache-2.0")
    assert is_tokenizer(card.tokenizer)
    assert card.training["steps"] > 1_000
    heldout = [text.split()[1] for text in card.results if text.endswith("carry, mean")]
    assert heldout
    for text in heldout:
        assert card.results[f"perplexity {text} carry, mean"] < card.results[f"trigram {text}"]
    told = (folder / "README.md").read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([\w.]+)\)", told):
        assert (folder / link).is_file()
    assert "attribution" in (folder / "NOTICE").read_text(encoding="utf-8")


def test_bundled_models_are_small_enough_for_the_package():
    sizes = {path: path.stat().st_size for path in (SOURCE / "pretrained").rglob("*")}
    assert sum(sizes.values()) < 25e6
    assert sum(size for path, size in sizes.items() if "default" in path.parts) < 12e6


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("default", "The old man sat down by the fire and began to read a letter from his son ."),
        ("zh-hant", "他 走 進 房 間 ， 看 見 一 個 老 人 坐 在 門 前 。"),
    ],
)
def test_a_bundled_model_foretells_its_language(name, text):
    """Word order is what it knows: text is far likelier than its words in any other order."""
    emb = Embedder.from_pretrained(name)
    words = text.split()
    written = emb.perplexity([words]).mean
    order = np.random.default_rng(0)
    shuffled = [emb.perplexity([order.permutation(words).tolist()]).mean for _ in range(5)]
    assert written < 200
    assert written < 0.3 * min(shuffled)
    assert emb.embed([words])[0].shape == (3, len(words), 256)


def test_extras_in_messages_exist():
    extras = PYPROJECT["project"]["optional-dependencies"]
    texts = [*SOURCE.rglob("*.py"), ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    named = {
        extra
        for path in texts
        for group in re.findall(r"elmokit\[([a-z,]+)\]", path.read_text(encoding="utf-8"))
        for extra in group.split(",")
    }
    assert named
    assert named <= set(extras)


def test_what_make_installs_is_pinned():
    project = PYPROJECT["project"]
    groups = project["optional-dependencies"]
    wanted = [*project["dependencies"]]
    for extra in ("hub", "arrow", "zstd", "spacy", "analysis", "test", "lint", "docs"):
        wanted += groups[extra]
    lines = (ROOT / "requirements" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {distribution(line) for line in lines if "==" in line}
    assert {distribution(line) for line in wanted} - {"elmokit"} <= pinned
    assert all("==" in line or line[:1] in ("", "#") for line in lines)
    assert not any("+" in line for line in lines)


def distribution(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None, requirement
    return re.sub(r"[-_.]+", "-", name[0]).lower()


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.name)
def test_modules_and_functions_stay_small(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert lines <= 60, f"{node.name} has {lines} lines"


def test_text_is_free_of_machines_and_hosts():
    # In pieces, since this file is looked through too.
    forbidden = [
        *("/" + "work/", "/" + "root/", "/" + "opt/", "/" + "home/"),
        *("pypi" + ".org", "pythonhosted" + ".org", "npmjs" + ".org", "debian" + ".org"),
    ]
    found = [
        f"{path}: {word}"
        for path, text in texts_of_the_project()
        for word in forbidden
        if word in text
    ]
    assert found == []


def texts_of_the_project():
    """Yields every text file that git tracks or would."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    for name in filter(None, done.stdout.split("\0")):
        path = ROOT / name
        if path.is_file():
            data = path.read_bytes()
            if b"\0" not in data:
                yield name, data.decode("utf-8", "replace")
