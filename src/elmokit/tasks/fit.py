"""The loop that every task model learns in: epochs, early stopping on dev, exact resume."""

import dataclasses
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.optim import AdamW

from elmokit.embedding.progress import Progress
from elmokit.errors import CheckpointError, OutputError, TrainingError
from elmokit.tasks.batches import prediction_batches, training_batches
from elmokit.tasks.config import MAY_CHANGE, FitSection
from elmokit.tasks.contents import Contents, other_contents
from elmokit.tasks.saved import Trained
from elmokit.training import checkpoint
from elmokit.training.optimizers import clip_gradients
from elmokit.training.record import Record

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Standing:
    """How a run stands; part of its checkpoint."""

    epoch: int = 0
    """Epochs done."""
    step: int = 0
    """Steps done."""
    best_epoch: int = 0
    """The epoch with the best score on dev, from 1."""
    best: dict[str, Any] = dataclasses.field(default_factory=dict)
    """All its scores."""
    mixes: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What ELMo's mixes were then."""
    seconds: list[float] = dataclasses.field(default_factory=list)
    """How long each epoch took, without its measurement."""

    def is_over(self, fit: FitSection, metric: str) -> bool:
        """Tells whether nothing is left to do."""
        # Few examples are few steps an epoch, and F1 is 0 until the first span is right.
        has_learnt = self.best.get(metric, 0) > 0
        waited = self.epoch - self.best_epoch
        stops = has_learnt and fit.patience is not None and waited >= fit.patience
        return stops or self.epoch >= fit.epochs


