"""Training the runs of an analysis: each once, each kept, going on where it was cut off.

An analysis's directory:

sweep.json     what its runs have in common
runs/NAME/     a run (see `tasks.run`); its `model` can be used like any other
layers/        the biLM's layers, which runs share, unless the settings have another place for them
"""

import contextlib
import dataclasses
import importlib
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmokit.analysis.extra import needed
from elmokit.analysis.output import check_folder, model_facts
from elmokit.checkpoints.files import expanded, read_json
from elmokit.embedding.manifest import write_atomically
from elmokit.embedding.place import disk_errors
from elmokit.errors import CheckpointError, ConfigError, InputError, OutputError
from elmokit.model import BiLM
from elmokit.tasks.config import MAY_CHANGE, TaskConfig
from elmokit.tasks.contents import contents_of, other_contents
from elmokit.tasks.run import RESULTS
from elmokit.tasks.run import train as train_task
from elmokit.tasks.task import Task
from elmokit.training import run_directory
from elmokit.training.checkpoint import CHECKPOINT, differences
from elmokit.training.record import LOG

logger = logging.getLogger(__name__)

SWEEP, RUNS, LAYERS = "sweep.json", "runs", "layers"

_MAY_DIFFER = MAY_CHANGE - {"fit.epochs", "fit.patience"} | {"seed"}
"""Settings that the runs of a directory need not have in common."""

_OTHER_PLACE = "give another folder with -o"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A training."""

    name: str
    """That of its directory."""
    config: TaskConfig
    """Its settings; `run_dir` is not used."""


class Sweep:
    """The runs of an analysis in their directory."""

    def __init__(
        self, directory: Path, analysis: str, task: Task[Any, Any], base: TaskConfig
    ) -> None:
        """Prepares to train, or to go on; nothing is written yet.

        Args:
            directory: Place of the runs; that of an analysis that was cut off goes on.
            analysis: Its name.
            task: The task of all runs.
            base: What they have in common; its `run_dir` is not used.

        Raises:
            InputError: A file of examples cannot be read.
            CheckpointError: The biLM cannot be loaded.
            OutputError: The directory holds something else, or runs with other settings.
            MissingExtraError: matplotlib is not installed, without which nothing can be drawn.
        """
        with needed("matplotlib"):  # not after hours of training
            importlib.import_module("matplotlib")
        self.directory, self.analysis = expanded(directory), analysis
        self.task = task
        self._settings = base.to_dict()
        self._model = model_facts(BiLM.from_pretrained(base.elmo.model))
        self._contents = contents_of(base, self._model["sha256"])
        if None in self._contents.values():
            raise InputError("a pipe can be read once, many runs need what is in it; give a file")
        self._common = {
            "analysis": analysis,
            "task": task.name,
            "settings": self._settings,
            "contents": self._contents,
        }
        self._check()

    def data(self) -> dict[str, Any]:
        """Returns what the JSON file of the analysis has of its runs."""
        return {"task": self.task.name, "model": self._model, "settings": self._settings}

    def place(self, name: str) -> Path:
        """Returns the directory of a run."""
        return self.directory / RUNS / name

    def train(self, runs: Sequence[Run]) -> list[dict[str, Any]]:
        """Trains the runs that are not finished.

        Args:
            runs: All runs, in the order in which they are trained.

        Returns:
            What came out of each, in the same order: its results.json.

        Raises:
            ElmokitError: What training raises (see `tasks.run.train`); the runs that are finished
                are kept.
            OutputError: The directory is in use or cannot be written.
        """
        results = []
        with self._claimed():
            for number, run in enumerate(runs, 1):
                path = self.place(run.name) / RESULTS
                finished = path.is_file()
                logger.info(
                    *("run %d of %d: %s%s", number, len(runs), run.name),
                    ", finished before" if finished else "",
                )
                results.append(read_json(path) if finished else self._train(run))
        return results

    def scores(self, name: str) -> list[float]:
        """Returns the score on dev after each epoch of a finished run.

        Raises:
            CheckpointError: Its files do not tell.
        """
        place = self.place(name)
        results = read_json(place / RESULTS)
        try:
            lines = map(json.loads, (place / LOG).read_text(encoding="utf-8").splitlines())
            by_epoch = {line["epoch"]: line[results["metric"]] for line in lines}
            return [by_epoch[epoch] for epoch in range(1, results["epochs"] + 1)]
        except (OSError, ValueError, LookupError, TypeError):
            raise CheckpointError(
                f"{place / LOG}: does not tell the score of each epoch; remove {place}, and the "
                "same command trains this run again"
            ) from None

    def _train(self, run: Run) -> dict[str, Any]:
        place, cache = self.place(run.name), run.config.cache
        if cache.directory is None:
            cache = dataclasses.replace(cache, directory=str(self.directory / LAYERS))
        config = dataclasses.replace(run.config, run_dir=str(place), cache=cache)
        begun = (place / run_directory.SETTINGS).exists()
        results = train_task(self.task, config, resume=begun)
        (place / CHECKPOINT).unlink(missing_ok=True)  # it is large, and has done its work
        return results

    def _check(self) -> None:
        """Makes sure that the directory is free, or that of the same runs."""
        check_folder(self.directory, self.analysis, overwrite=True)
        has_runs = (self.directory / RUNS).exists()
        if not (self.directory / SWEEP).is_file():
            if has_runs:
                raise OutputError(f"{self.directory}: holds other runs; {_OTHER_PLACE}")
            return
        found = read_json(self.directory / SWEEP)
        kinds = [f"{kept.get('analysis')} of {kept.get('task')}" for kept in (found, self._common)]
        if kinds[0] != kinds[1]:
            raise OutputError(f"{self.directory}: holds {kinds[0]}, not {kinds[1]}; {_OTHER_PLACE}")
        if not has_runs:
            return  # nothing was learnt with the settings there
        changes = differences(found["settings"], self._settings, may_change=_MAY_DIFFER)
        changes += other_contents(found["contents"], self._contents)
        if changes:
            raise OutputError(
                f"{self.directory}: cannot go on with other settings ({'; '.join(changes)}); "
                f"change them back, or {_OTHER_PLACE}"
            )

    @contextlib.contextmanager
    def _claimed(self) -> Iterator[None]:
        """Keeps the directory for this process, once its file says what it is."""
        with disk_errors(self.directory, "or give another folder with -o"):
            self.directory.mkdir(exist_ok=True)
        with run_directory.claimed(self.directory):
            self._check()  # another process may have begun here since
            with disk_errors(self.directory, "or give another folder with -o"):
                text = json.dumps(self._common, indent=1)
                write_atomically(self.directory / SWEEP, text.encode())
            yield


def check_reads_elmo(config: TaskConfig) -> None:
    """Raises ConfigError if a run has no ELMo."""
    if not config.elmo.places:
        raise ConfigError("elmo.at: none leaves nothing to compare; use input, output or both")
