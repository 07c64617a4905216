"""Measures a trigram model on held-out text: what a small biLM has to be better than.

    python recipes/trigram.py words.txt 'text/train-*.txt.gz' text/heldout.txt.gz

Interpolated modified Kneser-Ney (Chen and Goodman 1999), with the words of a list that `elmo vocab`
wrote; others are <UNK>, which is foretold as a word like any other. The end of a sentence is
foretold too, as `elmo perplexity` counts. A text is one sentence a line, tokens between white
space.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmokit.text.lines import read_lines
from elmokit.training.sources import find_files
from elmokit.vocabulary import Vocabulary

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

BEGIN, END, UNKNOWN = 0, 1, 2
"""Ids of <S>, </S> and <UNK>, the first lines of a word list."""


def read_sentences(paths: Sequence[Path], ids: Mapping[str, int]) -> Iterator[list[int]]:
    """Yields the ids of each sentence, between those of its boundaries."""
    for path in paths:
        for _, line in read_lines(path, "utf-8"):
            if words := line.split():
                yield [BEGIN, *(ids.get(word, UNKNOWN) for word in words), END]


def join(sentences: Iterator[list[int]]) -> Ids:
    """(N,) the ids of all sentences one after another."""
    joined: list[NDArray[np.int32]] = []
    part: list[int] = []
    for sentence in sentences:
        part += sentence
        if len(part) > 1_000_000:
            joined.append(np.array(part, dtype=np.int32))
            part = []
    joined.append(np.array(part, dtype=np.int32))
    return np.concatenate(joined).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Order:
    """The n-grams of one length n, as keys: the ids of their words as digits to the base V."""

    num_words: int
    keys: Ids
    """(K,) n-grams that were seen, rising."""
    discounted: Floats
    """(K,) their counts, less the discount."""
    contexts: Ids
    """(C,) the first n - 1 words of those n-grams, rising."""
    totals: Floats
    """(C,) counts of all n-grams that begin so."""
    shares: Floats
    """(C,) the share of the probability that the discounts leave to shorter n-grams."""

    @classmethod
    def build(cls, keys: Ids, counts: Ids, num_words: int) -> "Order":
        """Takes the discounts off the counts (K,) of n-grams (K,)."""
        discounts = find_discounts(counts)[np.minimum(counts, 3)]
        contexts, first = np.unique(keys // num_words, return_index=True)
        totals = np.add.reduceat(counts, first).astype(np.float64)
        left = np.add.reduceat(discounts, first)
        return cls(num_words, keys, counts - discounts, contexts, totals, left / totals)

    def probabilities(self, keys: Ids, shorter: Floats) -> Floats:
        """(M,) of the last word of n-grams (M,), given that of the n-gram one word shorter."""
        place, seen = find(self.contexts, keys // self.num_words)
        ngram, known = find(self.keys, keys)
        own = np.where(known, self.discounted[ngram], 0.0) / self.totals[place]
        return np.where(seen, own + self.shares[place] * shorter, shorter)


def find_discounts(counts: Ids) -> Floats:
    """(4,) what is taken off a count of 0, 1, 2, and 3 or more.

    Raises:
        ValueError: The text is too small: no n-gram occurs so often.
    """
    n = np.bincount(np.minimum(counts, 5), minlength=5).astype(np.float64)
    if not n[1:5].all():
        raise ValueError("the text is too small for a trigram model: counts 1 to 4 must occur")
    y = n[1] / (n[1] + 2 * n[2])
    return np.array([0.0, *(k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3))])


def find(keys: Ids, wanted: Ids) -> tuple[Ids, NDArray[np.bool_]]:
    """Places of `wanted` in rising keys, any where it is not among them, and whether it is."""
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return place, keys[place] == wanted


@dataclass(frozen=True, slots=True)
class Trigram:
    """The three orders of a trigram model."""

    orders: tuple[Order, Order, Order]

    @classmethod
    def build(cls, text: Ids, num_words: int) -> "Trigram":
        """Counts text (N,), sentences with their boundaries one after another."""
        first, second, third = text[:-2], text[1:-1], text[2:]
        inside = (second != BEGIN) & (third != BEGIN)
        triples = ((first * num_words + second) * num_words + third)[inside]
        triples, triple_counts = np.unique(triples, return_counts=True)
        # Where nothing can stand before a pair it counts by itself, elsewhere by what has.
        pairs, pair_counts = np.unique(triples % num_words**2, return_counts=True)
        # <S> is word 0: a pair that begins with it has the key of its second word.
        starts, start_counts = np.unique(text[1:][text[:-1] == BEGIN], return_counts=True)
        pairs = np.concatenate([starts, pairs])
        pair_counts = np.concatenate([start_counts, pair_counts])
        words, word_counts = np.unique(pairs % num_words, return_counts=True)
        return cls(
            (
                Order.build(words, word_counts, num_words),
                Order.build(pairs, pair_counts, num_words),
                Order.build(triples, triple_counts, num_words),
            )
        )

    def perplexity(self, text: Ids) -> float:
        """Of text (N,), sentences with their boundaries one after another."""
        one, two, three = self.orders
        num_words = one.num_words
        word, before = text[1:], text[:-1]
        kept = word != BEGIN
        earlier = np.concatenate([[BEGIN], text[:-2]])
        word, before, earlier = word[kept], before[kept], earlier[kept]
        uniform = np.full(len(word), 1 / (num_words - 1))  # <S> is never foretold
        found = one.probabilities(word, uniform)
        found = two.probabilities(before * num_words + word, found)
        full = three.probabilities((earlier * num_words + before) * num_words + word, found)
        return float(np.exp(-np.log(np.where(before == BEGIN, found, full)).mean()))


def measure(vocabulary: Vocabulary, train: Sequence[Path], heldout: Sequence[Path]) -> list[float]:
    """Perplexities on held-out texts of a model of all of the training texts."""
    ids = vocabulary.ids
    model = Trigram.build(join(read_sentences(train, ids)), len(ids))
    return [model.perplexity(join(read_sentences([path], ids))) for path in heldout]


def main() -> None:
    """Reads the command line and prints a perplexity for each held-out text."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("vocabulary", type=Path, help="word list")
    parser.add_argument("train", help="training text, a pattern in quotes")
    parser.add_argument("heldout", nargs="+", type=Path, help="held-out texts")
    arguments = parser.parse_args()
    vocabulary = Vocabulary(tuple(arguments.vocabulary.read_text("utf-8").splitlines()))
    found = measure(vocabulary, find_files([arguments.train]), arguments.heldout)
    for path, perplexity in zip(arguments.heldout, found, strict=True):
        print(f"{path}: {perplexity:.2f}")


if __name__ == "__main__":
    main()
