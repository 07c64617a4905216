"""A training run from its configuration to a finished model; see `run_directory` for its files."""

import contextlib
import dataclasses
import logging
import math
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from elmokit.checkpoints.files import expanded, reason
from elmokit.checkpoints.tensorflow import OptimizerState
from elmokit.errors import OutputError, TrainingError
from elmokit.nn.threads import threads
from elmokit.training import checkpoint, run_directory
from elmokit.training.build import structure
from elmokit.training.config import TrainConfig
from elmokit.training.corpus import Corpus
from elmokit.training.distributed import Processes, joined
from elmokit.training.measure import measure
from elmokit.training.opening import open_again, open_new
from elmokit.training.plan import duration, plan, seconds_per_step
from elmokit.training.record import Record
from elmokit.training.run_directory import LAST, MODEL, write_model
from elmokit.training.signals import Noted, noted
from elmokit.training.standing import Standing
from elmokit.training.trainer import StepResult, Trainer
from elmokit.training.windows import TypeTable

logger = logging.getLogger(__name__)


def pretrain(config: TrainConfig, *, resume: bool = False) -> Path:
    """Trains a biLM, or goes on with a run that was cut off.

    SIGTERM and the first Ctrl-C are held back until the step in progress is done and kept in a
    checkpoint. Under torchrun all processes work on one run; its directory must be where all of
    them see it.

    Args:
        config: The run.
        resume: Go on from the run's checkpoint; the text and the model to start from are needed no
            more. On a CPU all further losses and weights are those of an uninterrupted run, bit for
            bit, with the same torch and number of threads.

    Returns:
        The directory of the model.

    Raises:
        ConfigError: Settings contradict each other or do not fit the text.
        InputError: The text or the word list cannot be read.
        CheckpointError: The model to start from, or the checkpoint to resume, cannot be read.
        OutputError: The directory is taken, in use or cannot be written, or a setting must not
            change.
        TrainingError: A loss, gradient or weight is not finite, or memory is short; nothing is
            overwritten.
        KeyboardInterrupt: After Ctrl-C, once the run is kept; or at once after a second one.
    """
    run_dir = expanded(config.run_dir)
    with (
        joined(config.device) as processes,
        threads(config.threads),
        _short_memory_told(),
        contextlib.ExitStack() as stack,
    ):
        again = resume and run_directory.goes_on(run_dir, config)
        if processes.is_first:
            if not again:
                run_directory.begin(run_dir, config)
            stack.enter_context(run_directory.claimed(run_dir))
            run_directory.tidy(run_dir)
        processes.wait()
        run = _Run(config, run_dir, processes, again=again)
        stack.enter_context(run.record or contextlib.nullcontext())
        signals = stack.enter_context(noted(run.say, impatient=processes.world_size == 1))
        finished = run.train(signals)
    if not finished:
        signal.raise_signal(signals.number or signal.SIGTERM)
    return run_dir / MODEL


