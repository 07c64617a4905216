"""An initial state from running text, so that no sentence meets a cold start.

Letters: L layers, D projection width, H cell size.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from elmokit.embedding.computing import computing
from elmokit.errors import ConfigError
from elmokit.nn import State

if TYPE_CHECKING:
    from elmokit.embedding.embedder import Embedder


def calibrate(emb: "Embedder", sentences: Sequence[Sequence[str]]) -> None:
    """Stores the mean state after a sentence, h (L, 2, D) and c (L, 2, H); see `Embedder`.

    Raises:
        ConfigError: The model carries no state, or there is no sentence.
    """
    network = emb.bilm.network
    if not network.has_state:
        raise ConfigError(
            "calibrate: this model's LSTM carries no state; there is nothing to calibrate"
        )
    if not len(sentences):
        raise ConfigError("calibrate: give at least one sentence")
    state: State | None = State(*(torch.zeros_like(x) for x in network.initial_state)).expand(1)
    total = State(*(torch.zeros_like(x, dtype=torch.float64) for x in network.initial_state))
    with computing(emb.bilm.device):
        for sentence in sentences:
            batch, vectors = emb.pack([sentence])
            _, state = network.run(vectors, batch, state)
            assert state is not None
            for sums, part in zip(total, state, strict=True):
                sums += part[:, :, 0]
    for buffer, sums in zip(network.initial_state, total, strict=True):
        buffer.copy_(sums / len(sentences))
