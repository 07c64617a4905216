"""AllenNLP's way through a biLM, told again in plain torch, as what a GPU is compared with.

Its package was archived with torch 1.12 and needs an environment of its own, which a machine that
is borrowed for its GPU seldom lets one build. What decides its speed is restated here: every token
of a padded batch goes through the character CNN, known or not, over all character positions; each
direction of each layer runs over padded rows, sorted by length, with one linear layer for the input
and one for the state at each step; vectors are brought to the CPU layer by layer, as its command
does. The numbers are those of the model that it is made of.

Letters: B sentences, T longest with boundaries, C characters, D projection, H cell, L layers.
"""

from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from elmokit import BiLM
from elmokit.nn.lstm_steps import Weights
from elmokit.nn.projected_lstm import ProjectedLSTM
from sample_text import Sentences

Vectors = list[NDArray[np.float32]]


class PerStepLoop:
    """Embeds batches of sentences of like length, each from a state of zeros."""

    def __init__(self, bilm: BiLM, device: torch.device, batch_size: int) -> None:
        """Moves the model to the device; batches have `batch_size` sentences."""
        assert bilm.config.lstm.kind == "projected"
        assert not bilm.initial_state.c.any(), "AllenNLP starts from zeros"
        self._bilm, self._device, self._batch_size = bilm.to(device).eval(), device, batch_size

    @torch.no_grad()
    def embed(self, sentences: Sentences) -> Vectors:
        """Return (L+1, T, 2D) of each sentence, without boundaries."""
        order = sorted(range(len(sentences)), key=lambda place: -len(sentences[place]))
        vectors: dict[int, Any] = {}
        for start in range(0, len(order), self._batch_size):
            places = order[start : start + self._batch_size]
            layers = self._layers([sentences[place] for place in places])
            stacked = np.stack([layer.cpu().numpy() for layer in layers], axis=1)
            for row, place in enumerate(places):
                vectors[place] = stacked[row, :, 1 : 1 + len(sentences[place])]
        return [vectors[place] for place in range(len(sentences))]

    def _layers(self, sentences: Sentences) -> list[Tensor]:
        """Return (B, T, 2D) of each layer, for sentences with the longest first."""
        begin, end = self._bilm.boundaries
        lengths = [len(sentence) + 2 for sentence in sentences]
        words = [word for sentence in sentences for word in (begin, *sentence, end)]
        ids = self._bilm.encode_words(words).char_ids
        assert ids is not None
        padded = torch.nn.utils.rnn.pad_sequence(ids.split(lengths), batch_first=True)
        padded = padded.to(self._device)
        tokens = self._tokens(padded.flatten(0, 1)).unflatten(0, padded.shape[:2])  # (B, T, D)
        lstm, network = self._bilm.config.lstm, self._bilm.network
        layers, ahead, back = [torch.cat([tokens, tokens], dim=2)], tokens, tokens
        for depth in range(lstm.num_layers):
            below = ahead, back
            ahead, back = (
                self._direction(cast(ProjectedLSTM, stack[depth]), inputs, lengths, reverse)
                for stack, inputs, reverse in (
                    (network.forward_lstm, ahead, False),
                    (network.backward_lstm, back, True),
                )
            )
            if depth and lstm.skip_connections:
                ahead, back = ahead + below[0], back + below[1]
            layers.append(torch.cat([ahead, back], dim=2))
        return layers

    def _tokens(self, ids: Tensor) -> Tensor:
        """(B * T, C) -> (B * T, D), all positions convolved."""
        encoder = self._bilm.network.token_encoder
        cnn = encoder.characters
        assert cnn is not None
        characters = cnn.embedding(ids).transpose(1, 2)
        maxima = [convolution(characters).amax(dim=2) for convolution in cnn.convolutions]
        x = torch.cat(maxima, dim=1)
        x = torch.relu(x) if cnn.config.activation == "relu" else torch.tanh(x)
        for highway in cnn.highways:
            nonlinear, gate = highway(x).chunk(2, dim=1)
            gate = torch.sigmoid(gate)
            x = gate * x + (1 - gate) * torch.relu(nonlinear)
        return x if encoder.projection is None else cast(Tensor, encoder.projection(x))

    def _direction(
        self, layer: ProjectedLSTM, inputs: Tensor, lengths: list[int], reverse: bool
    ) -> Tensor:
        """(B, T, D) -> (B, T, D), zeros where a sentence has ended."""
        config, weights = layer.config, layer.weights
        outputs = inputs.new_zeros(*inputs.shape[:2], config.projection_dim)
        h = inputs.new_zeros(len(lengths), config.projection_dim)
        c = inputs.new_zeros(len(lengths), config.cell_dim)
        steps = range(max(lengths))
        for step in reversed(steps) if reverse else steps:
            active = sum(length > step for length in lengths)
            new_h, new_c = self._step(layer, weights, inputs[:active, step], h[:active], c[:active])
            h, c = h.clone(), c.clone()  # as the origin: the state of the whole batch anew
            h[:active], c[:active] = new_h, new_c
            outputs[:active, step] = new_h
        return outputs

    def _step(
        self, layer: ProjectedLSTM, weights: Weights, inputs: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor]:
        config = layer.config
        gates = F.linear(inputs, weights.input) + F.linear(h, weights.recurrent, weights.bias)
        i, f, g, o = gates.chunk(4, dim=1)
        c = torch.sigmoid(i) * torch.tanh(g) + torch.sigmoid(f + config.forget_bias) * c
        if config.cell_clip is not None:
            c = torch.clamp(c, -config.cell_clip, config.cell_clip)
        h = torch.sigmoid(o) * torch.tanh(c)
        if weights.projection is not None:
            h = F.linear(h, weights.projection)
            if config.projection_clip is not None:
                h = torch.clamp(h, -config.projection_clip, config.projection_clip)
        return h, c
