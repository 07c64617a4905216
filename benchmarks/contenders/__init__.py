"""The programs that are compared: each turns tokenised sentences into vectors.

Nothing beyond the standard library is imported before a contender is loaded, as their interpreters
have little in common.
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = Sequence[NDArray[np.float32]]

Sentences = Sequence[Sequence[str]]

CLASSES = {
    "allennlp": "contenders.allennlp:AllenNLP",
    "simple-elmo": "contenders.simple_elmo:SimpleElmo",
    "elmoformanylangs": "contenders.manylangs:ManyLangs",
    "minilm": "contenders.minilm:MiniLM",
    "elmokit": "contenders.elmokit:Elmokit",
}


class RefusedError(Exception):
    """The library at hand does not know what was asked of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a contender is to load, and how it is to run."""

    directory: str
    """The model in a format that AllenNLP, simple-elmo or ELMoForManyLangs reads."""
    batch_size: int | None = None
    """Sentences in a batch; None for elmokit, which batches by itself."""
    precision: str = "fp32"
    """elmokit's; the others have float32 alone."""
    num_threads: int = 1
    """Threads to compute with."""


class Contender(Protocol):
    """A library that turns sentences into vectors."""

    packages: tuple[str, ...]
    """Distributions whose releases the numbers depend on."""
    keeps_words: bool
    """Whether a pass leaves something behind that makes the next one faster."""

    def __init__(self, setup: Setup) -> None:
        """Load the model.

        Raises:
            RefusedError: The library does not know the precision.
        """
        ...

    def forget(self) -> None:
        """Drop what a pass has left behind."""
        ...

    def embed(self, sentences: Sentences) -> "Vectors":
        """Return a float32 array (L+1, T, 2D) a sentence, in the order of the sentences."""
        ...


def load(name: str, setup: Setup) -> Contender:
    """Import a contender's library and load the model with it."""
    module, _, class_name = CLASSES[name].partition(":")
    contender: Contender = getattr(importlib.import_module(module), class_name)(setup)
    return contender


def batches_by_length(sentences: Sentences, batch_size: int) -> list[list[int]]:
    """Return the places of sentences of like length, so many together, the shortest first."""
    order = sorted(range(len(sentences)), key=lambda place: len(sentences[place]))
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