class _Run:
    """A run in one process: its parts, and the loop over steps."""

    def __init__(
        self, config: TrainConfig, run_dir: Path, processes: Processes, *, again: bool
    ) -> None:
        """Prepares a run and tells its plan.

        Args:
            config: The run.
            run_dir: Its directory.
            processes: This process among the run's.
            again: Go on from the checkpoint; otherwise the first one is made.
        """
        self.config, self.run_dir, self.processes = config, run_dir, processes
        self.standing, self.saved_step = Standing(), 0
        saved = checkpoint.load(run_dir, config) if again else None
        opening = (
            open_again(config, run_dir, saved) if saved else open_new(config, run_dir, processes)
        )
        self.trainer = Trainer(config, opening.bilm, opening.corpus, processes)
        self.heldout = opening.heldout
        self._heldout_table = (
            TypeTable(opening.heldout.types, opening.bilm)
            if opening.heldout is not None and processes.is_first
            else None
        )
        if saved is None:
            self._go_on_from(opening.optimizer)
            self._save()
        else:
            self._restore(saved)
            self._tell_other_arithmetic(saved)
        self._plan(opening.corpus)
        self.record = (
            Record(run_dir, step=self.trainer.step, tensorboard=config.tensorboard)
            if processes.is_first
            else None
        )

    def train(self, signals: Noted) -> bool:
        """Steps until the end or an early stop; every way out leaves a checkpoint.

        Args:
            signals: One of them leaves after the step in progress.

        Returns:
            Whether the run is finished.
        """
        trainer, schedule = self.trainer, self.config.schedule
        if trainer.step == 0 and self.config.start is not None:
            self._measure()
        clock, over = _Clock(trainer), self.standing.is_over(schedule.patience)
        if over or trainer.step >= trainer.num_steps:
            self._tell_nothing_is_left(early=over)
        while trainer.step < trainer.num_steps and not over:
            result = self._advance()
            if trainer.step % schedule.log_every == 0:
                self._log(result, clock)
            last = trainer.step == trainer.num_steps
            epoch_ends = trainer.step % trainer.steps_per_epoch == 0
            if trainer.step % schedule.evaluate_every == 0 or epoch_ends or last:
                over = self._measure()
            leave = self.processes.any(signals.number is not None)
            if trainer.step % schedule.checkpoint_every == 0 or last or over or leave:
                self._save()
            if leave:
                self.say(f"stopped by a signal after step {trainer.step:,}; go on with --resume")
                return False
        self._finish()
        return True

    def _go_on_from(self, optimizer: OptimizerState | None) -> None:
        if optimizer is not None:
            self.trainer.set_accumulators(optimizer.accumulators)
            self.say(
                f"going on with bilm-tf's training after update {optimizer.step:,}, with its "
                "accumulators of Adagrad"
            )

    def _plan(self, corpus: Corpus) -> None:
        """Tells the plan; the steps that are timed for it are taken back."""
        trainer, seconds = self.trainer, None
        if trainer.step < trainer.num_steps:
            seconds = seconds_per_step(self._advance)
            self._restore(checkpoint.load(self.run_dir, self.config))
        for line in plan(trainer, corpus, self.heldout, seconds):
            self.say(line)
        if trainer.step and seconds is not None:
            self.say(f"going on after step {trainer.step:,}, epoch {trainer.epoch:.2f}")

    def _advance(self) -> StepResult:
        try:
            return self.trainer.advance()
        except TrainingError as error:
            raise self._refusal(error) from None

    def _log(self, result: StepResult, clock: "_Clock") -> None:
        trainer = self.trainer
        rate, seconds_left = clock.read()
        if self.record is None:
            return
        self.record.write(
            "train",
            trainer.step,
            epoch=trainer.epoch,
            loss_forward=result.forward,
            loss_backward=result.backward,
            sampled=trainer.is_sampled,
            gradient_norm=result.gradient_norm,
            learning_rate=result.learning_rate,
            tokens_per_second=rate,
        )
        kind = "sampled perplexity" if trainer.is_sampled else "perplexity"
        self.say(
            f"step {trainer.step:,} of {trainer.num_steps:,}, epoch {trainer.epoch:.2f}: {kind} "
            f"{_exp(result.forward):.4g} forward, {_exp(result.backward):.4g} backward; "
            f"{rate:,.0f} tokens per second, {duration(seconds_left)} left"
        )

    def _measure(self) -> bool:
        """Measures on held-out text, keeps the best model; tells whether to stop early."""
        if self.heldout is None:
            return False
        over = False
        if self.record is not None and self._heldout_table is not None:
            found = measure(self.trainer.bilm, self.heldout, self._heldout_table)
            self.record.write("heldout", self.trainer.step, **found._asdict())
            self.say(
                f"held-out perplexity after step {self.trainer.step:,}: {found.forward:.5g} "
                f"forward, {found.backward:.5g} backward, {found.mean:.5g} mean "
                f"(all {len(self.heldout.vocabulary.words):,} words, </S> counted, "
                "state carried)"
            )
            if self.standing.add(found.mean):
                write_model(self.trainer.bilm, self.run_dir)
            patience = self.config.schedule.patience
            over = self.standing.is_over(patience)
            if over:
                self.say(f"no better for {patience} measurements: stopping early")
        return bool(self.processes.share(over))

    def _save(self) -> None:
        """Keeps the state in the checkpoint, and in the model unless held-out text decides."""
        try:
            state = self.trainer.state()
        except TrainingError as error:
            raise self._refusal(error) from None
        ranks = self.processes.gather(self.trainer.own_state())
        if self.processes.is_first:
            content = {
                **state,
                "structure": structure(self.trainer.bilm),
                "arithmetic": self._arithmetic(),
                "ranks": ranks,
                "standing": dataclasses.asdict(self.standing),
            }
            checkpoint.save(self.run_dir, self.config, content)
            self.saved_step = self.trainer.step
            if self.heldout is None and self.trainer.step:
                write_model(self.trainer.bilm, self.run_dir)
        self.processes.wait()

    def _restore(self, saved: dict[str, Any]) -> None:
        ranks = saved["ranks"]
        if len(ranks) != self.processes.world_size:
            raise OutputError(
                f"{self.run_dir}: cannot resume with other settings (processes: {len(ranks)} -> "
                f"{self.processes.world_size}); start as many processes as before"
            )
        self.trainer.restore(saved, ranks[self.processes.rank])
        self.standing, self.saved_step = Standing(**saved["standing"]), saved["step"]

    def _arithmetic(self) -> dict[str, str]:
        """Returns what the last bits of a loss depend on besides the settings that must stay."""
        return {
            "torch": str(torch.__version__),
            "device": self.processes.device.type,
            "threads": str(torch.get_num_threads()),
        }

    def _tell_other_arithmetic(self, saved: dict[str, Any]) -> None:
        before, now = saved.get("arithmetic", {}), self._arithmetic()
        changes = [f"{key}: {old} -> {now[key]}" for key, old in before.items() if old != now[key]]
        if changes and self.processes.is_first:
            logger.warning(
                "resumed with another %s: further losses differ in their last digits from those of "
                "an uninterrupted run",
                "; ".join(changes),
            )

    def _tell_nothing_is_left(self, *, early: bool) -> None:
        schedule, step, wanted = self.config.schedule, self.trainer.step, self.trainer.num_steps
        if early:
            why = f"it stopped early (schedule.patience: {schedule.patience})"
            raised = "schedule.patience"
        else:
            why = f"the settings ask for {wanted:,}"
            raised = "schedule.epochs" if schedule.steps is None else "schedule.steps"
        undone = "; steps are not undone" if step > wanted else ""
        self.say(
            f"nothing is left to do: the run has made {step:,} steps, {why}{undone}; to train "
            f"longer, raise {raised}"
        )

    def _finish(self) -> None:
        """Puts the models in their places, which a run killed in between may have missed."""
        if not self.processes.is_first:
            return
        names = {MODEL if self.heldout is None else LAST}
        if not (self.run_dir / MODEL).exists():  # no measurement was finite, or somebody took it
            names.add(MODEL)
        for name in sorted(names):
            write_model(self.trainer.bilm, self.run_dir, name)
        if self.heldout is not None and self.config.start is not None:
            self.say(
                f"held-out perplexity: {self.standing.first:.5g} before, "
                f"{self.standing.previous:.5g} after, {self.standing.best:.5g} at its best"
            )
        self.say(
            f"finished after {self.trainer.step:,} steps: the model is in {self.run_dir / MODEL}"
        )

    def _refusal(self, error: TrainingError) -> TrainingError:
        """Adds to what went wrong what is left, and what to do."""
        model = self.run_dir / MODEL
        start = f", perhaps with start.model: {model}" if model.exists() else ""
        return TrainingError(
            f"{error}; nothing is overwritten, {self.run_dir / checkpoint.CHECKPOINT} of step "
            f"{self.saved_step:,} is good: begin another run with a lower optimizer.learning_rate "
            f"or optimizer.clip_norm{start}"
        )

    def say(self, message: str) -> None:
        """Tells the user something, once for all processes."""
        if self.processes.is_first:
            logger.info("%s", message)


class _Clock:
    """Tells the rate since the last reading, and the time left."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._time, self._step = time.monotonic(), trainer.step

    def read(self) -> tuple[float, float]:
        """Returns tokens per second, and seconds left."""
        trainer, now = self._trainer, time.monotonic()
        seconds = (now - self._time) / (trainer.step - self._step)
        self._time, self._step = now, trainer.step
        left = (trainer.num_steps - trainer.step) * seconds
        return trainer.step_predictions / max(seconds, 1e-9), left


@contextlib.contextmanager
def _short_memory_told() -> Iterator[None]:
    """Says what to make smaller; on a CPU torch has one kind of error for everything."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        is_memory = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not is_memory and "allocate memory" not in str(error):
            raise
        raise TrainingError(
            "memory is short: make schedule.batch_size, schedule.window, objective.num_negatives, "
            "the word list or the model smaller, in a new run_dir; nothing is overwritten "
            f"({reason(error)})"
        ) from None


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf
