"""The word list of the LM softmax: counted from a corpus, written, read and checked."""

import logging
import multiprocessing
import os
import reprlib
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from elmokit.embedding.manifest import write_atomically
from elmokit.embedding.progress import Progress
from elmokit.errors import ConfigError, InputError, OutputError
from elmokit.text.lines import DECOMPRESSORS, check_encoding, read_lines
from elmokit.training.sources import find_files
from elmokit.vocabulary import BEGIN, END, UNKNOWN, Vocabulary

_logger = logging.getLogger(__name__)

SPECIAL = (BEGIN, END, UNKNOWN)
"""The first words of every list, in this order."""


@dataclass(frozen=True, slots=True)
class WordCounts:
    """How often each word occurs in a text."""

    words: Counter[str] = field(default_factory=Counter)
    num_sentences: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularySummary:
    """What a word list covers of the text it was made from."""

    num_words: int
    """Words of the list, the special ones included."""
    num_distinct: int
    """Distinct words of the text."""
    num_tokens: int
    num_known: int
    """Tokens that are in the list."""
    num_sentences: int
    num_files: int

    def describe(self) -> str:
        """Returns the facts as one line."""
        files = "1 file" if self.num_files == 1 else f"{self.num_files:,} files"
        return (
            f"{self.num_words:,} words, {', '.join(SPECIAL)} included, out of "
            f"{self.num_distinct:,} distinct ones; they cover "
            f"{self.num_known / self.num_tokens:.2%} of {self.num_tokens:,} tokens in "
            f"{self.num_sentences:,} sentences of {files}"
        )


def make_vocabulary(
    patterns: Sequence[str],
    output: Path,
    *,
    max_size: int | None = None,
    min_count: int = 1,
    encoding: str = "utf-8",
    processes: int | None = None,
    overwrite: bool = False,
) -> VocabularySummary:
    """Counts the words of a corpus and writes the sorted list.

    Args:
        patterns: Files or patterns, as `find_files` takes them; one sentence per line, tokens are
            `str.split()`.
        output: The list, one word per line, see `choose_words`.
        max_size: Most words of the list, the special ones included; None for all.
        min_count: Occurrences that a word needs.
        encoding: Encoding of the corpus; the list is UTF-8.
        processes: Files that are counted at once; None for as many as there are cores.
        overwrite: Replace an existing list, once the new one is complete.

    Raises:
        ConfigError: A setting is out of range.
        InputError: The corpus cannot be read or has no word for the list.
        OutputError: The list cannot be written, or there is one already.
    """
    _check_settings(max_size, min_count, processes)
    check_encoding(encoding)
    files = find_files(patterns)
    _check_place(output, files, overwrite=overwrite)
    counts = count_words(files, encoding=encoding, processes=processes or os.cpu_count() or 1)
    vocabulary = choose_words(counts.words, max_size=max_size, min_count=min_count)
    write_vocabulary(vocabulary, output)
    known = sum(counts.words[word] for word in vocabulary.words if word != UNKNOWN)
    return VocabularySummary(
        num_words=len(vocabulary.words),
        num_distinct=len(counts.words),
        num_tokens=counts.words.total(),
        num_known=known,
        num_sentences=counts.num_sentences,
        num_files=len(files),
    )


def count_words(
    files: Sequence[Path], *, encoding: str = "utf-8", processes: int = 1
) -> WordCounts:
    """Counts the words of files; memory grows with the number of distinct words only.

    Args:
        files: Text, one sentence per line, decompressed by suffix.
        encoding: Their encoding.
        processes: Files that are counted at once, each in a process of its own; 1 starts none.

    Raises:
        InputError: A file cannot be read, or none has a word.
    """
    words: Counter[str] = Counter()
    num_sentences = 0
    empty = []
    with Progress(total=None) as progress:
        all_counts = _count_files(files, encoding, min(processes, len(files)))
        for file, counts in zip(files, all_counts, strict=True):
            if not counts.num_sentences:
                empty.append(file)
            words.update(counts.words)
            num_sentences += counts.num_sentences
            progress.advance(counts.words.total())
    if not words:
        raise InputError(f"{', '.join(map(str, files))}: not a single word to count")
    for file in empty:
        _logger.warning("%s: holds no word", file)
    return WordCounts(words, num_sentences)


def choose_words(
    counts: Counter[str], *, max_size: int | None = None, min_count: int = 1
) -> Vocabulary:
    """Returns `<S>`, `</S>`, `<UNK>`, then words by falling count, those of one count by alphabet.

    That order is what bilm-tf asks for: its sampled softmax draws a word by its place in the list.

    Args:
        counts: Word -> occurrences.
        max_size: Most words of the list, the special ones included; None for all.
        min_count: Occurrences that a word needs.

    Raises:
        InputError: No word occurs so often.
    """
    frequent = [word for word, count in counts.items() if count >= min_count]
    words = sorted(set(frequent).difference(SPECIAL), key=lambda word: (-counts[word], word))
    if not words:
        raise InputError(
            f"min_count: no word occurs {min_count} times; "
            f"the highest count is {max(counts.values(), default=0)}"
        )
    return Vocabulary((*SPECIAL, *words)[:max_size])


