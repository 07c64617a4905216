"""Weights of a new model: bilm-tf's, and a softmax that starts from word frequencies."""

import math

import torch
from torch import Tensor, nn

from elmokit.nn import BiLMNetwork, LMSoftmax
from elmokit.nn.char_encoder import CharEncoder
from elmokit.nn.projected_lstm import ProjectedLSTM

_CARRY_BIAS = 2.0
"""A highway layer carries most of its input at first (bilm-tf sets its own gate to -2)."""
_SMALL = 0.1
"""Softmax weights that start from frequencies are this much smaller than bilm-tf's."""


@torch.no_grad()
def initialize(network: BiLMNetwork) -> None:
    """Draws the weights of a network as bilm-tf does."""
    encoder = network.token_encoder
    if encoder.words is not None:
        nn.init.uniform_(encoder.words.weight[1:], -1, 1)
    if encoder.characters is not None:
        _initialize_characters(encoder.characters)
    if encoder.projection is not None:
        nn.init.normal_(
            encoder.projection.weight, std=1 / math.sqrt(encoder.projection.in_features)
        )
        nn.init.zeros_(encoder.projection.bias)
    for module in network.modules():
        if isinstance(module, ProjectedLSTM):
            _initialize_lstm(module)


@torch.no_grad()
def initialize_softmax(softmax: LMSoftmax, counts: Tensor | None) -> None:
    """Draws the weights of a softmax.

    Args:
        softmax: The layer.
        counts: (V,) how often each word is to be predicted. Biases then start at the logarithm of
            the frequency, so that learning begins where a unigram model ends. None for bilm-tf's
            start: biases of zero and larger weights.
    """
    scale = 1 / math.sqrt(softmax.weight.size(1))
    nn.init.normal_(softmax.weight, std=scale if counts is None else _SMALL * scale)
    if counts is None:
        nn.init.zeros_(softmax.bias)
    else:
        smoothed = counts.double() + 1
        softmax.bias.copy_((smoothed / smoothed.sum()).log())


def _initialize_characters(encoder: CharEncoder) -> None:
    config = encoder.config
    nn.init.uniform_(encoder.embedding.weight[1:], -1, 1)
    for convolution in encoder.convolutions:
        assert isinstance(convolution, nn.Conv1d)
        assert convolution.bias is not None
        if config.activation == "relu":
            nn.init.uniform_(convolution.weight, -0.05, 0.05)
        else:
            width = convolution.kernel_size[0] * config.embedding_dim
            nn.init.normal_(convolution.weight, std=1 / math.sqrt(width))
        nn.init.zeros_(convolution.bias)
    for highway in encoder.highways:
        assert isinstance(highway, nn.Linear)
        nn.init.normal_(highway.weight, std=1 / math.sqrt(config.num_filters))
        nonlinear, carry = highway.bias.chunk(2)
        nn.init.zeros_(nonlinear)
        nn.init.constant_(carry, _CARRY_BIAS)


def _initialize_lstm(lstm: ProjectedLSTM) -> None:
    # One matrix for input and recurrence in bilm-tf, drawn by Glorot's rule for its whole shape.
    gates, input_dim = lstm.input_weight.shape
    limit = math.sqrt(6 / (gates + input_dim + lstm.recurrent_weight.size(1)))
    nn.init.uniform_(lstm.input_weight, -limit, limit)
    nn.init.uniform_(lstm.recurrent_weight, -limit, limit)
    nn.init.zeros_(lstm.bias)
    if lstm.projection is not None:
        nn.init.xavier_uniform_(lstm.projection)
