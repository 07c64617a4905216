"""Who takes part in a benchmark of embedding: the contenders of a model, each in a process."""

import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, get_args

from contenders import Setup
from environments import DEFAULT_FOLDER, ensure
from models import Model, ModelName
from worker import Worker

Library = Literal["allennlp", "simple-elmo", "elmoformanylangs", "minilm", "elmokit"]
LIBRARIES: tuple[Library, ...] = get_args(Library)
OURS: Library = "elmokit"
NOT_ELMO: Library = "minilm"
"""Another model: its vectors and its work have nothing to do with those of a biLM."""

_RUNS: dict[ModelName, tuple[Library, ...]] = {
    "small": ("allennlp", "simple-elmo", OURS),
    "original": ("allennlp", "simple-elmo", OURS),
    "default": ("allennlp", "simple-elmo", NOT_ELMO, OURS),
    "manylangs": ("elmoformanylangs", OURS),
}
"""The libraries that read a model, and MiniLM beside the one that it could take the place of."""
_ALL_BATCH_SIZES = ("allennlp", "elmoformanylangs")
"""Libraries that run with every batch size; the others with the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A library and how it runs."""

    library: Library
    batch_size: int | None = None
    precision: str = "fp32"

    @property
    def name(self) -> str:
        """What a table calls it."""
        how = self.precision if self.batch_size is None else f"batch {self.batch_size}"
        return f"{self.library}, {how}"

    @property
    def is_exact(self) -> bool:
        """Whether its vectors are to equal those of the others."""
        return self.library != NOT_ELMO and self.precision == "fp32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """An entry whose model is loaded."""

    entry: Entry
    worker: Worker
    versions: dict[str, str]


def entries_of(
    model: ModelName,
    libraries: Sequence[Library],
    batch_sizes: Sequence[int],
    precisions: Sequence[str],
) -> list[Entry]:
    """Return who takes part with a model, elmokit last.

    Args:
        model: The model.
        libraries: Those that may take part.
        batch_sizes: Sentences in a batch of the others.
        precisions: elmokit's.
    """
    entries = []
    for library in _RUNS[model]:
        if library not in libraries:
            continue
        if library == OURS:
            entries += [Entry(library=library, precision=precision) for precision in precisions]
        else:
            sizes = batch_sizes if library in _ALL_BATCH_SIZES else batch_sizes[:1]
            entries += [Entry(library=library, batch_size=size) for size in sizes]
    return entries


def interpreters(entries: Sequence[Entry], environments: Path) -> dict[Library, Path]:
    """Return the interpreter of each library; environments that are missing are built."""
    libraries = dict.fromkeys(entry.library for entry in entries)
    return {
        library: Path(sys.executable) if library == OURS else ensure(library, environments)
        for library in libraries
    }


@contextmanager
def running(
    entries: Sequence[Entry], pythons: Mapping[Library, Path], model: Model, num_threads: int
) -> Iterator[list[Running]]:
    """Start a process for each entry and load the model; who refuses is named and left out."""
    with ExitStack() as stack:
        loaded = []
        for entry in entries:
            worker = stack.enter_context(Worker(entry.name, pythons[entry.library], num_threads))
            setup = Setup(
                directory=str(model.directory),
                batch_size=entry.batch_size,
                precision=entry.precision,
                num_threads=num_threads,
            )
            reply = worker.ask("load", contender=entry.library, setup=asdict(setup))
            if "refused" in reply:
                print(f"{entry.name} is left out: {reply['refused']}", flush=True)
            else:
                loaded.append(Running(entry=entry, worker=worker, versions=reply["versions"]))
        yield loaded


@contextmanager
def working_folder() -> Iterator[Path]:
    """Make a folder for what one run writes, beside the environments.

    A run that is told to end then leaves as after Ctrl-C: the folder goes, and so do the workers,
    which could not end by themselves while they are stopped.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))
    DEFAULT_FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=DEFAULT_FOLDER) as folder:
        yield Path(folder)
