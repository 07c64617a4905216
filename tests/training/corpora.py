"""Small corpora for the tests of training."""

import gzip
from collections.abc import Iterable, Sequence
from pathlib import Path

from elmokit.training.corpus import Corpus, prepare
from elmokit.vocabulary import BEGIN, END, UNKNOWN, Vocabulary

WORDS = Vocabulary((BEGIN, END, UNKNOWN, "the", "cat", "sat", "深い"))


def write_text(path: Path, lines: Iterable[str]) -> Path:
    """Writes lines, compressed if the name ends in .gz."""
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def numbered_corpus(directory: Path, lengths: Sequence[int]) -> Corpus:
    """A corpus of sentences of these lengths in which every word occurs once: 0.0 0.1 ... 1.0"""
    sentences = [[f"{i}.{j}" for j in range(length)] for i, length in enumerate(lengths)]
    text = write_text(directory / "numbered.txt", map(" ".join, sentences))
    words = [word for sentence in sentences for word in sentence]
    vocabulary = Vocabulary((BEGIN, END, UNKNOWN, *sorted(words)))
    return prepare([str(text)], vocabulary, directory / "numbered")
