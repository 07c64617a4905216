"""Write models with random weights in the format of ELMoForManyLangs, in the published size.

Shape letters: C character embedding, F filters in all, D projection, H LSTM cell.
"""

import json
import string
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from random_checkpoint import BIAS_SCALE, FILTERS, NUM_LAYERS, SIZES

CHARACTER_DIM, WORD_DIM = 50, 100
NUM_WORDS = 20_000
"""Entries of the word list, all of them made up: a text's own words count as unknown."""
CONFIGURATION = "cnn_50_100_512_4096_sample.json"
SPECIAL = ("<bos>", "<eos>", "<oov>", "<pad>")
SIZE = SIZES["original"]

Tensors = dict[str, Tensor]


def write_manylangs(directory: Path, seed: int) -> None:
    """Write a model into an existing directory."""
    generator = torch.Generator().manual_seed(seed)
    letters = string.ascii_letters + string.digits + string.punctuation
    characters = [*SPECIAL, "<bow>", "<eow>", *letters]
    words = [*SPECIAL, *(f"word{number}" for number in range(NUM_WORDS - len(SPECIAL)))]
    _write_dictionary(directory / "char.dic", characters)
    _write_dictionary(directory / "word.dic", words)
    config = {"config_path": CONFIGURATION}
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (directory / CONFIGURATION).write_text(json.dumps(configuration()), encoding="utf-8")
    embedder = dict(_token_embedder(generator, len(characters), len(words)))
    torch.save(embedder, directory / "token_embedder.pkl")
    torch.save(dict(_encoder(generator)), directory / "encoder.pkl")


def configuration() -> dict[str, object]:
    """Return the network as the published models have it."""
    return {
        "encoder": {
            "name": "elmo",
            "projection_dim": SIZE.projection_dim,
            "cell_clip": 3,
            "proj_clip": 3,
            "dim": SIZE.lstm_dim,
            "n_layers": NUM_LAYERS,
        },
        "token_embedder": {
            "name": "cnn",
            "activation": "relu",
            "filters": [list(shape) for shape in FILTERS],
            "n_highway": SIZE.num_highways,
            "word_dim": WORD_DIM,
            "char_dim": CHARACTER_DIM,
            "max_characters_per_token": 50,
        },
        "classifier": {"name": "sampled_softmax", "n_samples": 8192},
        "dropout": 0.1,
    }


def _token_embedder(
    generator: torch.Generator, num_characters: int, num_words: int
) -> Iterator[tuple[str, Tensor]]:
    num_filters = sum(count for _, count in FILTERS)
    yield "char_emb_layer.embedding.weight", _normal(generator, num_characters, CHARACTER_DIM)
    yield "word_emb_layer.embedding.weight", _normal(generator, num_words, WORD_DIM)
    for index, (width, count) in enumerate(FILTERS):
        scale = (width * CHARACTER_DIM) ** -0.5
        weight = _normal(generator, count, CHARACTER_DIM, width, scale=scale)
        yield f"convolutions.{index}.weight", weight
        yield f"convolutions.{index}.bias", _normal(generator, count, scale=BIAS_SCALE)
    for index in range(SIZE.num_highways):
        yield from _linear(generator, f"highways._layers.{index}", num_filters, 2 * num_filters)
    yield from _linear(generator, "projection", num_filters + WORD_DIM, SIZE.projection_dim)


def _encoder(generator: torch.Generator) -> Iterator[tuple[str, Tensor]]:
    projection_dim, cell_dim = SIZE.projection_dim, SIZE.lstm_dim
    scale = (2 * projection_dim) ** -0.5
    for direction in ("forward", "backward"):
        for index in range(NUM_LAYERS):
            prefix = f"{direction}_layer_{index}"
            shape = (4 * cell_dim, projection_dim)
            yield f"{prefix}.input_linearity.weight", _normal(generator, *shape, scale=scale)
            yield f"{prefix}.state_linearity.weight", _normal(generator, *shape, scale=scale)
            bias = _normal(generator, 4 * cell_dim, scale=BIAS_SCALE)
            yield f"{prefix}.state_linearity.bias", bias
            weight = _normal(generator, projection_dim, cell_dim, scale=cell_dim**-0.5)
            yield f"{prefix}.state_projection.weight", weight


def _linear(
    generator: torch.Generator, name: str, fan_in: int, fan_out: int
) -> Iterator[tuple[str, Tensor]]:
    yield f"{name}.weight", _normal(generator, fan_out, fan_in, scale=fan_in**-0.5)
    yield f"{name}.bias", _normal(generator, fan_out, scale=BIAS_SCALE)


def _normal(generator: torch.Generator, *shape: int, scale: float = 1.0) -> Tensor:
    return torch.randn(shape, generator=generator) * scale


def _write_dictionary(path: Path, entries: list[str]) -> None:
    lines = (f"{entry}\t{position}\n" for position, entry in enumerate(entries))
    path.write_text("".join(lines), encoding="utf-8")