def read_vocabulary(path: Path) -> Vocabulary:
    """Reads a word list for training, one word per line.

    Line ends of Windows and a byte-order mark are mended.

    Args:
        path: The list, UTF-8, decompressed by suffix. Word i, from 0, is row i of the softmax.

    Raises:
        InputError: The file cannot be read; a line is empty, holds white space or repeats a word;
            `<S>`, `</S>` and `<UNK>` are not the first three. The message has the line and the
            mend.
    """
    lines: dict[str, int] = {}
    for number, word in read_lines(path, "utf-8", mend="save the word list as UTF-8"):
        if problem := _problem(word, lines):
            raise InputError(f"{path}, line {number}: {problem}")
        lines[word] = number
    for place, word in enumerate(SPECIAL, start=1):
        if word not in lines:
            raise InputError(f"{path}: the word {word} is missing; insert it as line {place}")
        if lines[word] != place:
            raise InputError(f"{path}, line {lines[word]}: {word} belongs on line {place}; move it")
    return Vocabulary(tuple(lines))


def _problem(word: str, lines: dict[str, int]) -> str | None:
    """Returns what is wrong with a line of a word list; `lines` has those before it."""
    if not word:
        return "is empty; delete it"
    if word.split() != [word]:
        return f"{reprlib.repr(word)} holds white space; a word has none, take it out"
    if word in lines:
        return f"{reprlib.repr(word)} is on line {lines[word]} already; delete one of them"
    return None


def _count_files(files: Sequence[Path], encoding: str, processes: int) -> Iterator[WordCounts]:
    if processes == 1:
        yield from (_count_file(file, encoding) for file in files)
        return
    others = multiprocessing.active_children()
    # Spawned, since a fork of a process with threads may hang. An interruption from the terminal
    # reaches every process; the default action lets the counting ones end without a word.
    with ProcessPoolExecutor(
        processes,
        multiprocessing.get_context("spawn"),
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_DFL),
    ) as pool:
        futures = [pool.submit(_count_file, file, encoding) for file in files]
        try:
            for future in futures:
                yield future.result()
        except BaseException:  # whatever it is, the other files need not be counted to the end
            for child in multiprocessing.active_children():
                if child not in others:
                    child.terminate()
            raise


def _count_file(file: Path, encoding: str) -> WordCounts:
    words: Counter[str] = Counter()
    num_sentences = 0
    for _, line in read_lines(file, encoding):
        tokens = line.split()
        words.update(tokens)
        num_sentences += bool(tokens)
    return WordCounts(words, num_sentences)


def _check_settings(max_size: int | None, min_count: int, processes: int | None) -> None:
    least = len(SPECIAL) + 1
    if max_size is not None and max_size < least:
        raise ConfigError(
            f"max_size: {max_size} must be {least} or more; {', '.join(SPECIAL)} count too"
        )
    for name, value in (("min_count", min_count), ("processes", processes)):
        if value is not None and value < 1:
            raise ConfigError(f"{name}: {value} must be 1 or more")


def _check_place(output: Path, files: Sequence[Path], *, overwrite: bool) -> None:
    if not output.parent.is_dir():
        raise OutputError(f"{output}: there is no folder {output.parent}; create it first")
    if output.is_dir():
        raise OutputError(f"{output}: is a folder; give the name of a file with -o")
    if output.resolve() in {file.resolve() for file in files}:
        raise OutputError(f"{output}: is part of the corpus; give another name with -o")
    if output.exists() and not overwrite:
        raise OutputError(f"{output}: exists; use --overwrite to replace it, or give another name")
    if output.suffix.lower() in DECOMPRESSORS:
        raise OutputError(
            f"{output}: the list is plain text, and would be taken for a compressed one; leave "
            f"{output.suffix} out of its name"
        )


def write_vocabulary(vocabulary: Vocabulary, output: Path) -> None:
    """Writes a word list, one word per line, in the place of an old one.

    Raises:
        InputError: A word cannot be written as UTF-8.
        OutputError: The file cannot be written.
    """
    text = "".join(f"{word}\n" for word in vocabulary.words)
    try:
        write_atomically(output, text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise InputError(
            f"{output}: {text[error.start]!r} in a word cannot be written as UTF-8; "
            "take it out of the corpus, or give its encoding with --encoding"
        ) from None
    except OSError as error:
        output.with_name(f"{output.name}.tmp").unlink(missing_ok=True)
        raise OutputError(f"{output}: cannot be written: {error.strerror}") from None
