"""Words in sentences, with a label or without: what analyses read, and its vectors.

Letters: K layers, N words, D projection width.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from elmokit.embedding.embedder import Embedder
from elmokit.embedding.selection import Selection
from elmokit.errors import ConfigError, InputError
from elmokit.tasks.readers.conllu import Conllu, Field
from elmokit.tasks.readers.reading import Block, cut_lines, read_examples
from elmokit.text import read_rows
from elmokit.text.lines import source_name

_T = TypeVar("_T")
Array = NDArray[np.float32]
Tokens = Sequence[str]

SENSES_SUFFIX = ".tsv"
"""Files of this suffix are those of `read_senses`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A word in its sentence."""

    word: str
    """What is compared with its like: the form, or the lexical entry such as `line-n`."""
    tokens: tuple[str, ...]
    """The sentence."""
    place: int
    """Where the word stands in it, from 0."""
    label: str = ""
    """Its tag or sense, if it has one."""

    @property
    def form(self) -> str:
        """The word as it is written there."""
        return self.tokens[self.place]


def read_sentences(
    source: str, *, format: str = "auto", tokenizer: str | None = None, encoding: str = "utf-8"
) -> Iterator[tuple[str, ...]]:
    """Yields the sentences of a text, those without words left out.

    Raises:
        InputError: The source cannot be read, or holds not one token.
        ConfigError: Format, tokeniser or encoding is unknown.
    """
    found = False
    for row in read_rows(source, format=format, tokenizer=tokenizer, encoding=encoding):
        if row.tokens:
            found = True
            yield row.tokens
    if not found:
        raise InputError(f"{source_name(source)}: holds not a single token")


def read_tags(
    source: str | Path, field: Field, max_sentences: int | None, encoding: str = "utf-8"
) -> list[list[Example]]:
    """Reads the words of a CoNLL-U file with their tags, sentence by sentence.

    Args:
        source: The file.
        field: The column of the tags.
        max_sentences: How many from the first on; None for all.
        encoding: Encoding of the file.

    Raises:
        InputError: The file cannot be read, is not CoNLL-U, or a tag is missing.
    """
    reading = read_examples(source, lambda name: Conllu(name, field), encoding=encoding)
    sentences = reading.items[:max_sentences]
    return [
        [
            Example(word=word, tokens=sentence.tokens, place=place, label=tag)
            for place, (word, tag) in enumerate(
                zip(sentence.tokens, sentence.tags or (), strict=True)
            )
        ]
        for sentence in sentences
    ]


def read_senses(source: str | Path, encoding: str = "utf-8") -> list[Example]:
    """Reads words with their senses, a line each, four columns between tabs.

    The columns are an id, whose part before the first dot is the word's lexical entry (`line-n` of
    `line-n.w7_034:`), the sense, the place of the word from 0, and the tokens between spaces.

    Raises:
        InputError: The file cannot be read or is empty, a line has other columns, or the place lies
            outside its sentence.
    """
    return read_examples(source, _Senses, encoding=encoding).items


class _Senses:
    """The format for one file."""

    def __init__(self, name: str) -> None:
        self._name = name

    def cut(self, lines: Iterable[tuple[int, str]]) -> Iterator[Block]:
        """Makes each line a block."""
        return cut_lines(lines)

    def parse(self, block: Block) -> Example | None:
        """Returns the example of a line, None for a blank one."""
        [(number, line)] = block
        if not line.strip():
            return None
        where = f"{self._name}: line {number}"
        columns = line.split("\t")
        if len(columns) != 4:
            raise InputError(
                f"{where}: found {len(columns)} columns, expected 4 between tabs: id, sense, place "
                "of the word from 0, sentence"
            )
        name, sense, place, text = (column.strip() for column in columns)
        tokens = tuple(text.split())
        if not name or not sense:
            raise InputError(f"{where}: the {'sense' if name else 'id'} is missing")
        if not (place.isascii() and place.isdigit() and int(place) < len(tokens)):
            raise InputError(
                f"{where}: the word's place is {place!r}, the sentence has {len(tokens)} tokens; "
                "expected a number from 0 to the last of them"
            )
        word = name.partition(".")[0]
        return Example(word=word, tokens=tokens, place=int(place), label=sense)


def first(number: int, of: Iterable[_T]) -> list[_T]:
    """Returns the first so many; no more of them are read."""
    return [one for _, one in zip(range(number), of, strict=False)]


def parse_layers(text: str, emb: Embedder) -> tuple[int, ...]:
    """Reads `all`, `1` or `0,1,2`.

    Raises:
        ConfigError: It is something else, or the model has no such layer.
    """
    if text == "all":
        return tuple(range(emb.num_outputs))
    try:
        numbers = [int(number) for number in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"layers: {text!r} is not all, a number such as 1, or several such as 0,1,2"
        ) from None
    layers = Selection.parse(numbers, None, emb.num_outputs).layers
    if len(set(layers)) < len(layers):
        raise ConfigError(f"layers: {text!r} names a layer twice")
    return layers


def vectors_of(emb: Embedder, examples: Sequence[Example], layers: Sequence[int]) -> Array:
    """Embeds words in their sentences, each distinct sentence once.

    Args:
        emb: The model.
        examples: N words.
        layers: K layers by number.

    Returns:
        (K, N, 2D) float32.
    """
    vectors = np.empty((len(layers), len(examples), emb.dim), dtype=np.float32)
    wanted: dict[tuple[str, ...], list[int]] = {}
    for number, example in enumerate(examples):
        wanted.setdefault(example.tokens, []).append(number)
    for numbers, embedded in zip(wanted.values(), emb.stream(list(wanted), layers), strict=True):
        vectors[:, numbers] = embedded[:, [examples[number].place for number in numbers]]
    return vectors


def unit(vectors: Array) -> Array:
    """Scales vectors along the last axis to length 1; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: Array = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return scaled
