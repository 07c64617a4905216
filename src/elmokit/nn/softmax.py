"""The LM softmax over words: full, and sampled with the log-uniform candidates of bilm-tf.

Letters: N predictions, V words, D projection width, S sampled words.
"""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from elmokit.errors import ConfigError


class Negatives(NamedTuple):
    """Words drawn for one step."""

    words: Tensor
    """(S,) int64, distinct."""
    num_tries: float
    """Draws that were needed to find S distinct words."""
    num_words: int
    """V."""

    def expected_count(self, words: Tensor) -> Tensor:
        """(K,) words -> (K,) how often each is expected among the S, as TensorFlow counts it."""
        share = log_uniform_probability(words, self.num_words)
        return -torch.expm1(self.num_tries * torch.log1p(-share))


class LMSoftmax(nn.Module):
    """One linear layer from an LSTM output to a word; both directions share it (paper, 3.1)."""

    def __init__(self, num_words: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_words, dim))
        self.bias = nn.Parameter(torch.zeros(num_words))
        nn.init.normal_(self.weight, std=1 / math.sqrt(dim))

    def forward(self, hidden: Tensor) -> Tensor:
        """(N, D) LSTM outputs -> (N, V) logits."""
        return F.linear(hidden, self.weight, self.bias)

    def loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy of each prediction over all words.

        Args:
            hidden: (N, D) LSTM outputs.
            targets: (N,) int64 words.

        Returns:
            (N,) in nats.
        """
        return F.cross_entropy(self(hidden), targets, reduction="none")

    def sampled_loss(
        self, hidden: Tensor, targets: Tensor, negatives: Negatives, *, sparse: bool = False
    ) -> Tensor:
        """Cross-entropy over the true word and sampled ones, corrected for their chance of a draw.

        This is TensorFlow's `sampled_softmax_loss`: the logarithm of its expected count is taken
        off each logit, and a sampled word that is the true one does not count.

        Args:
            hidden: (N, D) LSTM outputs.
            targets: (N,) int64 words.
            negatives: Sampled words, shared by all predictions.
            sparse: Whether the gradient of `weight` holds the rows of the words in question only.

        Returns:
            (N,) in nats, of the reduced problem: comparable among themselves only.
        """
        num_targets = len(targets)
        rows = torch.cat([targets, negatives.words])
        weight = F.embedding(rows, self.weight, sparse=sparse)
        bias = F.embedding(rows, self.bias[:, None]).squeeze(1)
        true = (hidden * weight[:num_targets]).sum(dim=1) + bias[:num_targets]
        true = true - negatives.expected_count(targets).log()
        shift = bias[num_targets:] - negatives.expected_count(negatives.words).log()
        others = _LogSumOfOthers.apply(  # type: ignore[no-untyped-call]  # torch
            hidden, weight[num_targets:], shift, *_hits(targets, negatives)
        )
        return torch.logaddexp(true, others) - true


def _hits(targets: Tensor, negatives: Negatives) -> tuple[Tensor, Tensor]:
    """Finds the targets that were drawn as well: (K,) predictions and (K,) places in the sample."""
    place = targets.new_full((negatives.num_words,), -1)
    place[negatives.words] = torch.arange(len(negatives.words), device=place.device)
    places = place[targets]
    predictions = (places >= 0).nonzero().squeeze(1)
    return predictions, places[predictions]


class _LogSumOfOthers(torch.autograd.Function):
    """log of the sum of exp(hidden weight^T + bias) over the words, hits left out; (N,).

    Automatic differentiation would keep the (N, S) logits and pass over them five times more.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, rows: Tensor, columns: Tensor
    ) -> Tensor:
        shares = torch.addmm(bias, hidden, weight.t()).to(bias.dtype)
        shares[rows, columns] = -math.inf
        # Where nothing is left the sum is next to zero, not zero, so that no gradient is NaN.
        limits = torch.finfo(bias.dtype)
        most = shares.amax(dim=1, keepdim=True).clamp_(min=limits.min)
        total = shares.sub_(most).exp_().sum(dim=1, keepdim=True).clamp_(min=limits.tiny)
        ctx.save_for_backward(hidden, weight, shares, total)
        return (most + total.log()).squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, shares, total = ctx.saved_tensors
        logits = shares * (gradient[:, None] / total)
        return logits @ weight, logits.t() @ hidden, logits.sum(dim=0), None, None


def log_uniform_probability(words: Tensor, num_words: int) -> Tensor:
    """(K,) words -> (K,) float32 chance of each in one draw: log((k + 2) / (k + 1)) / log(V + 1).

    Zipf's law for a vocabulary sorted by falling frequency, as in TensorFlow's sampler.
    """
    return torch.log1p(1 / (words.float() + 1)) / math.log(num_words + 1)


class LogUniformSampler:
    """Draws distinct words by `log_uniform_probability`, from a generator of its own.

    Attributes:
        generator: Its state is part of a training checkpoint.
    """

    def __init__(self, num_words: int, num_samples: int, seed: int) -> None:
        """Begins a sequence of draws.

        Args:
            num_words: V.
            num_samples: S, fewer than V.
            seed: Where the sequence starts.

        Raises:
            ConfigError: There are not so many words.
        """
        if not 0 < num_samples < num_words:
            raise ConfigError(
                f"num_negatives: {num_samples} must lie between 1 and the vocabulary's "
                f"{num_words} words; use the full softmax for a small vocabulary"
            )
        self.num_words, self.num_samples = num_words, num_samples
        self.generator = torch.Generator().manual_seed(seed)

    def draw(self, device: torch.device | None = None) -> Negatives:
        """Draws S distinct words, counting the draws."""
        draws = torch.empty(0, dtype=torch.int64)
        while True:
            uniform = torch.rand(
                2 * self.num_samples, generator=self.generator, dtype=torch.float64
            )
            new = torch.expm1(uniform * math.log(self.num_words + 1)).long()
            draws = torch.cat([draws, new.clamp(max=self.num_words - 1)])
            words, inverse = torch.unique(draws, return_inverse=True)
            if len(words) >= self.num_samples:
                break
        # The draw at which each distinct word came first; S of them are the sample.
        first = torch.full((len(words),), len(draws)).scatter_reduce(
            0, inverse, torch.arange(len(draws)), "amin"
        )
        firsts, order = torch.sort(first)
        num_tries = float(firsts[self.num_samples - 1] + 1)
        return Negatives(words[order[: self.num_samples]].to(device), num_tries, self.num_words)
