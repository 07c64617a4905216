"""Word -> character ids: the paper's byte alphabet, and alphabets of Unicode characters.

In every alphabet an id is the file's id + 1, and 0 means nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from elmokit.config import parse
from elmokit.errors import ConfigError

MAX_CHARACTERS = 50
"""Characters per token in the paper's models, marks included."""


class Alphabet(Protocol):
    """How the words of a model become character ids."""

    @property
    def max_characters(self) -> int:
        """Characters kept per token, marks included."""
        ...

    @property
    def num_characters(self) -> int:
        """Largest id in use."""
        ...

    @property
    def padding(self) -> int:
        """Id that fills a word up to `max_characters`; a real, learnt character."""
        ...

    @property
    def sentence_marks(self) -> tuple[str, str]:
        """The words that stand before and after a sentence."""
        ...

    def encode(self, word: str) -> list[int]:
        """Returns the word's ids with marks, without padding (at most `max_characters`)."""
        ...

    def is_cut(self, word: str) -> bool:
        """Tells whether the word is longer than the limit and loses its tail."""
        ...

    def count_unknown(self, word: str) -> int:
        """Counts the word's characters that have no id of their own."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Returns the content of `characters.json`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteAlphabet:
    """The paper's: bytes 1..256, sentence marks 257 and 258, word marks 259 and 260, padding 261.

    Kept from bilm-tf and AllenNLP: a word is the bytes of its UTF-8 form, cut to the first
    `max_characters - 2` of them, possibly inside a character; lone surrogates are dropped; exactly
    `<S>` and `</S>` are the sentence marks, each one id between the word marks.
    """

    max_characters: int = MAX_CHARACTERS

    num_characters: ClassVar[int] = 261
    padding: ClassVar[int] = 261
    begin_word: ClassVar[int] = 259
    end_word: ClassVar[int] = 260
    boundaries: ClassVar[Mapping[str, int]] = MappingProxyType({"<S>": 257, "</S>": 258})
    sentence_marks: ClassVar[tuple[str, str]] = ("<S>", "</S>")

    def __post_init__(self) -> None:
        _check_limit(self.max_characters)

    def encode(self, word: str) -> list[int]:
        """Returns the word's ids with marks, without padding (at most `max_characters`)."""
        boundary = self.boundaries.get(word)
        if boundary is not None:
            return [self.begin_word, boundary, self.end_word]
        encoded = word.encode("utf-8", "ignore")[: self.max_characters - 2]
        return [self.begin_word, *(byte + 1 for byte in encoded), self.end_word]

    def is_cut(self, word: str) -> bool:
        """Tells whether the word is longer than the limit and loses its tail."""
        limit = self.max_characters - 2
        if 4 * len(word) <= limit or word in self.boundaries:  # a character has 4 bytes at most
            return False
        return len(word.encode("utf-8", "ignore")) > limit

    def count_unknown(self, word: str) -> int:
        """Counts lone surrogates, the only characters without bytes."""
        return 0 if word.isascii() else sum("\ud800" <= character <= "\udfff" for character in word)

    def to_dict(self) -> dict[str, Any]:
        """Returns the content of `characters.json`."""
        return {"alphabet": "bytes", "max_characters": self.max_characters}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnicodeAlphabet:
    """An alphabet of listed Unicode characters, as ELMoForManyLangs has it.

    A word longer than `max_characters - 2` is cut to its first characters. A boundary word is
    written as one character between the word marks.
    """

    characters: Mapping[str, int]
    """Character -> id (1 or more)."""
    begin_word: int
    """Id before a word's first character."""
    end_word: int
    """Id after a word's last character."""
    unknown: int
    """Id of every character that is not listed."""
    padding: int
    """Id that fills a word up to `max_characters`."""
    boundaries: Mapping[str, int]
    """Boundary word -> its one id between the word marks; first the one before a sentence."""
    num_characters: int
    """Largest id in use."""
    max_characters: int = MAX_CHARACTERS

    def __post_init__(self) -> None:
        _check_limit(self.max_characters)
        if len(self.boundaries) != 2:
            raise ConfigError(
                "boundaries: expected the words before and after a sentence, "
                f"found {list(self.boundaries)}"
            )
        if odd := next((key for key in self.characters if len(key) != 1), None):
            raise ConfigError(f"characters: {odd!r} is not one character")
        ids = [*self.characters.values(), *self.boundaries.values()]
        ids += [self.begin_word, self.end_word, self.unknown, self.padding]
        if min(ids) < 1 or max(ids) > self.num_characters:
            raise ConfigError(
                f"characters: ids must lie in 1..{self.num_characters}, "
                f"found {min(ids)}..{max(ids)}"
            )

    @property
    def sentence_marks(self) -> tuple[str, str]:
        """The words that stand before and after a sentence."""
        begin, end = self.boundaries
        return begin, end

    def encode(self, word: str) -> list[int]:
        """Returns the word's ids with marks, without padding (at most `max_characters`)."""
        boundary = self.boundaries.get(word)
        if boundary is not None:
            return [self.begin_word, boundary, self.end_word]
        get, unknown = self.characters.get, self.unknown
        return [
            self.begin_word,
            *(get(character, unknown) for character in word[: self.max_characters - 2]),
            self.end_word,
        ]

    def is_cut(self, word: str) -> bool:
        """Tells whether the word is longer than the limit and loses its tail."""
        return len(word) > self.max_characters - 2 and word not in self.boundaries

    def count_unknown(self, word: str) -> int:
        """Counts the word's characters that are not listed."""
        if word in self.boundaries:
            return 0
        return sum(character not in self.characters for character in word)

    def to_dict(self) -> dict[str, Any]:
        """Returns the content of `characters.json`."""
        return {
            "alphabet": "unicode",
            "max_characters": self.max_characters,
            "num_characters": self.num_characters,
            "begin_word": self.begin_word,
            "end_word": self.end_word,
            "unknown": self.unknown,
            "padding": self.padding,
            "boundaries": dict(self.boundaries),
            "characters": dict(self.characters),
        }


def alphabet_from_dict(data: Mapping[str, Any], *, where: str = "characters.json") -> Alphabet:
    """Reads what `Alphabet.to_dict` wrote.

    Raises:
        ConfigError: The kind of alphabet or a field is unknown, missing or wrong.
    """
    fields = dict(data)
    kind = fields.pop("alphabet", None)
    if kind == "bytes":
        return parse(ByteAlphabet, fields, where)
    if kind != "unicode":
        raise ConfigError(f"{where}: alphabet: {kind!r} is neither 'bytes' nor 'unicode'")
    return parse(UnicodeAlphabet, fields, where)


def _check_limit(max_characters: int) -> None:
    if max_characters < 3:
        raise ConfigError(
            f"max_characters: {max_characters} leaves no room between the two word marks; "
            "it must be 3 or more"
        )
