"""Measure what ELMo adds to the task models: each without it and with it, by the same seeds.

Usage: python benchmarks/tasks.py [--only TASK] [--model default]
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import tyro

from elmokit import BiLM
from elmokit.config import nearest
from elmokit.tasks.fingerprint import fingerprint
from elmokit.training.checkpoint import CHECKPOINT
from elmokit.training.configfile import apply_settings, read_settings
from elmokit.training.run_directory import SETTINGS
from machine import describe_machine
from sample_text import REPOSITORY
from tasks_page import Row, make_page

CONFIGURATIONS = Path(__file__).with_name("tasks")
DATA = "../shared/data"
"""Where the configurations look for data, from the root of the repository."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """A row of the table; how its models learn is said in tasks/NAME.yaml."""

    name: str
    task: str
    title: str
    cap: int | None
    """Training examples of the capped runs; None for runs on the whole file alone."""
    full_epochs: int
    """Most epochs on the whole file, where each has more steps."""
    paper: float | None = None
    """The relative error reduction in the paper's table 1, on the task's own data set there."""


DATA_SETS = (
    DataSet(name="wnut17", task="ner", title="WNUT-17", cap=1000, full_epochs=12, paper=0.21),
    DataSet(name="conll2002-es", task="ner", title="CoNLL-2002, Spanish", cap=None, full_epochs=9),
    DataSet(name="ewt-upos", task="tag", title="EWT, UPOS", cap=1000, full_epochs=4),
    DataSet(name="conll2000", task="tag", title="CoNLL-2000, chunks", cap=1000, full_epochs=4),
    DataSet(name="sst5", task="sentiment", title="SST-5", cap=20000, full_epochs=3, paper=0.068),
    DataSet(name="polarity", task="classify", title="Polarity", cap=1500, full_epochs=6),
    DataSet(name="trec", task="classify", title="TREC, coarse", cap=1000, full_epochs=10),
    DataSet(name="snli", task="entailment", title="SNLI", cap=2000, full_epochs=5, paper=0.058),
    DataSet(name="srl", task="srl", title="PropBank, EWT", cap=2000, full_epochs=2, paper=0.172),
    DataSet(name="sick", task="entailment", title="SICK", cap=1500, full_epochs=10),
    DataSet(name="squad", task="qa", title="SQuAD 1.1", cap=1500, full_epochs=4, paper=0.249),
    DataSet(name="coref", task="coref", title="OntoGUM", cap=None, full_epochs=40, paper=0.098),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is measured."""

    only: str | None = None
    """One data set, or those of one task."""
    model: str = "default"
    """The biLM: directory, zip or tar file of a checkpoint, hub:owner/name, default or zh-hant."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of weights, order of the examples and dropout."""
    minutes: float = 25.0
    """Time for each data set in this call; what is cut off or left goes on in the next."""
    workers: int = 2
    """Runs at a time, of one thread each."""
    cap: int | None = None
    """Training examples of the capped runs, instead of each data set's own number."""
    full: bool = True
    """Train on whole files too, after the capped runs."""
    set: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="KEY=VALUE")
    ] = ()
    """A setting that wins over those of the configurations, such as fit.epochs=1."""
    data: Path = REPOSITORY / DATA
    """Folder of the data sets."""
    folder: Path = REPOSITORY / ".bench/tasks"
    """Where runs and ELMo's layers are kept."""
    results: Path = REPOSITORY / "benchmarks/results/tasks"
    """Where what came out of each run is kept."""
    page: Path = REPOSITORY / "docs/results.md"
    """The page to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One training."""

    data_set: DataSet
    with_elmo: bool
    seed: int
    config: dict[str, Any]
    """Its settings, without places on this machine."""
    bilm: str | None
    """Fingerprint of the biLM, for a name may stand for another model tomorrow."""

    @property
    def size(self) -> int | None:
        """Training examples it is capped at."""
        return self.config["data"].get("max_train")  # type: ignore[no-any-return]

    @property
    def name(self) -> str:
        """That of its result and its directory."""
        arm = "elmo" if self.with_elmo else "none"
        return f"{self.data_set.name}-{self.size or 'full'}-{arm}-{self.seed}"

    @property
    def identity(self) -> dict[str, Any]:
        """What a result must agree with to be this run's."""
        return {"config": self.config, "bilm": self.bilm}


