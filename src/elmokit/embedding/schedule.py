"""Which sentences run together, and how many are read ahead."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

_T = TypeVar("_T")


def plan(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Groups sentences of like length into batches.

    Args:
        lengths: Tokens of each sentence.
        batch_tokens: Tokens per batch, boundaries included; a longer sentence runs alone.

    Returns:
        Lists of places in `lengths`, the longest sentences first; each place once.
    """
    batches: list[list[int]] = []
    budget = 0
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        cost = lengths[place] + 2
        if not batches or budget + cost > batch_tokens:
            batches.append([])
            budget = 0
        batches[-1].append(place)
        budget += cost
    return batches


def cut_parts(
    rows: Iterable[_T], *, max_rows: int, max_tokens: int, length: Callable[[Any], int] = len
) -> Iterator[list[_T]]:
    """Cuts a stream into parts that are held in memory one at a time.

    Args:
        rows: What to cut.
        max_rows: Rows per part.
        max_tokens: A part ends once it holds this many tokens, however few its rows.
        length: Gives the tokens of a row.
    """
    part: list[_T] = []
    tokens = 0
    for row in rows:
        part.append(row)
        tokens += length(row)
        if len(part) >= max_rows or tokens >= max_tokens:
            yield part
            part, tokens = [], 0
    if part:
        yield part
