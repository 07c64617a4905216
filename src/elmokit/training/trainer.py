"""One training step, and everything that a step depends on as one state.

Letters: B rows, W window.
"""

import contextlib
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from elmokit.errors import TrainingError
from elmokit.model import BiLM
from elmokit.nn import State
from elmokit.nn.softmax import LogUniformSampler
from elmokit.training.config import TrainConfig
from elmokit.training.corpus import Corpus
from elmokit.training.distributed import Processes
from elmokit.training.objective import Objective
from elmokit.training.optimizers import Optimizers
from elmokit.training.streams import WindowStream
from elmokit.training.windows import TypeTable, as_step


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step did."""

    forward: float
    """Mean loss in nats, left to right; over sampled words if the softmax is sampled."""
    backward: float
    """The same, right to left."""
    gradient_norm: float
    """Before its limit."""
    learning_rate: float


class Trainer:
    """A model with its text, optimizer and random numbers; steps forward one batch at a time.

    Attributes:
        bilm: The model that learns.
        stream: The windows of this process.
        table: The ids of the corpus's types.
        step: Steps done.
        num_steps: Steps in all.
    """

    def __init__(
        self, config: TrainConfig, bilm: BiLM, corpus: Corpus, processes: Processes
    ) -> None:
        """Prepares the first step.

        Args:
            config: The run.
            bilm: The model that learns, in place.
            corpus: Its text.
            processes: This process among the run's.

        Raises:
            ConfigError: A setting is out of range for this text or vocabulary.
        """
        self.config, self.processes = config, processes
        self.table = TypeTable(tuple(corpus.types), bilm)
        self.bilm = bilm.to(processes.device)
        if config.start is not None and not config.start.train_bilm:
            self.bilm.network.requires_grad_(False)
        negatives = config.objective.num_negatives
        # The seed is every process's: negatives are shared, as by the rows of one batch.
        self._sampler = (
            None
            if negatives is None
            else LogUniformSampler(len(corpus.vocabulary.words), negatives, config.seed)
        )
        sparse = self._sampler is not None and processes.has_sparse_reduce
        objective = Objective(bilm, dropout=config.objective.dropout, sparse=sparse).train()
        parameters = [p for p in bilm.parameters() if p.requires_grad]
        assert bilm.softmax is not None
        self._optimizers = Optimizers(
            config.optimizer, parameters, [bilm.softmax.weight] if sparse else []
        )
        self._objective: nn.Module = (
            DistributedDataParallel(objective) if processes.world_size > 1 else objective
        )
        schedule = config.schedule
        self.stream = WindowStream(
            corpus,
            batch_size=schedule.batch_size,
            window=schedule.window,
            seed=config.seed,
            rank=processes.rank,
            world_size=processes.world_size,
        )
        self._state: State | None = None
        self.step = 0
        self.steps_per_epoch = math.ceil(self.stream.steps_per_epoch / schedule.accumulate)
        self.num_steps = schedule.steps or math.ceil(schedule.epochs * self.steps_per_epoch)
        torch.manual_seed(config.seed + 1 + processes.rank)  # dropout differs between processes

    @property
    def step_predictions(self) -> int:
        """Predictions per direction of a step, in all processes."""
        schedule = self.config.schedule
        rows = schedule.batch_size * self.processes.world_size
        return rows * schedule.window * schedule.accumulate

    def advance(self) -> StepResult:
        """Makes one step.

        Raises:
            TrainingError: A loss or gradient is not finite; the weights are as before the step.
        """
        accumulate = self.config.schedule.accumulate
        # bilm-tf's Adagrad follows the gradient of the loss times the window.
        scale = self.config.schedule.window if self.config.optimizer.name == "adagrad" else 1
        sums = [0.0, 0.0]
        for number in range(accumulate):
            last = number == accumulate - 1
            with self._gradients_stay_here(not last):
                losses = self._losses()
                (scale / accumulate * (losses.forward + losses.backward) / 2).backward()
            sums[0] += losses.forward.item() / accumulate
            sums[1] += losses.backward.item() / accumulate
        norm = self._optimizers.clip()
        if not all(map(math.isfinite, (*sums, norm))):
            raise TrainingError(
                f"step {self.step + 1}: loss {sums[0]:.4g} forward, {sums[1]:.4g} backward, "
                f"gradient norm {norm:.4g}: no longer finite; the last checkpoint is good: lower "
                "optimizer.learning_rate or optimizer.clip_norm and begin anew"
            )
        rate = self._optimizers.step(self.step, self.num_steps)
        self.step += 1
        return StepResult(sums[0], sums[1], norm, rate)

    def state(self) -> dict[str, Any]:
        """Returns what all processes share: step, weights, optimizer."""
        return {
            "step": self.step,
            "model": self.bilm.state_dict(),
            "optimizer": self._optimizers.state_dict(),
        }

    def own_state(self) -> dict[str, Any]:
        """Returns what is this process's own: carried state, place in the text, random numbers."""
        cuda = self.processes.device.type == "cuda"
        return {
            "carried": None if self._state is None else [part.cpu() for part in self._state],
            "stream": self.stream.state(),
            "negatives": None if self._sampler is None else self._sampler.generator.get_state(),
            "random": torch.get_rng_state(),
            "cuda_random": torch.cuda.get_rng_state(self.processes.device) if cuda else None,
        }

    def restore(self, state: dict[str, Any], own_state: dict[str, Any]) -> None:
        """Goes back to where the two states were taken."""
        self.step = state["step"]
        self.bilm.load_state_dict(state["model"])
        self._optimizers.load_state_dict(state["optimizer"])
        self.stream.restore(own_state["stream"])
        carried, device = own_state["carried"], self.processes.device
        self._state = None if carried is None else State(*(part.to(device) for part in carried))
        if self._sampler is not None:
            self._sampler.generator.set_state(own_state["negatives"])
        torch.set_rng_state(own_state["random"])
        if own_state["cuda_random"] is not None and device.type == "cuda":
            torch.cuda.set_rng_state(own_state["cuda_random"], device)

    def _losses(self) -> Any:
        device = self.processes.device
        batch, targets, _ = as_step(next(self.stream), self.table, device)
        if self._state is None:
            self._state = self._zero_state()
        negatives = None if self._sampler is None else self._sampler.draw(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=self.config.precision == "bf16"):
            losses, self._state = self._objective(batch, targets, self._state, negatives)
        return losses

    def _zero_state(self) -> State:
        zero = State(*(torch.zeros_like(part) for part in self.bilm.initial_state))
        return zero.expand(self.config.schedule.batch_size)

    def _gradients_stay_here(self, stay: bool) -> contextlib.AbstractContextManager[Any]:
        """Puts off the exchange of gradients between processes to a step's last window."""
        if stay and isinstance(self._objective, DistributedDataParallel):
            return self._objective.no_sync()
        return contextlib.nullcontext()
