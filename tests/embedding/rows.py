"""Rows of vectors that the tests of the output side write and read."""

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from elmokit.embedding.writers import EmbeddedRow

ODD_SENTENCES = [
    ["the", "cat", "sat"],
    [],
    ["and/or", "/", "maybe"],
    ["boat/", "."],
    ["a\tb", "nul\0", "\u2028", "line\nend"],
    ["lone\ud800", "\U0001f600", "深い", '"vector":[1]', "\\", ""],
    ["the", "cat", "sat"],
    ["New York", "is"],
    ["New", "York", "is"],
    ["the", "cat", "sat"],
]

KINDS = {
    "all": lambda tokens: (3, tokens, 4),
    "one": lambda tokens: (tokens, 4),
    "pooled all": lambda tokens: (3, 4),
    "pooled one": lambda tokens: (4,),
}

ODD_VALUES = [-0.0, np.nan, np.inf, -np.inf, 1e-7, 65504.0, 1 / 3, 1e-30, 3.4028235e38, 1e-45]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def make_row(index: int, tokens, kind: str = "all", dtype: str = "float32") -> EmbeddedRow:
    shape = KINDS[kind](len(tokens))
    values = np.random.default_rng(index).standard_normal(shape)
    return EmbeddedRow(index, tuple(tokens), values.astype(dtype))


def odd_rows(kind: str = "all", dtype: str = "float32") -> list[EmbeddedRow]:
    return [make_row(i, tokens, kind, dtype) for i, tokens in enumerate(ODD_SENTENCES)]


def settings_of(kind: str) -> dict[str, object]:
    return {"pooling": "mean" if kind.startswith("pooled") else "none", "model": "tiny \u2028"}


def assert_same_bits(found, expected) -> None:
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


def assert_same_rows(stored, rows) -> None:
    assert len(stored) == len(rows)
    for i, row in enumerate(rows):
        found = stored.row(i)
        assert_same_bits(found.vectors, row.vectors)
        assert (found.index, found.tokens) == (i, row.tokens)
        assert (found.id, found.line, found.offsets) == (row.id, row.line, row.offsets)


@contextlib.contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Makes every write beyond a size fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
