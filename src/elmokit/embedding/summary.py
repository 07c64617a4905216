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


def describe(counts: Mapping[str, int], tokens_per_second: float) -> str:
    """Returns sums of what `count` returned as one line."""
    words = f", {counts['unknown_words']:,} unknown words" if counts["unknown_words"] else ""
    escapes = (
        f", {counts['html_escapes']:,} HTML escapes such as &amp; read as they stand"
        if counts["html_escapes"]
        else ""
    )
    return (
        f"{counts['rows']:,} rows, {counts['tokens']:,} tokens ({counts['cut_tokens']:,} cut, "
        f"{counts['unknown_characters']:,} unknown characters{words}{escapes}), "
        f"{tokens_per_second:,.0f} tokens per second"
    )
