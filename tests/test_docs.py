"""Runs what the README and the manual show: Python blocks, and commands that begin with `elmo`.

The blocks of a page run in order, in one namespace and one directory, which holds small models and
texts under the names that the pages use. A `yaml` block that begins with `# NAME.yaml` is that
file. A `text` block right after a Python block, and the lines after a command, are the output
expected there; `...` stands for anything.
"""

import contextlib
import doctest
import io
import itertools
import re
import runpy
import shlex
import shutil
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from elmokit import BiLM
from elmokit.cli import main

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "tests" / "fixtures"
CARDS = sorted((ROOT / "src" / "elmokit" / "pretrained").rglob("*.md"))
PAGES = [ROOT / "README.md", *CARDS, *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if "_build" not in page.parts]
TASK_EXAMPLES = sorted((ROOT / "examples").glob("task-*.yaml"))
EXAMPLES = sorted({*(ROOT / "examples").glob("*.yaml")} - {*TASK_EXAMPLES})

_FENCE = re.compile(r"^```(\S+)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LOADING_LINE = re.compile(r"^\|.*`((?:elmokit\.)?BiLM\.from_pretrained\([^`]*\))`", re.MULTILINE)
_FIGURE = re.compile(r"\((figures/[^)]+)\)")
_FILE_NAME = re.compile(r"# (\S+\.yaml)\n")
_NOT_OURS = ("make ", "pip ", "git ", "cd ", "torchrun ")
_SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(match[1], match[2], text.count("\n", 0, match.start(2)))
        for match in _FENCE.finditer(text)
    ]


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A directory with what the pages take for granted, as the current one."""
    model = FIXTURES / "A2_bilm_skip"
    for name in ("options.json", "weights.hdf5"):
        (tmp_path / "my-elmo").mkdir(exist_ok=True)
        shutil.copy(model / name, tmp_path / "my-elmo" / name)
        shutil.copy(model / name, tmp_path / name)
    with zipfile.ZipFile(tmp_path / "my-elmo.zip", "w") as archive:
        archive.write(model / "options.json", "options.json")
        archive.write(model / "weights.hdf5", "model.hdf5")
    for name in ("vocab.txt", "token_embeddings.hdf5"):
        shutil.copy(FIXTURES / "A3_cached_tokens" / name, tmp_path / name)
    for name, fixture in (
        ("word-model", "A3_token_lm"),
        ("manylangs", "B_efml_char_cnn"),
        ("bilm-tf-run", "E_training_char"),
    ):
        shutil.copytree(FIXTURES / fixture, tmp_path / name)
    (tmp_path / "bilm-tf-run" / "weights.hdf5").unlink()
    shutil.move(tmp_path / "bilm-tf-run" / "heldout.txt", tmp_path / "bilm-tf-text.txt")
    for data in (ROOT / "examples" / "data").iterdir():
        shutil.copy(data, tmp_path / data.name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_snippets_run_as_written(page, workplace, request):
    namespace: dict[str, object] = {}
    found = blocks(page)
    if any("my-model" in block.text for block in found):
        shutil.copytree(request.getfixturevalue("trained"), workplace / "my-model")
    for block, following in itertools.zip_longest(found, found[1:]):
        if block.language == "python":
            printed = run_python(block, page, namespace)
            if following is not None and following.language == "text":
                check_output(following.text, printed, f"{page_name(page)}:{following.line}")
        elif block.language in ("console", "sh", "bash"):
            run_commands(block, page)
        elif block.language == "yaml" and (name := _FILE_NAME.match(block.text)):
            (workplace / name[1]).write_text(block.text, encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_loading_lines_of_tables_load(page, workplace):
    for line in _LOADING_LINE.findall(page.read_text(encoding="utf-8")):
        if "hub:" not in line:
            model = eval(line.removeprefix("elmokit."), {"BiLM": BiLM})
            assert model.config.dim > 0, line


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", [page for page in PAGES if "." in page.stem], ids=page_name)
def test_translations_show_the_same_blocks_and_figures(page):
    original = page.with_name(f"{page.stem.partition('.')[0]}{page.suffix}")
    shown, translated = (
        ([(b.language, b.text) for b in blocks(p)], _FIGURE.findall(p.read_text(encoding="utf-8")))
        for p in (original, page)
    )
    assert translated == shown


def test_the_manual_and_its_blocks_are_found():
    assert len(PAGES) > 10
    assert len(EXAMPLES) > 3
    assert sum(block.language == "python" for page in PAGES for block in blocks(page)) > 20


def run_python(block: Block, page: Path, namespace: dict[str, object]) -> str:
    # Blank lines before the block, so that a traceback has the line of the page.
    code = compile("\n" * block.line + block.text, page_name(page), "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


def run_commands(block: Block, page: Path) -> None:
    """Runs the commands of a block; in `console` blocks output follows a command after `$`."""
    text = block.text.replace("\\\n", " ")
    if block.language == "console":
        steps = [step.partition("\n") for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]]
    else:
        steps = [(line, "", "") for line in text.splitlines() if line and line[0] != "#"]
    for command, _, expected in steps:
        where = f"{page_name(page)}:{block.line}: {command}"
        if command.startswith("elmo "):
            printed, code = run_elmo(command)
            assert code == (2 if expected.startswith("elmo: ") else 0), f"{where}\n{printed}"
            if expected:
                check_output(expected, printed, where)
        else:
            assert command.startswith(_NOT_OURS), where


def run_elmo(command: str) -> tuple[str, int]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = main(shlex.split(command, comments=True)[1:])
    return printed.getvalue(), code


def check_output(expected: str, printed: str, where: str) -> None:
    same = doctest.OutputChecker().check_output(expected, printed, _SAME)
    assert same, f"{where}: expected\n{expected}\nfound\n{printed}"


def test_example_shows_embeddings(workplace, monkeypatch, capsys):
    printed, code = run_elmo("elmo embed sentences.txt -o demo.h5")
    assert code == 0, printed
    script = ROOT / "examples" / "show_embeddings.py"
    monkeypatch.setattr(sys, "argv", [str(script), "demo.h5"])
    runpy.run_path(str(script), run_name="__main__")
    assert " 11  (3, 2, 256)            Home ." in capsys.readouterr().out.splitlines()


SMALL = {
    "run_dir": "run",
    "data.train": "train.txt",
    "data.heldout": "heldout.txt",
    "schedule.steps": 1,
    "schedule.batch_size": 2,
}


@pytest.mark.parametrize("config", EXAMPLES, ids=page_name)
def test_example_configurations_train(config, workplace, trained):
    """Each as it is, but for smaller text and sizes."""
    sizes: dict[str, object] = {"data.vocabulary": "words.txt", "model.filters": "[[1,4],[2,4]]"}
    sizes |= {"model.cell_dim": 16, "model.projection_dim": 8}
    if config.name.startswith("fine-tune"):
        sizes = {"start.model": trained}
        if "softmax: new" in config.read_text(encoding="utf-8"):
            sizes["data.vocabulary"] = "words.txt"
    run_elmo("elmo vocab train.txt -o words.txt --min-count 3")
    settings = " ".join(f"--set {key}={value}" for key, value in (SMALL | sizes).items())
    printed, code = run_elmo(f"elmo train {config} {settings}")
    assert code == 0, printed
    assert "held-out perplexity after step 1" in printed
    assert (workplace / "run" / "model" / "config.json").exists()


TASK_DATA = {
    "ner": ("names", "conll"),
    "tag": ("tags", "conllu"),
    "sentiment": ("reviews", "txt"),
    "classify": ("questions", "tsv"),
    "entailment": ("pairs", "tsv"),
    "srl": ("roles", "conll"),
    "qa": ("answers", "json"),
    "coref": ("stories", "conll"),
}


@pytest.mark.parametrize("config", TASK_EXAMPLES, ids=page_name)
def test_example_configurations_of_tasks_train(config, workplace):
    """Each as it is, but for smaller data and sizes."""
    task = config.stem.removeprefix("task-")
    name, suffix = TASK_DATA[task]
    sizes: dict[str, object] = {"model.hidden_dim": 8, "fit.epochs": 1, "data.max_train": 40}
    if task == "entailment":
        columns = {"label_column": 1, "premise_column": 2, "hypothesis_column": 3}
        sizes["data.format"] = "tsv"
        sizes |= {f"data.{key}": f"'\"{value}\"'" for key, value in columns.items()}
    files = " ".join(f"--{part} {name}-{part}.{suffix}" for part in ("train", "dev"))
    settings = " ".join(f"--set {key}={value}" for key, value in sizes.items())
    printed, code = run_elmo(f"elmo task train {task} --config {config} -o run {files} {settings}")
    assert code == 0, printed
    assert (workplace / "run" / "model" / "config.json").exists()
