"""A training run from its configuration to a finished model.

A run's directory holds the prepared text (corpus/, heldout/, vocab.txt), the log (log.jsonl), the
last checkpoint (checkpoint.pt) and the model (model/): the best one on held-out text so far, or the
last one if there is none.
"""

import contextlib
import logging
import math
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from elmokit.checkpoints import write as write_checkpoint
from elmokit.errors import OutputError
from elmokit.model import BiLM
from elmokit.training import checkpoint
from elmokit.training.build import build, vocabulary_of
from elmokit.training.config import TrainConfig
from elmokit.training.corpus import Corpus, open_corpus, prepare
from elmokit.training.distributed import Processes, joined
from elmokit.training.measure import measure
from elmokit.training.plan import plan
from elmokit.training.record import Record
from elmokit.training.trainer import StepResult, Trainer
from elmokit.training.vocabulary import read_vocabulary, write_vocabulary
from elmokit.training.windows import TypeTable

logger = logging.getLogger(__name__)

MODEL, VOCABULARY = "model", "vocab.txt"


def pretrain(config: TrainConfig, *, resume: bool = False) -> Path:
    """Trains a biLM, or goes on with a run that was cut off.

    Args:
        config: The run.
        resume: Go on from the run's checkpoint. On a CPU all further losses and weights are those
            of an uninterrupted run, bit for bit, with the same torch and number of threads.

    Returns:
        The directory of the model.

    Raises:
        ConfigError: Settings contradict each other or do not fit the text.
        InputError: The text or the word list cannot be read.
        CheckpointError: The model to start from, or the checkpoint to resume, cannot be read.
        OutputError: The directory is taken or cannot be written, or a setting must not change.
        TrainingError: A loss or gradient is not finite.
    """
    run_dir = Path(config.run_dir)
    with joined(config.device) as processes, _threads(config.threads):
        saved = None
        if resume:
            saved = checkpoint.load(run_dir, config)
        elif processes.is_first:
            _begin(run_dir)
        processes.wait()
        run = _Run(config, run_dir, processes, saved)
        with run.record or contextlib.nullcontext(), _termination() as terminated:
            run.train(terminated)
    return run_dir / MODEL


class _Run:
    """A run in one process: its parts, and the loop over steps."""

    def __init__(
        self,
        config: TrainConfig,
        run_dir: Path,
        processes: Processes,
        saved: dict[str, Any] | None,
    ) -> None:
        self.config, self.run_dir, self.processes = config, run_dir, processes
        source = BiLM.from_pretrained(config.start.model) if config.start else None
        corpus, self.heldout = _open_text(config, run_dir, processes, source, saved is not None)
        self.trainer = Trainer(config, build(config, corpus, source), corpus, processes)
        self.heldout_table = (
            TypeTable(tuple(self.heldout.types), self.trainer.bilm)
            if self.heldout and processes.is_first
            else None
        )
        self.best, self.waited = math.inf, 0
        self.previous = math.inf
        if saved is not None:
            self._restore(saved)
        for line in plan(self.trainer, corpus, self.heldout):
            self._say(line)
        self.record = (
            Record(run_dir, step=self.trainer.step, tensorboard=config.tensorboard)
            if processes.is_first
            else None
        )

    def train(self, terminated: threading.Event) -> None:
        """Steps until the end, an early stop or a signal; every way out leaves a checkpoint."""
        trainer, schedule = self.trainer, self.config.schedule
        if trainer.step == 0 and self.config.start is not None:
            self._measure()
        clock, stopping = _Clock(trainer), False
        while trainer.step < trainer.num_steps and not stopping:
            result = trainer.advance()
            if trainer.step % schedule.log_every == 0:
                self._log(result, clock)
            last = trainer.step == trainer.num_steps
            if trainer.step % schedule.evaluate_every == 0 or last:
                stopping = self._measure()
            if self.processes.any(terminated.is_set()):
                self._save()
                self._say(f"stopped by a signal after step {trainer.step:,}; go on with --resume")
                return
            if trainer.step % schedule.checkpoint_every == 0 or last or stopping:
                self._save()
        if self.heldout is None:
            self._write_model()
        self._say(f"finished after {trainer.step:,} steps: the model is in {self.run_dir / MODEL}")

    def _log(self, result: StepResult, clock: "_Clock") -> None:
        trainer, sampled = self.trainer, self.config.objective.num_negatives is not None
        epoch = trainer.step / trainer.steps_per_epoch
        rate, left = clock.read()
        if self.record is None:
            return
        self.record.write(
            "train",
            trainer.step,
            epoch=epoch,
            loss_forward=result.forward,
            loss_backward=result.backward,
            sampled=sampled,
            gradient_norm=result.gradient_norm,
            learning_rate=result.learning_rate,
            tokens_per_second=rate,
        )
        kind = "sampled perplexity" if sampled else "perplexity"
        self._say(
            f"step {trainer.step:,} of {trainer.num_steps:,}, epoch {epoch:.2f}: {kind} "
            f"{_exp(result.forward):.4g} forward, {_exp(result.backward):.4g} backward; "
            f"{rate:,.0f} tokens per second, {left} left"
        )

    def _measure(self) -> bool:
        """Measures on held-out text, keeps the best model; tells whether to stop early."""
        stop = False
        if self.processes.is_first and self.heldout is not None:
            assert self.heldout_table is not None
            found = measure(self.trainer.bilm, self.heldout, self.heldout_table)
            if self.record is not None:
                self.record.write("heldout", self.trainer.step, **found._asdict())
            self._say(
                f"held-out perplexity after step {self.trainer.step:,}: {found.forward:.5g} "
                f"forward, {found.backward:.5g} backward, {found.mean:.5g} mean "
                f"(all {len(self.heldout.vocabulary.words):,} words, </S> counted)"
            )
            if found.mean > self.previous:
                logger.warning(
                    "held-out perplexity rises (%.5g after %.5g), whatever the training loss does: "
                    "the model begins to learn its text by heart, or steps are too large",
                    *(found.mean, self.previous),
                )
            self.previous = found.mean
            stop = self._keep_best(found.mean)
        return bool(self.processes.share(stop))

    def _keep_best(self, perplexity: float) -> bool:
        if perplexity < self.best:
            self.best, self.waited = perplexity, 0
            self._write_model()
            return False
        self.waited += 1
        patience = self.config.schedule.patience
        if patience is None or self.waited < patience:
            return False
        self._say(f"no better for {patience} measurements: stopping early")
        return True

    def _save(self) -> None:
        ranks = self.processes.gather(self.trainer.own_state())
        if self.processes.is_first:
            content = {
                **self.trainer.state(),
                "ranks": ranks,
                "best": self.best,
                "waited": self.waited,
                "previous": self.previous,
            }
            checkpoint.save(self.run_dir, self.config, content)

    def _restore(self, saved: dict[str, Any]) -> None:
        ranks = saved["ranks"]
        if len(ranks) != self.processes.world_size:
            raise OutputError(
                f"{self.run_dir}: cannot resume with other settings (processes: {len(ranks)} -> "
                f"{self.processes.world_size}); start as many processes as before"
            )
        self.trainer.restore(saved, ranks[self.processes.rank])
        self.best, self.waited = saved["best"], saved["waited"]
        self.previous = saved["previous"]
        self._say(
            f"going on after step {self.trainer.step:,}, "
            f"epoch {self.trainer.step / self.trainer.steps_per_epoch:.2f}"
        )

    def _write_model(self) -> None:
        """Puts the present weights in the place of the model."""
        if not self.processes.is_first:
            return
        place, new, old = (self.run_dir / name for name in (MODEL, "model.new", "model.old"))
        for path in (new, old):
            shutil.rmtree(path, ignore_errors=True)
        write_checkpoint(self.trainer.bilm.to_checkpoint(), new)
        if place.exists():
            place.rename(old)
        new.rename(place)
        shutil.rmtree(old, ignore_errors=True)

    def _say(self, message: str) -> None:
        if self.processes.is_first:
            logger.info("%s", message)


