"""CoNLL-U: the tags of one of its columns; multiword tokens and empty nodes are passed over."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from elmokit.errors import InputError
from elmokit.tasks.readers.items import Sentence
from elmokit.tasks.readers.reading import Block, cut_at_blank_lines
from elmokit.text.conllu import read_word

Field = Literal["upos", "xpos"]
"""upos: universal parts of speech. xpos: those of the language."""

_PLACES: dict[Field, int] = {"upos": 3, "xpos": 4}
_MISSING = "_"


class Conllu:
    """The format for one file."""

    def __init__(self, name: str, field: Field | None) -> None:
        """Prepares for a file.

        Args:
            name: What messages call it.
            field: Where tags are; None for no tags.
        """
        self._name, self._field = name, field

    def cut(self, lines: Iterable[tuple[int, str]]) -> Iterable[Block]:
        """Cuts at blank lines."""
        return cut_at_blank_lines(lines)

    def parse(self, block: Block) -> Sentence | None:
        """Returns the sentence of a block, or None if it has no word.

        Raises:
            InputError: A line is not of the format, or a tag is missing.
        """
        words = [(number, columns) for number, columns in _words(block, self._name)]
        if not words:
            return None
        return Sentence(
            name=self._name,
            lines=tuple(number for number, _ in words),
            tokens=tuple(columns[1] for _, columns in words),
            tags=None if self._field is None else tuple(self._tag(*word) for word in words),
        )

    def _tag(self, number: int, columns: Sequence[str]) -> str:
        assert self._field is not None
        tag = columns[_PLACES[self._field]]
        if tag == _MISSING:
            raise InputError(
                f"{self._name}: line {number}: {self._field}: is missing ({_MISSING}); set "
                "the field to a column with tags, or leave the sentence out"
            )
        return tag


def write_conllu(block: Block, tags: Sequence[str] | None, field: Field) -> Iterator[str]:
    """Yields the lines of a block with its tags in their column; without any, as they are."""
    tag_of = dict(zip((n for n, _ in _words(block, "")), tags, strict=True)) if tags else {}
    for number, line in block:
        if number in tag_of:
            columns = line.split("\t")
            columns[_PLACES[field]] = tag_of[number]
            line = "\t".join(columns)
        yield line


def _words(block: Block, name: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in block:
        if line.strip() and not line.startswith("#"):
            columns = read_word(line, f"{name}: line {number}")
            if columns is not None:
                yield number, columns
