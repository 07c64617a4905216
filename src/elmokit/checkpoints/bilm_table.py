"""The tensors of bilm-tf in TensorFlow's layout: x @ W, gates i, j, f, o, a carry gate for the CNN.

Letters: D projection width, H cell size, F filters, c character width, n filters of one width.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from elmokit.checkpoints import layout
from elmokit.checkpoints.table import TRANSPOSE, ZERO_ROW, Row, Tensors, Transform, row
from elmokit.config import BiLMConfig, CharCNNConfig, LSTMConfig

CONVOLUTION = Transform(
    # (1, width, c, n) <-> (n, c, width)
    read=lambda tensors: (tensors[0].squeeze(0).permute(2, 1, 0),),
    write=lambda tensors: (tensors[0].permute(2, 1, 0).unsqueeze(0),),
)


class Cell(NamedTuple):
    """The names of one LSTM layer's tensors in one direction."""

    kernel: str
    bias: str
    projection: str


def rows(config: BiLMConfig, cell: Callable[[int, int], Cell], *, prefix: str = "") -> list[Row]:
    """Returns the table of a model of bilm-tf.

    Args:
        config: A model of characters or of words, with a projected LSTM.
        cell: Direction (0 forward, 1 backward) and layer -> names.
        prefix: Stands before every name outside the cells.
    """
    table = _characters(config.characters, prefix) if config.characters else []
    if config.words:
        shape = (config.words.num_words, config.words.embedding_dim)
        table.append(row(layout.WORDS, f"{prefix}embedding", shape, ZERO_ROW))
    if config.token_projection:
        weight, width = f"{layout.PROJECTION}.weight", config.lstm.projection_dim
        table += [
            row(weight, f"{prefix}CNN_proj/W_proj", (config.token_dim, width), TRANSPOSE),
            row(f"{layout.PROJECTION}.bias", f"{prefix}CNN_proj/b_proj", (width,)),
        ]
    for number, direction in enumerate(layout.DIRECTIONS):
        for index in range(config.lstm.num_layers):
            table += _cell(config.lstm, layout.layer(direction, index), cell(number, index))
    return table


def _characters(cnn: CharCNNConfig, prefix: str) -> list[Row]:
    shape = (cnn.num_characters, cnn.embedding_dim)
    table = [row(f"{layout.CHARACTERS}.embedding.weight", f"{prefix}char_embed", shape, ZERO_ROW)]
    for i, (width, count) in enumerate(cnn.filters):
        native, foreign = f"{layout.CHARACTERS}.convolutions.{i}", f"{prefix}CNN"
        kernel = (1, width, cnn.embedding_dim, count)
        table.append(row(f"{native}.weight", f"{foreign}/W_cnn_{i}", kernel, CONVOLUTION))
        table.append(row(f"{native}.bias", f"{foreign}/b_cnn_{i}", (count,)))
    width = cnn.num_filters
    for k in range(cnn.num_highway):
        native, foreign = f"{layout.CHARACTERS}.highways.{k}", f"{prefix}CNN_high_{k}"
        weights = {f"{foreign}/W_transform": (width, width), f"{foreign}/W_carry": (width, width)}
        biases = {f"{foreign}/b_transform": (width,), f"{foreign}/b_carry": (width,)}
        table.append(Row((f"{native}.weight",), weights, HIGHWAY_WEIGHT))
        table.append(Row((f"{native}.bias",), biases, HIGHWAY_BIAS))
    return table


def _cell(lstm: LSTMConfig, native: str, names: Cell) -> list[Row]:
    gates, width = 4 * lstm.cell_dim, lstm.projection_dim
    weights = (f"{native}.input_weight", f"{native}.recurrent_weight")
    table = [
        Row(weights, {names.kernel: (2 * width, gates)}, KERNEL),
        row(f"{native}.bias", names.bias, (gates,), BIAS),
    ]
    if lstm.recurrent_projection:
        shape = (lstm.cell_dim, width)
        table.append(row(f"{native}.projection", names.projection, shape, TRANSPOSE))
    return table


def _swap_gates(tensor: Tensor) -> Tensor:
    """(4H, ..) in the order i, j, f, o -> i, f, g, o (j is g), and back."""
    i, second, third, o = tensor.chunk(4)
    return torch.cat([i, third, second, o])


def _read_kernel(tensors: Tensors) -> Tensors:
    """(2D, 4H), input rows first -> (4H, D) for the input, (4H, D) for the recurrence."""
    first, second = _swap_gates(tensors[0].t()).chunk(2, dim=1)
    return first, second


def _write_kernel(tensors: Tensors) -> Tensors:
    return (_swap_gates(torch.cat(tensors, dim=1)).t(),)


def _read_highway_weight(tensors: Tensors) -> Tensors:
    """W_transform, W_carry (F, F) -> (2F, F).

    bilm-tf: y = carry * relu(..) + (1 - carry) * x; native: y = g * x + (1 - g) * relu(..), so that
    g = 1 - carry, which is sigmoid of the negated pre-activation.
    """
    transform, carry = tensors
    return (torch.cat([transform.t(), -carry.t()]),)


def _write_highway_weight(tensors: Tensors) -> Tensors:
    transform, carry = tensors[0].chunk(2)
    return transform.t(), -carry.t()


def _read_highway_bias(tensors: Tensors) -> Tensors:
    transform, carry = tensors
    return (torch.cat([transform, -carry]),)


def _write_highway_bias(tensors: Tensors) -> Tensors:
    transform, carry = tensors[0].chunk(2)
    return transform, -carry


KERNEL = Transform(read=_read_kernel, write=_write_kernel)
BIAS = Transform(
    read=lambda tensors: (_swap_gates(tensors[0]),),
    write=lambda tensors: (_swap_gates(tensors[0]),),
)
HIGHWAY_WEIGHT = Transform(read=_read_highway_weight, write=_write_highway_weight)
HIGHWAY_BIAS = Transform(read=_read_highway_bias, write=_write_highway_bias)