class _Clock:
    """Tells the rate since the last reading, and the time left."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._time, self._step = time.monotonic(), trainer.step

    def read(self) -> tuple[float, str]:
        """Returns tokens per second, and hours and minutes left."""
        trainer, now = self._trainer, time.monotonic()
        steps_per_second = (trainer.step - self._step) / max(now - self._time, 1e-9)
        self._time, self._step = now, trainer.step
        minutes = (trainer.num_steps - trainer.step) / max(steps_per_second, 1e-9) / 60
        return (
            steps_per_second * trainer.step_predictions,
            f"{minutes / 60:.0f}:{minutes % 60:02.0f} h",
        )


def _begin(run_dir: Path) -> None:
    """Makes the directory of a new run."""
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"run_dir: {run_dir} cannot be made: {error.strerror}") from None
    for name in (checkpoint.CHECKPOINT, MODEL):
        if (run_dir / name).exists():
            raise OutputError(
                f"run_dir: {run_dir} holds a run ({name}); go on with it by --resume, or give "
                "another run_dir"
            )


def _open_text(
    config: TrainConfig, run_dir: Path, processes: Processes, source: BiLM | None, resumed: bool
) -> tuple[Corpus, Corpus | None]:
    """Prepares the text in the first process and opens it in all; a resumed run only opens it."""
    vocabulary = vocabulary_of(config, source)
    if processes.is_first and not resumed:
        vocabulary = vocabulary or read_vocabulary(Path(str(config.data.vocabulary)))
        write_vocabulary(vocabulary, run_dir / VOCABULARY)
        for patterns, name in ((config.data.train, "corpus"), (config.data.heldout, "heldout")):
            if patterns:
                prepare(patterns, vocabulary, run_dir / name, encoding=config.data.encoding)
    processes.wait()
    vocabulary = vocabulary or read_vocabulary(run_dir / VOCABULARY)
    corpus = open_corpus(run_dir / "corpus", vocabulary)
    heldout = open_corpus(run_dir / "heldout", vocabulary) if config.data.heldout else None
    return corpus, heldout


@contextlib.contextmanager
def _termination() -> Iterator[threading.Event]:
    """Notes SIGTERM instead of dying of it, so that the step can be finished and saved."""
    noted = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        noted.set()

    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = signal.signal(signal.SIGTERM, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _threads(number: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    if number is not None:
        torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf
