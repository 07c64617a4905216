"""Word lists: the input words of word-id models, and the words an LM softmax predicts."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from elmokit.errors import ConfigError

BEGIN, END, UNKNOWN = "<S>", "</S>", "<UNK>"
"""Boundary words and unknown word of the paper's models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputWords:
    """Word -> id for a model that reads word ids; id = line + 1, 0 means nothing.

    A word that is not listed has the id of `unknown`. Boundary words are looked up like any other.
    """

    words: tuple[str, ...]
    """Row i of the word table belongs to words[i] (id i + 1)."""
    begin: str = BEGIN
    end: str = END
    unknown: str = UNKNOWN
    max_characters: int | None = None
    """Characters that a word is cut to before the look-up (ELMoForManyLangs); null for no cut."""
    ids: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A repeated word keeps its last row, as in bilm-tf's Vocabulary.
        object.__setattr__(self, "ids", {word: i for i, word in enumerate(self.words, start=1)})
        if self.max_characters is not None and self.max_characters < 1:
            raise ConfigError(f"max_characters: {self.max_characters} must be 1 or more")
        for name in ("begin", "end", "unknown"):
            word = getattr(self, name)
            if word not in self.ids:
                raise ConfigError(f"words: the {name} word {word!r} is not in the list; add it")

    def encode(self, word: str) -> int:
        """Returns the word's id, or that of the unknown word."""
        return self.ids.get(word[: self.max_characters], self.ids[self.unknown])

    def is_known(self, word: str) -> bool:
        """Tells whether the word has a row of its own."""
        return word[: self.max_characters] in self.ids

    def to_dict(self) -> dict[str, Any]:
        """Returns the content of `words.json`."""
        return {
            "begin": self.begin,
            "end": self.end,
            "unknown": self.unknown,
            "max_characters": self.max_characters,
            "words": list(self.words),
        }


@dataclass(frozen=True)  # without slots, for the sake of the cached property
class Vocabulary:
    """The words of an LM softmax in the order of its rows, as in bilm-tf's `vocab.txt`."""

    words: Sequence[str]

    @functools.cached_property
    def characters(self) -> frozenset[str]:
        """All characters that occur in a word: those a model has met in training, or nearly so."""
        return frozenset().union(*self.words)

    @functools.cached_property
    def ids(self) -> Mapping[str, int]:
        """Word -> row; a repeated word has its last one."""
        return {word: row for row, word in enumerate(self.words)}

    def encode(self, word: str) -> int:
        """Returns the word's row, or that of `<UNK>`.

        Raises:
            ConfigError: The word is not listed, and neither is `<UNK>`.
        """
        row = self.ids.get(word, self.ids.get(UNKNOWN))
        if row is None:
            raise ConfigError(f"vocabulary: has neither {word!r} nor {UNKNOWN}; add {UNKNOWN}")
        return row
