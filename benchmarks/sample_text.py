"""Sentences for the benchmarks: a treebank where there is one, made-up words elsewhere."""

import random
import string
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Literal, get_args

Sentences = list[list[str]]
TextName = Literal["ewt", "synthetic"]
"""ewt: the development part of UD English EWT. synthetic: lines of 20 made-up words."""
TEXTS: tuple[TextName, ...] = get_args(TextName)

REPOSITORY = Path(__file__).resolve().parents[1]
TREEBANK = REPOSITORY.parent / "shared/data/probing/ud_english_ewt/en_ewt-ud-dev.conllu"

VOCABULARY_SIZE = 8000
LONGEST_WORD = 12
LONGEST_SENTENCE = 40
LINE_LENGTH = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Tokenised sentences and where they are from."""

    source: str
    sentences: Sentences

    @property
    def num_tokens(self) -> int:
        """Tokens in all."""
        return sum(map(len, self.sentences))

    @property
    def num_types(self) -> int:
        """Distinct tokens."""
        return len({token for sentence in self.sentences for token in sentence})

    def describe(self) -> str:
        """Return one line about the text."""
        return (
            f"{self.source}: {len(self.sentences)} sentences, {self.num_tokens} tokens, "
            f"{self.num_types} distinct"
        )


def load_text(name: TextName, num_sentences: int, seed: int, *, treebank: Path = TREEBANK) -> Text:
    """Return the first sentences of a text.

    Where the treebank's file is absent, made-up sentences of 1 to 40 words stand for it, and its
    source says so.
    """
    if name == "synthetic":
        lines = islice(iterate_sentences(seed, LINE_LENGTH), num_sentences)
        return Text(source=f"synthetic lines of {LINE_LENGTH} tokens", sentences=list(lines))
    if treebank.exists():
        return Text(source=treebank.name, sentences=read_conllu(treebank)[:num_sentences])
    source = f"synthetic text, since {treebank.name} is absent"
    return Text(source=source, sentences=make_sentences(num_sentences, seed))


def read_conllu(path: Path) -> Sentences:
    """Return the forms of every sentence; ranges (1-2) and empty nodes (1.1) are left out."""
    sentences = []
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        columns = [line.split("\t") for line in block.split("\n") if not line.startswith("#")]
        tokens = [column[1] for column in columns if column[0].isdecimal()]
        if tokens:
            sentences.append(tokens)
    return sentences


def make_sentences(num_sentences: int, seed: int) -> Sentences:
    """Return sentences of 1 to 40 made-up words."""
    return list(islice(iterate_sentences(seed), num_sentences))


def iterate_sentences(seed: int, length: int | None = None) -> Iterator[list[str]]:
    """Yield sentences of made-up words without end; word frequencies follow Zipf's law.

    Args:
        seed: The same seed gives the same sentences.
        length: Words of each; None for 1 to 40.
    """
    generator = random.Random(seed)
    words = [
        "".join(generator.choices(string.ascii_lowercase, k=generator.randint(1, LONGEST_WORD)))
        for _ in range(VOCABULARY_SIZE)
    ]
    frequencies = list(accumulate(1 / rank for rank in range(1, VOCABULARY_SIZE + 1)))
    while True:
        num_words = generator.randint(1, LONGEST_SENTENCE) if length is None else length
        yield generator.choices(words, cum_weights=frequencies, k=num_words)
