"""BiLMNetwork: word types -> vectors, packed positions -> the layers of both directions.

Letters: N packed positions, U word types, B rows, L layers, D projection width, H cell size.
"""

import functools
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmokit.batch import Batch, Types
from elmokit.config import BiLMConfig
from elmokit.nn.projected_lstm import ProjectedLSTM
from elmokit.nn.side_by_side import side_by_side
from elmokit.nn.stacked_lstm import StackedLSTM
from elmokit.nn.state import State
from elmokit.nn.token_encoder import TokenEncoder

_MIN_TYPES = 16
"""Rows from which on matrix products round alike; seen to do: 3 at the paper's size, 8 at small."""


@dataclass(frozen=True, slots=True)
class Layers:
    """The outputs of one run, per direction in its own reading order."""

    forward: list[Tensor]
    """L + 1 tensors (N, D), the token layer first; the top alone for a stacked LSTM."""
    backward: list[Tensor]
    """The same for the right-to-left reading."""

    def __len__(self) -> int:
        return len(self.forward)

    def join(self, layer: int, flipped: Tensor) -> Tensor:
        """Sets both directions of one layer side by side.

        Args:
            layer: 0 for the token layer, which becomes [x; x], up to L.
            flipped: (N,) from `Batch.flipped()`.

        Returns:
            (N, 2D) in the order of the forward reading.
        """
        backward = F.embedding(flipped, self.backward[layer])
        return torch.cat([self.forward[layer], backward], dim=1)


class BiLMNetwork(nn.Module):
    """The biLM without its softmax (paper, section 3.1 and 3.4)."""

    initial_h: Tensor
    initial_c: Tensor

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.config = config
        lstm = config.lstm
        self.token_encoder = TokenEncoder(config)
        self.stacked_lstm = StackedLSTM(lstm) if lstm.kind == "stacked" else None
        if lstm.kind == "projected":
            self.forward_lstm, self.backward_lstm = (
                nn.ModuleList(
                    ProjectedLSTM(lstm, lstm.projection_dim) for _ in range(lstm.num_layers)
                )
                for _ in ("forward", "backward")
            )
            self.register_buffer("initial_h", torch.zeros(lstm.num_layers, 2, lstm.projection_dim))
            self.register_buffer("initial_c", torch.zeros(lstm.num_layers, 2, lstm.cell_dim))

    @property
    def has_state(self) -> bool:
        """Whether LSTM state can be carried; a stacked LSTM, as its original, has none to carry."""
        return self.config.lstm.kind == "projected"

    @property
    def initial_state(self) -> State:
        """State before a sentence's first position: h (L, 2, D), c (L, 2, H)."""
        return State(self.initial_h, self.initial_c)

    def encode_types(self, types: Types) -> Tensor:
        """Encodes each word type by itself; returns (U, D).

        Matrix products over few rows round in another way than over many, and the LSTM amplifies
        it. Few types are therefore encoded as `_MIN_TYPES`, so that a type's vector does not depend
        on how many others are new with it.
        """
        count = len(types)
        if count < _MIN_TYPES:
            types = types[torch.arange(_MIN_TYPES) % count]
        return self.token_encoder(types)[:count]  # type: ignore[no-any-return]

    def run(
        self, vectors: Tensor, batch: Batch, state: State | None = None, *, dropout: float = 0.0
    ) -> tuple[Layers, State | None]:
        """Runs the LSTM layers over a packed batch.

        Args:
            vectors: (U, D) of the batch's types.
            batch: The packed positions.
            state: State of each packed row before the batch, (L, 2, B, D) and (L, 2, B, H); the
                initial state if absent. A stacked LSTM ignores it.
            dropout: Probability of dropping an element of any layer's input, as bilm-tf trains
                (a skip connection adds the input with its dropout).

        Returns:
            The layers, and the state after each row's last position (None for a stacked LSTM). For
            an LSTM that read `<S> w1 .. wn </S>` that is after `</S>` forward and `<S>` backward.
        """
        forward = F.embedding(batch.forward, vectors)
        if self.stacked_lstm is not None:
            ahead, back = self.stacked_lstm(forward, batch.batch_sizes)
            return Layers([ahead], [F.embedding(batch.flipped(), back)]), None
        if state is None:
            state = self.initial_state.expand(len(batch.lengths))
        backward = F.embedding(batch.backward, vectors)
        computations = [
            functools.partial(
                self._run_direction,
                lstm,
                inputs,
                batch,
                State(*(part[:, direction] for part in state)),
                dropout,
            )
            for direction, (lstm, inputs) in enumerate(
                ((self.forward_lstm, forward), (self.backward_lstm, backward))
            )
        ]
        if self._builds_graph(vectors, *state):
            results = [compute() for compute in computations]
        else:
            results = side_by_side(computations, vectors.device)
        layers, ends = zip(*results, strict=True)
        after = State(*(torch.stack(parts, dim=1) for parts in zip(*ends, strict=True)))
        return Layers(*layers), after

    def _builds_graph(self, *sources: Tensor) -> bool:
        sources = (*sources, *self.forward_lstm.parameters(), *self.backward_lstm.parameters())
        return torch.is_grad_enabled() and any(source.requires_grad for source in sources)

    def _run_direction(
        self, lstm: nn.ModuleList, inputs: Tensor, batch: Batch, state: State, dropout: float
    ) -> tuple[list[Tensor], State]:
        """(N, D) inputs, state (L, B, .) -> L + 1 outputs (N, D) and the state (L, B, .) after."""
        outputs, ends = [inputs], []
        last = batch.last_positions()
        for depth, layer in enumerate(lstm):
            below = F.dropout(outputs[-1], dropout) if dropout else outputs[-1]
            output, cell = layer(below, batch.batch_sizes, state.h[depth], state.c[depth])
            ends.append((F.embedding(last, output), cell))
            if self.config.lstm.skip_connections and depth > 0:
                output = output + below
            outputs.append(output)
        return outputs, State(*(torch.stack(parts) for parts in zip(*ends, strict=True)))
