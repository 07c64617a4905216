"""FASTA: a record is a row, and its letters are the tokens."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from elmokit.errors import InputError
from elmokit.text.row import Row

logger = logging.getLogger(__name__)

_EXPECTED = "*-"
"""Stop and gap, the symbols that sequences hold beside letters."""
_NUM_SHOWN = 10


def read_fasta(lines: Iterable[tuple[int, str]], name: str, *, warn: bool = True) -> Iterator[Row]:
    """Yields each record as a row, an empty record as an empty one; letters keep their case.

    Symbols other than A-Z, a-z, `*` and `-` stay tokens, and each record that has some is logged as
    a warning with their counts.

    Args:
        lines: Numbered lines.
        name: What messages call the source.
        warn: Whether odd symbols are logged.

    Raises:
        InputError: There is text before the first header.
    """
    header: tuple[int, str] | None = None
    letters: list[str] = []
    for number, line in lines:
        if line.startswith(">"):
            if header is not None:
                yield _finish(header, letters, name, warn)
            header, letters = (number, line[1:]), []
        elif header is not None:
            letters.extend("".join(line.split()))
        elif line.strip():
            raise InputError(
                f"{name}: line {number}: found text before the first record; "
                "expected a header that starts with '>'"
            )
    if header is not None:
        yield _finish(header, letters, name, warn)


def _finish(header: tuple[int, str], letters: Sequence[str], name: str, warn: bool) -> Row:
    line, title = header
    record_id = (title.split() or [""])[0]
    odd = Counter(symbol for symbol in letters if not _is_expected(symbol))
    if odd and warn:
        shown = ", ".join(f"{symbol!r} {count}" for symbol, count in odd.most_common(_NUM_SHOWN))
        more = f" and {len(odd) - _NUM_SHOWN} others" if len(odd) > _NUM_SHOWN else ""
        logger.warning(
            "%s: line %d: record %r has symbols other than letters: %s%s; they are kept as tokens",
            *(name, line, record_id, shown, more),
        )
    return Row(tuple(letters), line, id=record_id)


def _is_expected(symbol: str) -> bool:
    return (symbol.isascii() and symbol.isalpha()) or symbol in _EXPECTED
