"""What every reader yields: a sentence, line or record as tokens, with its place in the source."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the input.

    `text` and `offsets` are there exactly if a tokeniser cut the row: in raw text, in JSONL records
    with `text`, and in text files read with a tokeniser by name.
    """

    tokens: tuple[str, ...]
    line: int
    """Line on which the row starts, from 1."""
    id: str | None = None
    """First word of a FASTA header, empty if it has none; null in the other formats."""
    text: str | None = None
    """What was cut: a line, a JSONL record's `text`, or one sentence of a line of raw text."""
    offsets: tuple[tuple[int, int], ...] | None = None
    """Start and end of each token in characters: in `text`, but in raw text in the whole line."""
