"""The models that are measured, written into a folder in the formats that the contenders read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import elmokit
from elmokit.config import BiLMConfig
from random_checkpoint import SIZES, write_checkpoint
from random_manylangs import write_manylangs

ModelName = Literal["small", "original", "default", "manylangs"]
"""small and original: random weights in the smallest published size and in the paper's. default:
the English model that elmokit ships. manylangs: random weights in the format of ELMoForManyLangs,
in the paper's size with a word table beside the characters."""
MODELS: tuple[ModelName, ...] = get_args(ModelName)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model on disk."""

    name: ModelName
    directory: Path
    """In the format of AllenNLP and bilm-tf, or in that of ELMoForManyLangs."""
    source: str
    """What elmokit loads: the directory, or the name of a model that ships."""
    config: BiLMConfig


def write_model(name: ModelName, parent: Path, seed: int) -> Model:
    """Write a model into a new folder inside an existing one."""
    directory = parent / name
    if name == "default":
        elmokit.convert(name, directory, to="allennlp")  # no number changes by that
    else:
        directory.mkdir()
        if name == "manylangs":
            write_manylangs(directory, seed)
        else:
            write_checkpoint(directory, SIZES[name], seed)
    source = name if name == "default" else str(directory)
    config = elmokit.BiLM.from_pretrained(source).config
    return Model(name=name, directory=directory, source=source, config=config)