class Store:
    """A folder of runs and their results."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._results = settings.results
        self._results.mkdir(parents=True, exist_ok=True)

    def result(self, run: Run) -> dict[str, Any] | None:
        """Return what came out of a run; None if it is not finished, or had other settings."""
        found = _read(self._results / f"{run.name}.json")
        return found if found is not None and found["asked"] == run.identity else None

    def open(self, run: Run) -> tuple[Path, list[str]]:
        """Return the place of a run, and the command that begins it or goes on with it."""
        place = self._settings.folder / "runs" / run.name
        if _read(place / "asked.json") != run.identity:
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            _write(place / "config.yaml", self._with_places(run.config))  # JSON is YAML
            _write(place / "asked.json", run.identity)
        begun = (place / "run" / SETTINGS).exists()
        return place, [
            *(sys.executable, "-m", "elmokit", "task", "train", run.data_set.task),
            *("-o", str(place / "run"), "--config", str(place / "config.yaml")),
            *(["--resume"] if begun else []),
        ]

    def keep(self, run: Run, place: Path, machine: dict[str, Any]) -> dict[str, Any]:
        """Write the result of a finished run; its checkpoint has done its work."""
        results = _read(place / "run" / "results.json") or {}
        results.pop("config", None)  # as asked, with places on this machine
        report = {
            "asked": run.identity,
            "date": datetime.now(UTC).date().isoformat(),
            "machine": machine,
            **results,
        }
        _write(self._results / f"{run.name}.json", report)
        (place / "run" / CHECKPOINT).unlink(missing_ok=True)
        return report

    def _with_places(self, config: dict[str, Any]) -> dict[str, Any]:
        data = dict(config["data"])
        for name in ("train", "dev"):
            data[name] = str(self._settings.data.resolve() / data[name])
        cache = config.get("cache", {}) | {"directory": str(self._settings.folder / "layers")}
        return config | {"data": data, "cache": cache}


def main(settings: Settings) -> None:
    """Train what is left to train, then write the page from all results there are."""
    chosen = choose(settings.only)
    bilm = fingerprint(BiLM.from_pretrained(settings.model))
    machine = describe_machine()  # before our own load
    store = Store(settings)
    for data_set in chosen:
        measure(list(runs_of(data_set, settings, bilm)), store, machine, settings)
    rows = [row for data_set in DATA_SETS for row in rows_of(data_set, store, settings, bilm)]
    if rows:
        settings.page.write_text(make_page(rows, settings.model), encoding="utf-8")
        print(f"{settings.page}: {len(rows)} rows", flush=True)


def choose(only: str | None) -> list[DataSet]:
    """Return the data sets of a name, be it theirs or a task's."""
    chosen = [found for found in DATA_SETS if only in (None, found.name, found.task)]
    if not chosen:
        names = [name for found in DATA_SETS for name in (found.name, found.task)]
        names = list(dict.fromkeys(names))
        raise SystemExit(f"--only {only}: unknown{nearest(only or '', names)}; {', '.join(names)}")
    return chosen


def runs_of(data_set: DataSet, settings: Settings, bilm: str) -> Iterator[Run]:
    """Yield the runs of a data set: capped before full, both arms of a seed side by side."""
    base = read_settings(CONFIGURATIONS / f"{data_set.name}.yaml")
    at = base["elmo"]["at"]
    sizes = [] if data_set.cap is None else [settings.cap or data_set.cap]
    for size in [*sizes, *([None] if settings.full else [])]:
        for seed in settings.seeds:
            for place in dict.fromkeys(["none", at]):
                config = json.loads(json.dumps(base))
                config |= {"seed": seed, "device": "cpu", "threads": 1}
                config["elmo"] |= {"at": place}
                if place != "none":
                    config["elmo"] |= {"model": settings.model}
                if size is None:
                    config["fit"]["epochs"] = data_set.full_epochs
                else:
                    config["data"]["max_train"] = size
                for name in ("train", "dev"):
                    config["data"][name] = config["data"][name].removeprefix(f"{DATA}/")
                apply_settings(config, settings.set)
                yield Run(
                    data_set=data_set,
                    with_elmo=place != "none",
                    seed=seed,
                    config=config,
                    bilm=None if place == "none" else bilm,
                )


def rows_of(data_set: DataSet, store: Store, settings: Settings, bilm: str) -> Iterator[Row]:
    """Yield a row for each training size of which a run is finished."""
    results: dict[int | None, dict[bool, list[dict[str, Any]]]] = {}
    for run in runs_of(data_set, settings, bilm):
        if (found := store.result(run)) is not None:
            results.setdefault(run.size, {False: [], True: []})[run.with_elmo].append(found)
    for arms in results.values():
        yield Row(
            title=data_set.title,
            task=data_set.task,
            paper=data_set.paper,
            baseline=arms[False],
            elmo=arms[True],
            num_seeds=len(settings.seeds),
        )


def measure(runs: list[Run], store: Store, machine: dict[str, Any], settings: Settings) -> None:
    """Finish as many runs of a data set as the time allows."""
    left = [run for run in runs if store.result(run) is None]
    print(f"{runs[0].data_set.title}: {len(left)} of {len(runs)} runs to do", flush=True)
    deadline = time.monotonic() + 60 * settings.minutes
    with ThreadPoolExecutor(settings.workers) as pool:
        done = list(pool.map(lambda run: finish(run, store, machine, deadline), left))
    if not all(done):
        print(f"  time is up, {done.count(False)} runs are left: call again to go on", flush=True)


def finish(run: Run, store: Store, machine: dict[str, Any], deadline: float) -> bool:
    """Train a run to its end, unless time is up before; it then goes on from its last epoch."""
    started = time.monotonic()
    if started >= deadline:
        return False
    place, command = store.open(run)
    try:
        ended = subprocess.run(
            command,
            cwd=REPOSITORY,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            timeout=deadline - started,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or ["no message"])[-1]
        raise SystemExit(f"{run.name}: elmo ended with {ended.returncode}: {last}")
    report = store.keep(run, place, machine)
    print(
        f"  {run.name}: {report['metric']} {report['score']:.4f} in epoch {report['best_epoch']} "
        f"of {report['epochs']}, {time.monotonic() - started:.0f} s",
        flush=True,
    )
    return True


def _read(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def _write(path: Path, content: dict[str, Any]) -> None:
    """Write a file, whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
