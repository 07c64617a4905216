"""The names and shapes of a biLM's own tensors, as its configuration decides them.

Letters: L layers, D projection width, H cell size, F filters.
"""

import torch
from torch import Tensor

from elmokit.config import BiLMConfig, CharCNNConfig, LSTMConfig

DIRECTIONS = ("forward", "backward")
CHARACTERS = "token_encoder.characters"
WORDS = "token_encoder.words.weight"
PROJECTION = "token_encoder.projection"
STACKED = "stacked_lstm"
SOFTMAX = "softmax"

Shape = tuple[int, ...]


def layer(direction: str, index: int) -> str:
    """Returns the prefix of one layer of the projected LSTM."""
    return f"{direction}_lstm.{index}"


def shapes(config: BiLMConfig) -> dict[str, Shape]:
    """Returns the name and shape of every tensor of the network, and of the softmax if any."""
    names: dict[str, Shape] = {}
    if config.characters:
        names |= _characters(config.characters)
    if config.words:
        names[WORDS] = (config.words.num_words + 1, config.words.embedding_dim)
    if config.token_projection:
        names[f"{PROJECTION}.weight"] = (config.lstm.projection_dim, config.token_dim)
        names[f"{PROJECTION}.bias"] = (config.lstm.projection_dim,)
    if config.softmax_words is not None:
        names[f"{SOFTMAX}.weight"] = (config.softmax_words, config.lstm.projection_dim)
        names[f"{SOFTMAX}.bias"] = (config.softmax_words,)
    if config.lstm.kind == "stacked":
        return names | _stacked(config.lstm)
    return names | _projected(config.lstm) | state_shapes(config.lstm)


def state_shapes(lstm: LSTMConfig) -> dict[str, Shape]:
    """Returns the name and shape of the initial state, which a stacked LSTM has not."""
    if lstm.kind == "stacked":
        return {}
    return {
        "initial_h": (lstm.num_layers, len(DIRECTIONS), lstm.projection_dim),
        "initial_c": (lstm.num_layers, len(DIRECTIONS), lstm.cell_dim),
    }


def zero_state(lstm: LSTMConfig) -> dict[str, Tensor]:
    """Returns the initial state of a model that was never calibrated."""
    return {name: torch.zeros(shape) for name, shape in state_shapes(lstm).items()}


def _characters(cnn: CharCNNConfig) -> dict[str, Shape]:
    names: dict[str, Shape] = {
        f"{CHARACTERS}.embedding.weight": (cnn.num_characters + 1, cnn.embedding_dim)
    }
    for i, (width, count) in enumerate(cnn.filters):
        names[f"{CHARACTERS}.convolutions.{i}.weight"] = (count, cnn.embedding_dim, width)
        names[f"{CHARACTERS}.convolutions.{i}.bias"] = (count,)
    for k in range(cnn.num_highway):
        names[f"{CHARACTERS}.highways.{k}.weight"] = (2 * cnn.num_filters, cnn.num_filters)
        names[f"{CHARACTERS}.highways.{k}.bias"] = (2 * cnn.num_filters,)
    return names


def _projected(lstm: LSTMConfig) -> dict[str, Shape]:
    gates, width = 4 * lstm.cell_dim, lstm.projection_dim
    names: dict[str, Shape] = {}
    for direction in DIRECTIONS:
        for index in range(lstm.num_layers):
            prefix = layer(direction, index)
            names[f"{prefix}.input_weight"] = (gates, width)
            names[f"{prefix}.recurrent_weight"] = (gates, width)
            names[f"{prefix}.bias"] = (gates,)
            if lstm.recurrent_projection:
                names[f"{prefix}.projection"] = (width, lstm.cell_dim)
    return names


def _stacked(lstm: LSTMConfig) -> dict[str, Shape]:
    names: dict[str, Shape] = {}
    for name, shape in stacked_shapes(lstm).items():
        names[f"{STACKED}.{name}"] = shape
    return names


def stacked_shapes(lstm: LSTMConfig) -> dict[str, Shape]:
    """Returns the tensors of a stacked LSTM and its projection, without the prefix."""
    gates = 4 * lstm.cell_dim
    names: dict[str, Shape] = {}
    for index in range(lstm.num_layers):
        inputs = 2 * lstm.cell_dim if index else lstm.projection_dim
        for suffix in ("", "_reverse"):
            names[f"encoder.weight_ih_l{index}{suffix}"] = (gates, inputs)
            names[f"encoder.weight_hh_l{index}{suffix}"] = (gates, lstm.cell_dim)
            names[f"encoder.bias_ih_l{index}{suffix}"] = (gates,)
            names[f"encoder.bias_hh_l{index}{suffix}"] = (gates,)
    names["projection.weight"] = (lstm.projection_dim, lstm.cell_dim)
    names["projection.bias"] = (lstm.projection_dim,)
    return names
