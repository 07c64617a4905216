"""A corpus made ready for training: read once, then seen as word types and words to predict.

A type is any surface form of the text, in the vocabulary or not: a model of characters reads the
characters of unknown words too. Training reads the prepared folder alone, so that the text may move
or vanish once it is made.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import ConfigError, InputError, OutputError
from elmokit.text.lines import check_encoding
from elmokit.training.arrays import (
    COUNTS,
    OFFSETS,
    TOKENS,
    Record,
    Source,
    digest,
    map_array,
    read_record,
    read_types,
    write_arrays,
)
from elmokit.training.sources import find_files
from elmokit.vocabulary import BEGIN, END, UNKNOWN, Vocabulary

_logger = logging.getLogger(__name__)


class Corpus:
    """A prepared corpus with the words that are predicted; made by `prepare` or `open_corpus`.

    Letters: U word types, V words of the vocabulary.

    Attributes:
        vocabulary: The V words of the LM softmax.
        types: The U word types; `<S>` and `</S>` are the first two (`BEGIN_TYPE`, `END_TYPE`).
        type_counts: (U,) int64, how often each type occurs, the boundaries once per sentence.
        targets: (U,) int64, type -> row of the softmax: its own, or that of the unknown word.
        counts: (V,) int64, how often a word is to be predicted in one pass: a boundary once per
            sentence (`</S>` forward, `<S>` backward), any other word as often as it occurs.
        tokens: int32, all sentences end to end with their boundaries, by type (memory-mapped).
        offsets: (num_sentences + 1,) int64, where sentences start in `tokens` (memory-mapped).
        num_files: Files of text.
        num_lines: Their lines.
        num_sentences: Lines that hold a token; a blank line is no sentence.
        num_tokens: Tokens without boundaries.
        num_unknown: Tokens that are not in the vocabulary.
        fingerprint: SHA-256 of the sentences and the vocabulary, in hexadecimal digits; moving,
            compressing or splitting the files of text does not change it.
    """

    def __init__(self, directory: Path, record: Record, vocabulary: Vocabulary) -> None:
        if missing := {BEGIN, END, UNKNOWN}.difference(vocabulary.ids):
            raise ConfigError(
                f"vocabulary: it lacks {', '.join(sorted(missing))}; add that to the list"
            )
        self.vocabulary = vocabulary
        self.types: Sequence[str] = read_types(directory, record)
        self.targets: NDArray[np.int64] = np.fromiter(
            map(vocabulary.encode, self.types), np.int64, record.num_types
        )
        self.tokens: NDArray[np.int32] = map_array(directory, record, TOKENS)
        self.offsets: NDArray[np.int64] = map_array(directory, record, OFFSETS)
        self.type_counts: NDArray[np.int64] = map_array(directory, record, COUNTS)
        self.counts: NDArray[np.int64] = np.zeros(len(vocabulary.words), np.int64)
        np.add.at(self.counts, self.targets, self.type_counts)
        self.num_files = len(record.sources)
        self.num_lines = record.num_lines
        self.num_sentences = record.num_sentences
        self.num_tokens = record.num_tokens
        self.num_unknown = int(self.counts[vocabulary.ids[UNKNOWN]])
        words = "\n".join(vocabulary.words).encode("utf-8", "surrogatepass")
        self.fingerprint = digest(record.digest.encode(), words)

    @property
    def num_predictions(self) -> int:
        """Predictions of one direction in one pass: every token, and one boundary per sentence."""
        return self.num_tokens + self.num_sentences

    @property
    def unknown_rate(self) -> float:
        """Share of tokens that are not in the vocabulary."""
        return self.num_unknown / self.num_tokens

    def sentence(self, index: int) -> NDArray[np.int32]:
        """Returns (n,) types of a sentence, without its boundaries."""
        begin, end = self.offsets[index : index + 2]
        return self.tokens[begin + 1 : end - 1]

    def describe(self) -> str:
        """Returns what was read as one line in which every line and token is accounted for."""
        files = "1 file" if self.num_files == 1 else f"{self.num_files:,} files"
        return (
            f"{files}, {self.num_lines:,} lines ({self.num_lines - self.num_sentences:,} blank), "
            f"{self.num_sentences:,} sentences, {self.num_tokens:,} tokens "
            f"({self.unknown_rate:.2%} unknown, 0 dropped)"
        )


def prepare(
    patterns: Sequence[str], vocabulary: Vocabulary, directory: Path, *, encoding: str = "utf-8"
) -> Corpus:
    """Reads a text into a folder of arrays, unless the folder holds that very text already.

    Of several processes one prepares, and the others call `open_corpus` afterwards.

    Args:
        patterns: Files or patterns, as `find_files` takes them; one sentence per line, tokens are
            `str.split()`. A file counts as the same by its place, size and time.
        vocabulary: The words that are predicted.
        directory: The folder; made if absent. The arrays of another text are replaced.
        encoding: Encoding of the text.

    Raises:
        ConfigError: The encoding is unknown, or the vocabulary lacks a special word.
        InputError: The text cannot be read, changes meanwhile, has no sentence, or has no word of
            the vocabulary.
        OutputError: The folder cannot be written.
    """
    check_encoding(encoding)
    files = find_files(patterns)
    if _holds(directory, files, encoding):
        _logger.info("%s: holds this text already; it is not read again", directory)
    else:
        try:
            write_arrays(files, encoding, directory)
        except OSError as error:
            raise OutputError(f"{directory}: cannot be written: {error.strerror}") from None
    return open_corpus(directory, vocabulary)


def open_corpus(directory: Path, vocabulary: Vocabulary) -> Corpus:
    """Opens what `prepare` made, without a look at the text.

    Args:
        directory: The folder.
        vocabulary: The words that are predicted; they need not be those given to `prepare`.

    Raises:
        ConfigError: The vocabulary lacks a special word.
        InputError: A file of the folder is missing or damaged, or the text has no word of the
            vocabulary.
    """
    record = read_record(directory)
    corpus = Corpus(directory, record, vocabulary)
    if corpus.num_unknown == corpus.num_tokens:
        raise InputError(
            f"{', '.join(source.path for source in record.sources)}: none of the "
            f"{corpus.num_tokens:,} tokens is in the vocabulary; give the word list of such text, "
            "and see that both are cut into tokens and cased alike"
        )
    return corpus


def _holds(directory: Path, files: Sequence[Path], encoding: str) -> bool:
    """Tells whether a folder was made from these files as they are now, and is complete."""
    sources = tuple(Source.of(file) for file in files)
    try:
        record = read_record(directory)
        read_types(directory, record)
        for name in (TOKENS, OFFSETS, COUNTS):
            map_array(directory, record, name)
    except InputError:  # no corpus, or a damaged one
        return False
    return (record.sources, record.encoding) == (sources, encoding)
