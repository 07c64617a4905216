"""Training, evaluating and using a task model, from settings and files to files.

A run's directory:

run.json       the settings that the run began with
log.jsonl      a line an epoch
checkpoint.pt  the state after the last epoch, and digests of what is learnt from
model/         the best model on dev so far
results.json   what came out, once the run is finished
"""

import json
import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from elmokit.checkpoints.files import expanded
from elmokit.embedding.devices import find_device
from elmokit.embedding.manifest import Digest, write_atomically
from elmokit.errors import InputError, OutputError, disk_mend
from elmokit.nn.threads import threads
from elmokit.tasks import saved
from elmokit.tasks.config import MAY_CHANGE, TaskConfig
from elmokit.tasks.contents import contents_of
from elmokit.tasks.elmo_at import FrozenLayers
from elmokit.tasks.fingerprint import fingerprint
from elmokit.tasks.fit import Fit, Standing, evaluate, predict
from elmokit.tasks.layer_cache import LayerCache
from elmokit.tasks.readers.reading import check_any
from elmokit.tasks.results import environment
from elmokit.tasks.saved import Trained
from elmokit.tasks.task import InputFormat, Lists, Task
from elmokit.text.lines import DECOMPRESSORS
from elmokit.training import run_directory
from elmokit.training.record import LOG
from elmokit.training.run_directory import MODEL

logger = logging.getLogger(__name__)

RESULTS = "results.json"

_OWN_FILES = (LOG, RESULTS)
"""What a run writes beside what every run does."""

_EXAMPLES_SEED = 0
"""Decides which examples are taken where there are too many; not a run's seed."""


def train(task: Task[Any, Any], config: TaskConfig, *, resume: bool = False) -> dict[str, Any]:
    """Trains a task model, or goes on with a run that was cut off.

    Args:
        task: The task.
        config: The run, of the task's kind.
        resume: Go on after the last epoch; on a CPU all that follows is then as in an uninterrupted
            run, bit for bit, with the same torch and number of threads.

    Returns:
        What is in results.json.

    Raises:
        InputError: The examples cannot be read, or dev has labels that training has not.
        ConfigError: Settings contradict each other or do not fit the examples or the biLM.
        CheckpointError: The biLM, or the checkpoint to resume, cannot be read.
        OutputError: The directory is taken, in use or cannot be written, or a setting, the examples
            or the biLM must not change.
        TrainingError: A loss or gradient is not finite; the last checkpoint is kept.
    """
    run_dir = expanded(config.run_dir)
    with threads(config.threads):
        find_device(config.device)
        if resume:
            run_directory.goes_on(run_dir, config, may_change=MAY_CHANGE)
        else:
            run_directory.check_free(run_dir, _OWN_FILES)
        reading = task.read(config.data.train, config, "train")
        check_any(reading)
        items = _some(reading.items, config.data.max_train)
        lists = task.make_lists(items, config)
        dev = task.read(config.data.dev, config, "eval", lists)
        check_any(dev)
        num_unseen = _check_labels(task, dev.items, lists, skip_bad=config.data.skip_bad)
        trained = saved.new_model(task, config, lists)
        if not resume:  # to read may take long: others may have begun there since
            run_directory.check_free(run_dir, _OWN_FILES)
            run_directory.make(run_dir, config)
        with run_directory.claimed(run_dir):
            run_directory.tidy(run_dir)
            again = resume and run_directory.goes_on(run_dir, config, may_change=MAY_CHANGE)
            standing = _fit(trained, items, dev.items, run_dir, again=again)
            results = _results(trained, standing) | {
                "train": {"examples": len(items), "skipped": reading.num_skipped},
                "dev": {
                    "examples": len(dev.items),
                    "skipped": dev.num_skipped,
                    "unseen_labels": num_unseen,
                    **standing.best,
                },
            }
            _write_json(run_dir / RESULTS, results)
    return results


def evaluate_file(
    trained: Trained, source: str, output: Path | None = None, *, overwrite: bool = False
) -> dict[str, Any]:
    """Scores a trained model on a file, with as many threads as torch has.

    Args:
        trained: The model.
        source: The examples, in the task's format.
        output: A JSON file for the results.
        overwrite: Replace a file that is there.

    Raises:
        InputError: The examples cannot be read, or have labels that training has not.
        OutputError: The results are there, or cannot be written.
    """
    if output is not None:
        _check_output(output, overwrite=overwrite)
    task, config, lists = trained.task, trained.config, trained.lists
    reading = task.read(source, config, "eval", lists)
    check_any(reading)
    num_unseen = _check_labels(task, reading.items, lists, skip_bad=config.data.skip_bad)
    results = {
        "task": task.name,
        "file": reading.name,
        "examples": len(reading.items),
        "skipped": reading.num_skipped,
        "unseen_labels": num_unseen,
        **evaluate(trained, reading.items),
        "environment": environment(),
    }
    if output is not None:
        _write_json(output, results)
    return results


def predict_file(
    trained: Trained,
    source: str,
    output: Path,
    *,
    format: InputFormat = "task",
    overwrite: bool = False,
) -> int:
    """Writes predictions, one row per row that was read, with as many threads as torch has.

    Args:
        trained: The model.
        source: What to predict for; `-` is standard input.
        output: The file to write, whole or not at all, in the encoding of the source.
        format: What the source is.
        overwrite: Replace a file that is there.

    Returns:
        The number of examples.

    Raises:
        InputError: The source cannot be read.
        OutputError: The output is there, or cannot be written.
    """
    _check_output(output, overwrite=overwrite)
    task, config, lists = trained.task, trained.config, trained.lists
    reading = task.read(source, config, "predict", lists, format)
    predictions = predict(trained, reading.items)
    lines = task.write(reading, predictions, config, lists, format)
    _write(output, "".join(f"{line}\n" for line in lines), config.data.encoding)
    return len(reading.items)


