"""How weights move: Adagrad as bilm-tf has it, AdamW, their learning rate and gradient limit."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adagrad, AdamW, Optimizer, SparseAdam

from elmokit.training.config import OptimizerSection

_INITIAL_ACCUMULATOR = 1.0
"""What Adagrad's accumulators start from in bilm-tf."""


class Optimizers:
    """One or two torch optimizers that step together: two if a gradient is sparse under AdamW."""

    def __init__(
        self,
        config: OptimizerSection,
        parameters: Iterable[nn.Parameter],
        sparse: Sequence[nn.Parameter],
    ) -> None:
        """Prepares the optimizers.

        Args:
            config: Which, and how.
            parameters: All that learn.
            sparse: Those of them whose gradients are sparse.
        """
        self.config = config
        self.parameters = list(parameters)
        rate = config.learning_rate
        rows = {id(parameter) for parameter in sparse}
        dense = [parameter for parameter in self.parameters if id(parameter) not in rows]
        if config.name == "adagrad":
            groups: list[dict[str, Any]] = [
                {"params": list(part)} for part in (dense, sparse) if part
            ]
            if dense and all(parameter.device.type == "cpu" for parameter in dense):
                groups[0]["fused"] = True  # one pass over memory; torch has it for dense ones here
            # eps of zero, as TensorFlow's; accumulators of 1 keep the quotient finite.
            self._optimizers: list[Optimizer] = [
                Adagrad(groups, rate, initial_accumulator_value=_INITIAL_ACCUMULATOR, eps=0)
            ]
            return
        self._optimizers = [AdamW(dense, rate, weight_decay=config.weight_decay)] if dense else []
        if sparse:
            self._optimizers.append(SparseAdam(list(sparse), rate))

    def clip(self) -> float:
        """Limits the gradients; returns the norm of all of them together before that."""
        return clip_gradients(self.parameters, self.config.clip_norm)

    def step(self, step: int, num_steps: int) -> float:
        """Moves the weights along their gradients and clears these.

        Args:
            step: Which step this is, from 0.
            num_steps: Steps in all.

        Returns:
            The learning rate.
        """
        rate = self.config.learning_rate * rate_factor(self.config, step, num_steps)
        # Adagrad makes sparse tensors, and torch warns unless it is told whether to check them.
        with torch.sparse.check_sparse_tensor_invariants(False):  # type: ignore[no-untyped-call]
            for optimizer in self._optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = rate
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        return rate

    def set_accumulators(self, accumulators: Mapping[nn.Parameter, Tensor]) -> None:
        """Lets Adagrad go on from other sums of squared gradients."""
        (adagrad,) = self._optimizers
        for parameter, values in accumulators.items():
            adagrad.state[parameter]["sum"].copy_(values)

    def state_dict(self) -> list[dict[str, Any]]:
        """Returns everything a resumed run needs."""
        return [optimizer.state_dict() for optimizer in self._optimizers]

    def load_state_dict(self, state: Sequence[dict[str, Any]]) -> None:
        """Restores what `state_dict` returned."""
        for optimizer, part in zip(self._optimizers, state, strict=True):
            optimizer.load_state_dict(part)


def rate_factor(config: OptimizerSection, step: int, num_steps: int) -> float:
    """Returns the share of the learning rate that applies at a step, from warm-up and decay."""
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    progress = (step - config.warmup_steps) / max(num_steps - config.warmup_steps, 1)
    if config.decay == "linear":
        return max(0.0, 1 - progress)
    if config.decay == "cosine":
        return (1 + math.cos(math.pi * min(progress, 1.0))) / 2
    return 1.0


def clip_gradients(parameters: Iterable[nn.Parameter], limit: float) -> float:
    """Scales all gradients so that their common norm is at most `limit`.

    Returns:
        The norm before.
    """
    values: list[Tensor] = []
    for parameter in parameters:
        if parameter.grad is not None:
            if parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()
                values.append(parameter.grad._values())
            else:
                values.append(parameter.grad)
    norm = torch.nn.utils.get_total_norm(values)
    if norm > limit:
        for value in values:
            value.mul_(limit / norm)
    return float(norm)
