"""The directory of a run: what it holds, and how a model gets its place in it.

run.json       the settings that the run began with; it makes the directory a run's
vocab.txt      the words that are predicted
corpus/        the prepared text, heldout/ likewise
log.jsonl      what happened (see `record`), tensorboard/ likewise
checkpoint.pt  the last state (see `checkpoint`)
model/         the best model on held-out text so far; without such text, the last checkpoint's
last/          the model at the end, if there is held-out text
"""

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path
from typing import Any

import safetensors

from elmokit.checkpoints import write as write_checkpoint
from elmokit.checkpoints.files import read_json, read_text, reason, split_lines
from elmokit.checkpoints.source import locate
from elmokit.config import Section
from elmokit.embedding.manifest import write_atomically
from elmokit.errors import CheckpointError, OutputError
from elmokit.model import BiLM
from elmokit.training.checkpoint import CHECKPOINT, check_settings
from elmokit.training.config import MAY_CHANGE, TrainConfig
from elmokit.training.record import LOG
from elmokit.vocabulary import Vocabulary

if sys.platform != "win32":
    import fcntl

SETTINGS, VOCABULARY, CORPUS, HELDOUT = "run.json", "vocab.txt", "corpus", "heldout"
MODEL, LAST = "model", "last"

_NEW, _OLD = ".new", ".old"
"""Added to a model's name while it changes places."""

_LEFTOVERS = (
    *(f"{name}.tmp" for name in (CHECKPOINT, SETTINGS, VOCABULARY, LOG)),
    *(f"{name}{_NEW}" for name in (MODEL, LAST)),
    *(f".{name}{_NEW}.*.part" for name in (MODEL, LAST)),
    *(f"{name}/preparing-*" for name in (CORPUS, HELDOUT)),
)
"""What a process that is killed may leave behind."""


def begin(run_dir: Path, config: TrainConfig) -> None:
    """Makes the directory of a new run.

    Raises:
        CheckpointError: There is no such model as the run is to start from.
        OutputError: The directory holds a run, files that it would overwrite, or the model that
            the run is to start from; or it is in use, or cannot be made.
    """
    if config.start is not None:
        _keep_apart(run_dir, locate(config.start.model))
    check_free(run_dir, (VOCABULARY, CORPUS, HELDOUT, LOG, LAST))
    make(run_dir, config)


def check_free(run_dir: Path, names: Sequence[str]) -> None:
    """Makes sure that a directory has room for a new run; one that learnt nothing gives way.

    Args:
        run_dir: The directory, which need not exist.
        names: What the run would write there, beside what every run does.

    Raises:
        OutputError: The directory holds a run, or files that are no run's and would be overwritten.
    """
    for name in (CHECKPOINT, MODEL, MODEL + _OLD):
        if (run_dir / name).exists():
            raise OutputError(
                f"run_dir: {run_dir} holds a run ({name}); go on with it by --resume, or give "
                "another run_dir"
            )
    if not (run_dir / SETTINGS).exists():
        for name in names:
            if (run_dir / name).exists():
                raise OutputError(
                    f"run_dir: {run_dir / name} exists and would be overwritten; give another "
                    "run_dir"
                )
    if run_dir.is_file():
        raise OutputError(f"run_dir: {run_dir} is a file; give the name of a folder")


def make(run_dir: Path, config: Section) -> None:
    """Makes a directory that is free, and writes the settings that its run begins with.

    Raises:
        OutputError: The directory is in use, or cannot be made.
    """
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        with claimed(run_dir):
            write_atomically(run_dir / SETTINGS, json.dumps(config.to_dict(), indent=1).encode())
    except OSError as error:
        raise OutputError(f"run_dir: {run_dir} cannot be written: {error.strerror}") from None


def goes_on(run_dir: Path, config: Section, *, may_change: Set[str] = MAY_CHANGE) -> bool:
    """Tells whether a run that was cut off got as far as its first checkpoint.

    Args:
        run_dir: Its directory.
        config: The run as it is to go on.
        may_change: Settings that may differ from those it began with.

    Raises:
        CheckpointError: There is no such run.
        OutputError: A setting differs that must not.
    """
    check_settings(run_dir, read_settings(run_dir), config, may_change=may_change)
    return (run_dir / CHECKPOINT).exists()


@contextlib.contextmanager
def claimed(run_dir: Path) -> Iterator[None]:
    """Keeps other processes out of a directory; when this one dies, it is free again.

    The lock is on the directory itself and leaves no file behind. Windows and some network file
    systems have none; there nobody is kept out.

    Raises:
        OutputError: Another process works there.
    """
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(run_dir, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise OutputError(
                    f"run_dir: another process trains in {run_dir}; wait for its end, or give "
                    "another run_dir"
                ) from None
        yield
    finally:
        os.close(descriptor)


def read_settings(run_dir: Path) -> dict[str, Any]:
    """Returns the settings that a run began with.

    Raises:
        CheckpointError: The directory holds no run.
    """
    if not (run_dir / SETTINGS).is_file():
        message = f"run_dir: {run_dir} holds no run to resume; start without --resume"
        if not run_dir.is_absolute():
            message += f", or where the run began: relative paths count from {Path.cwd()} now"
        raise CheckpointError(message)
    return read_json(run_dir / SETTINGS)


def read_words(run_dir: Path) -> Vocabulary:
    """Returns the words that a run predicts, just as they were written when it began.

    Raises:
        CheckpointError: The list cannot be read.
    """
    return Vocabulary(split_lines(read_text(run_dir / VOCABULARY)))


def tidy(run_dir: Path) -> None:
    """Removes what a killed process left behind, or brings it to its end."""
    for pattern in _LEFTOVERS:
        for path in run_dir.glob(pattern):
            _remove(path)
    for name in (MODEL, LAST):
        place, old = run_dir / name, run_dir / (name + _OLD)
        if place.exists():
            _remove(old)
        elif old.exists():
            old.rename(place)


def write_model(bilm: BiLM, run_dir: Path, name: str = MODEL) -> None:
    """Puts a model in the place of the last one; a crash leaves one or the other (see `tidy`).

    Raises:
        OutputError: The disk is full or refuses; the last one is kept.
    """
    checkpoint = bilm.to_checkpoint()
    replace_directory(run_dir / name, lambda new: write_checkpoint(checkpoint, new))


def replace_directory(place: Path, write: Callable[[Path], object]) -> None:
    """Puts a directory in the place of the last one; a crash leaves one or the other.

    Args:
        place: Where it is to be; `tidy` brings back the last one after a crash in between.
        write: Makes the new one at the path given.

    Raises:
        OutputError: The disk is full or refuses; the last one is kept.
    """
    new, old = (place.with_name(f"{place.name}{suffix}") for suffix in (_NEW, _OLD))
    try:
        _remove(new)
        _remove(old)
        write(new)
        if place.exists():
            place.rename(old)
        new.rename(place)
        _remove(old)
    except (OSError, safetensors.SafetensorError, CheckpointError) as error:
        raise OutputError(
            f"{place}: cannot be written ({reason(error)}); the last checkpoint is kept: free some "
            "space, then go on with --resume"
        ) from None


def _keep_apart(run_dir: Path, source: Path) -> None:
    place, source = run_dir.resolve(), source.resolve()
    if place == source or source in place.parents:
        raise OutputError(
            f"run_dir: {run_dir} lies in the model to start from, which is never written to; give "
            "another run_dir"
        )


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
