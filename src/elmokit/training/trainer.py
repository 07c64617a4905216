"""One training step, and everything that a step depends on as one state.

Letters: B rows, W window.
"""

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from elmokit.errors import TrainingError
from elmokit.model import BiLM
from elmokit.nn import State
from elmokit.nn.softmax import LogUniformSampler
from elmokit.training.config import TrainConfig
from elmokit.training.corpus import Corpus
from elmokit.training.distributed import Processes
from elmokit.training.objective import Losses, Objective
from elmokit.training.optimizers import Optimizers
from elmokit.training.streams import WindowStream
from elmokit.training.windows import TypeTable, as_step


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step did, in all processes."""

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
        config: The run.
        processes: This process among the run's.
        bilm: The model that learns.
        stream: The windows of this process.
        table: The ids of the corpus's types.
        step: Steps done.
        steps_per_epoch: Steps in which all processes together read the text once.
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
            InputError: The corpus has fewer sentences than there are processes.
        """
        self.config, self.processes = config, processes
        self.table = TypeTable(corpus.types, bilm)
        self.bilm = bilm.to(processes.device)
        if config.start is not None and not config.start.train_bilm:
            bilm.network.requires_grad_(False)
        self._sampler = _sampler(config, len(corpus.vocabulary.words))
        assert bilm.softmax is not None
        self._rows = bilm.softmax.weight if self.is_sampled else None
        self._optimizers = Optimizers(
            config.optimizer,
            (parameter for parameter in bilm.parameters() if parameter.requires_grad),
            [] if self._rows is None else [self._rows],
        )
        objective = Objective(bilm, dropout=config.objective.dropout, sparse=self.is_sampled)
        self._objective = self._parallel(objective.train())
        schedule = config.schedule
        self.stream = WindowStream(
            corpus,
            batch_size=schedule.batch_size,
            window=schedule.window,
            seed=config.seed,
            rank=processes.rank,
            world_size=processes.world_size,
        )
        zeros = State(*(torch.zeros_like(part) for part in bilm.initial_state))
        self._state = zeros.expand(schedule.batch_size)
        self.step = 0
        self.steps_per_epoch = math.ceil(self.stream.steps_per_epoch / schedule.accumulate)
        self.num_steps = schedule.steps or math.ceil(schedule.epochs * self.steps_per_epoch)
        torch.manual_seed(config.seed + 1 + processes.rank)  # dropout differs between processes

    @property
    def is_sampled(self) -> bool:
        """Whether losses are those of sampled words."""
        return self._sampler is not None

    @property
    def step_predictions(self) -> int:
        """Predictions per direction of a step, in all processes."""
        schedule = self.config.schedule
        rows = schedule.batch_size * self.processes.world_size
        return rows * schedule.window * schedule.accumulate

    @property
    def epoch(self) -> float:
        """How often the text has been read."""
        return self.step / self.steps_per_epoch

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
            with self._gradients_stay_here(number < accumulate - 1):
                losses = self._losses()
                (scale / accumulate * (losses.forward + losses.backward) / 2).backward()  # type: ignore[no-untyped-call]  # torch
            sums[0] += losses.forward.item() / accumulate
            sums[1] += losses.backward.item() / accumulate
        if self._rows is not None and self._rows.grad is not None:
            self._rows.grad = self.processes.mean_rows(self._rows.grad)
        forward, backward = self.processes.mean(sums)
        norm = self._optimizers.clip()
        if not all(map(math.isfinite, (forward, backward, norm))):
            raise TrainingError(
                f"step {self.step + 1}, epoch {self.epoch:.2f}: loss {forward:.4g} forward, "
                f"{backward:.4g} backward, gradient norm {norm:.4g}: no longer finite"
            )
        rate = self._optimizers.step(self.step, self.num_steps)
        self.step += 1
        return StepResult(forward, backward, norm, rate)

    def state(self) -> dict[str, Any]:
        """Returns what all processes share: step, weights, optimizer.

        Raises:
            TrainingError: A weight is not finite, so that there is nothing to keep.
        """
        for name, parameter in self.bilm.named_parameters():
            if not bool(parameter.isfinite().all()):
                raise TrainingError(
                    f"step {self.step}, epoch {self.epoch:.2f}: {name} is no longer finite"
                )
        return {
            "step": self.step,
            "model": self.bilm.state_dict(),
            "optimizer": self._optimizers.state_dict(),
        }

    def own_state(self) -> dict[str, Any]:
        """Returns what is this process's own: carried state, place in the text, random numbers."""
        cuda = self.processes.device.type == "cuda"
        return {
            "carried": [part.cpu() for part in self._state],
            "stream": self.stream.state(),
            "negatives": None if self._sampler is None else self._sampler.generator.get_state(),
            "random": torch.get_rng_state(),
            "cuda_random": torch.cuda.get_rng_state(self.processes.device) if cuda else None,
        }

    def restore(self, state: Mapping[str, Any], own_state: Mapping[str, Any]) -> None:
        """Goes back to where the two states were taken.

        Raises:
            OutputError: They are of another text.
        """
        device = self.processes.device
        self.step = state["step"]
        self.bilm.load_state_dict(state["model"])
        self._optimizers.load_state_dict(state["optimizer"])
        self.stream.restore(own_state["stream"])
        self._state = State(*(part.to(device) for part in own_state["carried"]))
        if self._sampler is not None:
            self._sampler.generator.set_state(own_state["negatives"])
        torch.set_rng_state(own_state["random"])
        if own_state["cuda_random"] is not None and device.type == "cuda":
            torch.cuda.set_rng_state(own_state["cuda_random"], device)

    def set_accumulators(self, accumulators: Mapping[str, Tensor]) -> None:
        """Lets Adagrad go on from sums of squared gradients, by a checkpoint's names of tensors."""
        self._optimizers.set_accumulators(
            {
                parameter: accumulators[name.removeprefix("network.")]
                for name, parameter in self.bilm.named_parameters()
                if parameter.requires_grad
            }
        )

    def _losses(self) -> Losses:
        device = self.processes.device
        batch, targets, _ = as_step(next(self.stream), self.table, device)
        negatives = None if self._sampler is None else self._sampler.draw(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=self.config.precision == "bf16"):
            losses, self._state = self._objective(batch, targets, self._state, negatives)
        return losses  # type: ignore[no-any-return]  # modules return anything

    def _parallel(self, objective: Objective) -> nn.Module:
        """Wraps the objective for several processes, which begin with the first one's weights.

        Rows of the softmax are exchanged by `mean_rows`: the wrapper takes sparse gradients from
        torch's own embedding layers only, and NCCL takes none.
        """
        if self.processes.world_size == 1:
            return objective
        ignored = [f"bilm.network.{name}" for name, _ in self.bilm.network.named_buffers()]
        if self._rows is not None:
            ignored.append("bilm.softmax.weight")
            dist.broadcast(self._rows.data, 0)
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(objective, ignored)  # type: ignore[no-untyped-call]  # torch
        return DistributedDataParallel(objective)

    def _gradients_stay_here(self, stay: bool) -> contextlib.AbstractContextManager[Any]:
        """Puts off the exchange of gradients between processes to a step's last window."""
        if stay and isinstance(self._objective, DistributedDataParallel):
            return self._objective.no_sync()
        return contextlib.nullcontext()


def _sampler(config: TrainConfig, num_words: int) -> LogUniformSampler | None:
    """Returns what draws words; the seed is every process's, so that they draw the same."""
    negatives = config.objective.num_negatives
    if negatives is None or negatives >= num_words:
        return None
    return LogUniformSampler(num_words, negatives, config.seed)
