"""Sentences for the benchmarks: a treebank where there is one, made-up words elsewhere."""

import random
import string
from dataclasses import dataclass
from pathlib import Path

Sentences = list[list[str]]

REPOSITORY = Path(__file__).resolve().parents[1]
TREEBANK = REPOSITORY.parent / "shared/data/probing/ud_english_ewt/en_ewt-ud-dev.conllu"

VOCABULARY_SIZE = 8000
LONGEST_WORD = 12
LONGEST_SENTENCE = 40


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


def load_text(path: Path, num_sentences: int, seed: int) -> Text:
    """Return the first sentences of a CoNLL-U file, or synthetic ones if there is no such file."""
    if path.exists():
        return Text(source=path.name, sentences=read_conllu(path)[:num_sentences])
    source = f"synthetic text, since {path.name} is absent"
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
    """Return sentences of random words whose frequencies follow Zipf's law."""
    generator = random.Random(seed)
    words = [
        "".join(generator.choices(string.ascii_lowercase, k=generator.randint(1, LONGEST_WORD)))
        for _ in range(VOCABULARY_SIZE)
    ]
    frequencies = [1 / rank for rank in range(1, VOCABULARY_SIZE + 1)]
    return [
        generator.choices(words, frequencies, k=generator.randint(1, LONGEST_SENTENCE))
        for _ in range(num_sentences)
    ]
