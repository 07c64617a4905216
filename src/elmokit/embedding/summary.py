"""What a run has seen: counts that end up in its last line."""

from collections import Counter
from collections.abc import Mapping, Sequence

from elmokit.model import BiLM
from elmokit.text import Row, count_html_escapes

COUNTS = (
    "rows",
    "tokens",
    "cut_tokens",
    "unknown_characters",
    "unknown_words",
    "html_escapes",
)
"""rows and tokens; tokens longer than the model's limit; characters and words the model cannot
know; escapes such as `&amp;` in the text."""


def count(rows: Sequence[Row], bilm: BiLM) -> dict[str, int]:
    """Counts what a user should know about rows before trusting their vectors, by `COUNTS`."""
    words = Counter(token for row in rows for token in row.tokens)
    alphabet, listed = bilm.alphabet, bilm.words
    texts = [[row.text] if row.text is not None else row.tokens for row in rows]
    numbers = (
        len(rows),
        words.total(),
        sum(n for word, n in words.items() if alphabet and alphabet.is_cut(word)),
        sum(n * bilm.count_unknown(word) for word, n in words.items()),
        sum(n for word, n in words.items() if listed and not listed.is_known(word)),
        sum(count_html_escapes(text) for text in texts),
    )
    return dict(zip(COUNTS, numbers, strict=True))


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun: 1 row, 2 rows, 1,000 rows."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def describe(
    counts: Mapping[str, int],
    tokens_per_second: float,
    seconds: float,
    *,
    knows_characters: bool = True,
) -> str:
    """Returns the summary of a run as one line.

    Args:
        counts: Sums of what `count` returned.
        tokens_per_second: Rate of embedding alone.
        seconds: Time of the whole run, loading and writing included.
        knows_characters: Whether the model can tell characters that it never saw from others.
    """
    remarks = [f"{counts['cut_tokens']:,} cut"]
    if knows_characters or counts["unknown_characters"]:
        remarks.append(counted(counts["unknown_characters"], "unknown character"))
    else:
        remarks.append("unknown characters not told without the model's word list")
    if counts["unknown_words"]:
        remarks.append(counted(counts["unknown_words"], "unknown word"))
    if counts["html_escapes"]:
        escapes = counted(counts["html_escapes"], "HTML escape")
        remarks.append(f"{escapes} such as &amp; read as they stand")
    return (
        f"{counted(counts['rows'], 'row')}, {counted(counts['tokens'], 'token')} "
        f"({', '.join(remarks)}), {tokens_per_second:,.0f} tokens per second, "
        f"{seconds:.1f} seconds in all"
    )