def _check_output(output: Path, *, overwrite: bool) -> None:
    if output.exists() and not overwrite:
        raise OutputError(f"{output}: exists; give another file, or --overwrite")
    if not output.parent.is_dir():
        raise OutputError(f"{output}: its folder does not exist; make it first")
    if output.suffix in DECOMPRESSORS:
        raise OutputError(f"{output}: is not compressed; give a name without {output.suffix}")


def _fit(
    trained: Trained, items: Sequence[Any], dev: Sequence[Any], run_dir: Path, *, again: bool
) -> Standing:
    """Lets a model learn, the best one on dev kept in the run's directory."""
    fit = Fit(trained, items, dev, _contents(trained))
    if again:
        fit.resume(run_dir)
    _use_cache(trained, run_dir, [*items, *dev])
    _say_plan(trained, items, dev)
    return fit.run(
        run_dir,
        lambda: run_directory.replace_directory(
            run_dir / MODEL, lambda new: saved.save(trained, new)
        ),
    )


def _contents(trained: Trained) -> dict[str, str | None]:
    """Returns what a model that has not learnt yet is to learn from."""
    elmo, bilm = trained.model.elmo, None
    if elmo is not None:
        assert trained.bilm is not None
        bilm = trained.bilm.fingerprint if elmo.bilm is None else fingerprint(elmo.bilm)
    lists = Digest.of_bytes(json.dumps(trained.lists).encode()).sha256
    return contents_of(trained.config, bilm) | {"words and labels": lists}


def _some(items: Sequence[Any], most: int | None) -> list[Any]:
    """Returns as many examples as are wanted, in their order, always the same ones."""
    if most is None or most >= len(items):
        return list(items)
    generator = torch.Generator().manual_seed(_EXAMPLES_SEED)
    places = torch.randperm(len(items), generator=generator)[:most].sort().values
    return [items[place] for place in places.tolist()]


def _check_labels(
    task: Task[Any, Any], items: Sequence[Any], lists: Lists, *, skip_bad: bool
) -> int:
    """Returns how many labels no training example had; they count as errors of the model.

    Raises:
        InputError: There is one, and errors are not to be passed over.
    """
    known = set(task.known_labels(lists))
    unseen = [found for item in items for found in task.labels(item) if found[0] not in known]
    first = dict(reversed(unseen))  # label -> where it is first
    for label, number in Counter(label for label, _ in unseen).items():
        message = f"{first[label]}: the label {label!r} occurs in no training example"
        if not skip_bad:
            raise InputError(f"{message}; --skip-bad goes on and counts it as an error")
        logger.warning("%s: counted as an error, %s times", message, f"{number:,}")
    return len(unseen)


def _use_cache(trained: Trained, run_dir: Path, items: Sequence[Any]) -> None:
    """Lets ELMo read layers from files, if it is frozen and they may be kept."""
    elmo, cache = trained.model.elmo, trained.config.cache
    if elmo is None or not cache.use or not isinstance(elmo.source, FrozenLayers):
        return
    assert trained.bilm is not None
    assert trained.bilm.fingerprint is not None
    directory = expanded(cache.directory) if cache.directory else run_dir.parent / "layers"
    kept = LayerCache(directory, dtype=cache.dtype, max_bytes=cache.max_gigabytes * 1e9).open(
        (sentence for item in items for sentence in trained.task.sentences(item)),
        elmo.source,
        fingerprint=trained.bilm.fingerprint,
        layers=elmo.layers,
        dim=elmo.dim,
    )
    if kept is not None:
        elmo.source = kept


def _say_plan(trained: Trained, items: Sequence[Any], dev: Sequence[Any]) -> None:
    elmo = trained.config.elmo
    place = f"ELMo ({elmo.model}) at {elmo.at}" if elmo.places else "no ELMo"
    logger.info(
        "%s: %s examples to learn from, %s of dev, %s parameters, %s",
        trained.task.name,
        *(f"{len(items):,}", f"{len(dev):,}", f"{_num_parameters(trained):,}", place),
    )


def _num_parameters(trained: Trained) -> int:
    return sum(p.numel() for p in trained.model.parameters() if p.requires_grad)


def _results(trained: Trained, standing: Standing) -> dict[str, Any]:
    return {
        "task": trained.task.name,
        "metric": trained.task.metric(trained.lists),
        "score": standing.best[trained.task.metric(trained.lists)],
        "best_epoch": standing.best_epoch,
        "epochs": standing.epoch,
        "seconds": standing.seconds,
        "parameters": _num_parameters(trained),
        "mixes": standing.mixes,
        "config": trained.config.to_dict(),
        "environment": environment(),
    }


def _write_json(path: Path, data: dict[str, Any]) -> None:
    _write(path, json.dumps(data, indent=1) + "\n")


def _write(path: Path, text: str, encoding: str = "utf-8") -> None:
    try:
        write_atomically(path, text.encode(encoding))
    except UnicodeEncodeError as error:
        raise OutputError(
            f"{path}: {text[error.start : error.end]!r} cannot be written in {encoding} "
            "(data.encoding); give the file in utf-8, and set data.encoding=utf-8"
        ) from None
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written ({error.strerror}); {disk_mend(error.errno)}"
        ) from None
