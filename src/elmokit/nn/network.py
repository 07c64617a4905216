"""BiLMNetwork: word types -> vectors, packed positions -> the layers of both directions.

Letters: N packed positions, U word types, B rows, L layers, D projection width, H cell size.
"""

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmokit.batch import Batch, Types
from elmokit.config import BiLMConfig
from elmokit.nn.lstm_steps import Reading
from elmokit.nn.products import Linear, MakeProduct
from elmokit.nn.projected_lstm import ProjectedLSTM, run_layers
from elmokit.nn.stacked_lstm import StackedLSTM
from elmokit.nn.state import State
from elmokit.nn.threads import threads
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

    def join(self, layer: int, flipped: Tensor, positions: Tensor | None = None) -> Tensor:
        """Sets both directions of one layer side by side.

        Args:
            layer: 0 for the token layer, which becomes [x; x], up to L.
            flipped: (N,) from `Batch.flipped()`.
            positions: (M,) those wanted, in the wanted order; absent: all N.

        Returns:
            (N, 2D) in the order of the forward reading, or (M, 2D).
        """
        forward = self.forward[layer]
        if positions is not None:
            forward, flipped = F.embedding(positions, forward), flipped[positions]
        return torch.cat([forward, F.embedding(flipped, self.backward[layer])], dim=1)


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

    def use_products(self, make: MakeProduct | None) -> None:
        """Sets how the matrices of highways, token projection and LSTM layers multiply.

        Args:
            make: Makes a matrix's product; nothing can be learnt with it. None: as torch does.
        """
        for name, module in self.named_modules():
            if isinstance(module, Linear | ProjectedLSTM):
                module.use_products(make, name)

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
        if self.stacked_lstm is not None:
            forward = F.embedding(batch.forward, vectors)
            ahead, back = self.stacked_lstm(forward, batch.batch_sizes)
            return Layers([ahead], [F.embedding(batch.flipped(), back)]), None
        if state is None:
            state = self.initial_state.expand(len(batch.lengths))
        num_threads = torch.get_num_threads()
        with threads(1):
            return self._run_projected(vectors, batch, state, dropout, num_threads)

    def _run_projected(
        self, vectors: Tensor, batch: Batch, state: State, dropout: float, num_threads: int
    ) -> tuple[Layers, State]:
        """As `run`; the layers share the threads, and all else, which is little, has one.

        torch's threads go on spinning for milliseconds after each operation that they shared, and
        would keep a core from the layers.
        """
        forward = F.embedding(batch.forward, vectors)
        layers = Layers([forward], [F.embedding(batch.backward, vectors)])
        last, ends_h, ends_c = batch.last_positions(), [], []
        for depth in range(self.config.lstm.num_layers):
            below = [layers.forward[-1], layers.backward[-1]]
            places: list[Tensor | None] = [None, None]
            if dropout:
                below = [F.dropout(inputs, dropout) for inputs in below]
            elif depth == 0:  # a type that is read often is multiplied once
                below, places = [vectors, vectors], [batch.forward, batch.backward]
            readings = [
                Reading(inputs, batch.batch_sizes, h, c, place)
                for inputs, h, c, place in zip(
                    below, state.h[depth], state.c[depth], places, strict=True
                )
            ]
            outputs, cells = self._run_layer(depth, readings, num_threads)
            ends_h.append(torch.stack([F.embedding(last, output) for output in outputs]))
            ends_c.append(torch.stack(cells))
            if self.config.lstm.skip_connections and depth > 0:
                outputs = [output + inputs for output, inputs in zip(outputs, below, strict=True)]
            layers.forward.append(outputs[0])
            layers.backward.append(outputs[1])
        return layers, State(torch.stack(ends_h), torch.stack(ends_c))

    def _run_layer(
        self, depth: int, readings: list[Reading], num_threads: int
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Runs one depth of both directions: two (N, D) outputs and two (B, H) last cells."""
        lstms = [
            cast(ProjectedLSTM, lstm[depth]) for lstm in (self.forward_lstm, self.backward_lstm)
        ]
        results = run_layers(lstms, readings, num_threads)
        return [outputs for outputs, _ in results], [cells for _, cells in results]
