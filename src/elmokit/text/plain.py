"""Plain text: a line is a row, or running text whose sentences are rows."""

from collections.abc import Iterable, Iterator

from elmokit.text.row import Row
from elmokit.text.sentences import split_sentences
from elmokit.text.tokenizers import Tokenizer


def read_text(lines: Iterable[tuple[int, str]], tokenizer: Tokenizer | None) -> Iterator[Row]:
    """Yields each line as a row, a blank line as an empty one.

    Args:
        lines: Numbered lines.
        tokenizer: What cuts a line; None for `str.split()`, without offsets.
    """
    for number, line in lines:
        if tokenizer is None:
            yield Row(tuple(line.split()), number)
        else:
            yield cut_row(line, number, tokenizer)


def read_raw(lines: Iterable[tuple[int, str]], tokenizer: Tokenizer) -> Iterator[Row]:
    """Yields each sentence of each line as a row; a blank line has none.

    A sentence does not reach over the end of its line. Its offsets count in the whole line.
    """
    for number, line in lines:
        for start, end in split_sentences(line):
            yield cut_row(line[start:end], number, tokenizer, start)


def cut_row(text: str, line: int, tokenizer: Tokenizer, shift: int = 0) -> Row:
    """Cuts text into a row; `shift` is added to the offsets."""
    cut = tokenizer(text)
    tokens = tuple(token for token, _, _ in cut)
    offsets = tuple((start + shift, end + shift) for _, start, end in cut)
    return Row(tokens, line, text=text, offsets=offsets)