class Fit:
    """A run of a task model, epoch by epoch."""

    def __init__(
        self, trained: Trained, train: Sequence[Any], dev: Sequence[Any], contents: Contents
    ) -> None:
        """Prepares the first epoch.

        Args:
            trained: The model, which learns in place.
            train: Examples to learn from.
            dev: Examples to choose the best epoch with.
            contents: What all of that comes from; kept with each checkpoint.
        """
        self.trained, self.train, self.dev = trained, train, dev
        self._contents = dict(contents)
        self.standing = Standing()
        fit = trained.config.fit
        parameters = [p for p in trained.model.parameters() if p.requires_grad]
        self._optimizer = AdamW(parameters, fit.learning_rate, weight_decay=fit.weight_decay)
        self._lengths = [trained.task.length(item) for item in train]

    def run(self, run_dir: Path, keep_best: Callable[[], None]) -> Standing:
        """Learns until the end or an early stop; each epoch ends with a checkpoint.

        Args:
            run_dir: The run's directory.
            keep_best: Called when the model is better on dev than ever before.

        Raises:
            TrainingError: A loss or gradient is not finite; the last checkpoint is kept.
            OutputError: The disk is full or refuses.
        """
        standing, fit = self.standing, self.trained.config.fit
        metric = self.trained.task.metric(self.trained.lists)
        with Record(run_dir, step=standing.step, tensorboard=False) as record:
            while not standing.is_over(fit, metric):
                loss = self._epoch()
                scores = evaluate(self.trained, self.dev)
                is_best = not standing.best or scores[metric] > standing.best[metric]
                if is_best:
                    standing.best, standing.best_epoch = scores, standing.epoch
                    elmo = self.trained.model.elmo
                    standing.mixes = {} if elmo is None else elmo.mix_weights()
                    keep_best()
                # Before the checkpoint: a line of an epoch that is made again is dropped.
                record.write(
                    "epoch",
                    standing.step,
                    epoch=standing.epoch,
                    loss=loss,
                    seconds=standing.seconds[-1],
                    **{name: value for name, value in scores.items() if isinstance(value, float)},
                )
                checkpoint.save(run_dir, self.trained.config, self._state())
                logger.info(
                    "epoch %d of at most %d: loss %.4f, dev %s %.4f%s, %.1f seconds",
                    *(standing.epoch, fit.epochs, loss, metric, scores[metric]),
                    " (best so far)" if is_best else "",
                    standing.seconds[-1],
                )
        return standing

    def resume(self, run_dir: Path) -> None:
        """Goes back to the last checkpoint.

        Raises:
            CheckpointError: There is none, it is damaged, or it is one of another model.
            OutputError: A setting differs that must not, or what is learnt from.
        """
        state = checkpoint.load(run_dir, self.trained.config, may_change=MAY_CHANGE)
        changes = other_contents(state.get("contents", {}), self._contents)
        if changes:
            raise OutputError(
                f"{run_dir}: cannot resume from other examples or another biLM "
                f"({'; '.join(changes)}); put them back, or begin a new run with another run_dir"
            )
        self.standing = Standing(**state["standing"])
        try:
            self.trained.model.load_state_dict(state["model"])
            self._optimizer.load_state_dict(state["optimizer"])
        except (RuntimeError, ValueError):  # that of an older elmokit, which noted no contents
            raise CheckpointError(
                f"{run_dir / checkpoint.CHECKPOINT}: its tensors do not fit the model; begin a new "
                "run with another run_dir"
            ) from None
        torch.set_rng_state(state["random"])
        if state["cuda_random"] is not None and torch.cuda.is_available():
            torch.cuda.set_rng_state(state["cuda_random"])

    def _state(self) -> dict[str, Any]:
        return {
            "contents": self._contents,
            "standing": dataclasses.asdict(self.standing),
            "model": self.trained.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "random": torch.get_rng_state(),
            "cuda_random": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
        }

    def _epoch(self) -> float:
        """Reads all examples once; returns the mean loss of an example."""
        fit, standing = self.trained.config.fit, self.standing
        batches = training_batches(
            self._lengths,
            batch_size=fit.batch_size,
            batch_tokens=fit.batch_tokens,
            seed=self.trained.config.seed,
            epoch=standing.epoch,
        )
        started, total = time.monotonic(), 0.0
        self.trained.model.train()
        with Progress(sum(self._lengths)) as progress:
            for batch in batches:
                total += len(batch) * self._step([self.train[place] for place in batch])
                progress.advance(sum(self._lengths[place] for place in batch))
        standing.epoch += 1
        standing.seconds.append(time.monotonic() - started)
        return total / len(self.train)

    def _step(self, items: Sequence[Any]) -> float:
        """Makes one step; returns the loss without ELMo's penalty."""
        model, standing = self.trained.model, self.standing
        loss = model.loss(items)
        penalty = 0.0 if model.elmo is None else model.elmo.penalty()
        self._optimizer.zero_grad(set_to_none=True)
        (loss + penalty).backward()  # type: ignore[no-untyped-call]  # torch
        norm = clip_gradients(model.parameters(), self.trained.config.fit.clip_norm)
        if not math.isfinite(loss.item()) or not math.isfinite(norm):
            raise TrainingError(
                f"step {standing.step + 1}, epoch {standing.epoch + 1}: loss {loss.item():.4g}, "
                f"gradient norm {norm:.4g}: no longer finite; begin another run with a lower "
                "fit.learning_rate or fit.clip_norm"
            )
        self._optimizer.step()
        standing.step += 1
        return loss.item()


def predict(trained: Trained, items: Sequence[Any]) -> list[Any]:
    """Returns the model's predictions, for each example in order."""
    fit, model = trained.config.fit, trained.model
    lengths = [trained.task.length(item) for item in items]
    predictions: list[Any] = [None] * len(items)
    was_training = model.training
    model.eval()
    with torch.no_grad():
        for batch in prediction_batches(
            lengths, batch_size=fit.batch_size, batch_tokens=fit.batch_tokens
        ):
            found = model.predict([items[place] for place in batch])
            for place, prediction in zip(batch, found, strict=True):
                predictions[place] = prediction
    model.train(was_training)
    return predictions


def evaluate(trained: Trained, items: Sequence[Any]) -> dict[str, Any]:
    """Returns the scores of the model's predictions."""
    return trained.task.evaluate(items, predict(trained, items), trained.lists)
