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
    """In the format of AllenNLP and bilm-tf, or in that of ELMoForManyLangs. All contenders load
    it, elmokit too: that format has no calibrated state, and all start from zeros."""
    config: BiLMConfig


def write_model(name: ModelName, parent: Path, seed: int) -> Model:
    """Write a model into a new folder inside an existing one."""
    directory = parent / name
    if name == "default":
        elmokit.convert(name, directory, to="allennlp")  # no weight changes by that
    else:
        directory.mkdir()
        if name == "manylangs":
            write_manylangs(directory, seed)
        else:
            write_checkpoint(directory, SIZES[name], seed)
    config = elmokit.BiLM.from_pretrained(directory).config
    return Model(name=name, directory=directory, config=config)
