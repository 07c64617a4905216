"""Plain text for prediction: a line is an example, its words between white space."""

from collections.abc import Iterable, Iterator, Sequence

from elmokit.tasks.readers.items import Sentence, Text
from elmokit.tasks.readers.reading import Block, cut_lines


class PlainSentences:
    """Lines as sentences to tag; a blank line is none."""

    def __init__(self, name: str) -> None:
        self._name = name

    def cut(self, lines: Iterable[tuple[int, str]]) -> Iterable[Block]:
        """Makes each line a block."""
        return cut_lines(lines)

    def parse(self, block: Block) -> Sentence | None:
        """Returns the words of a line."""
        [(number, line)] = block
        tokens = tuple(line.split())
        lines = (number,) * len(tokens)
        return Sentence(name=self._name, lines=lines, tokens=tokens) if tokens else None


class PlainTexts:
    """Lines as texts to classify; a blank line is none."""

    def __init__(self, name: str) -> None:
        self._name = name

    def cut(self, lines: Iterable[tuple[int, str]]) -> Iterable[Block]:
        """Makes each line a block."""
        return cut_lines(lines)

    def parse(self, block: Block) -> Text | None:
        """Returns the words of a line."""
        [(number, line)] = block
        tokens = tuple(line.split())
        return Text(where=f"{self._name}: line {number}", tokens=tokens) if tokens else None


def write_tagged(block: Block, tags: Sequence[str] | None) -> Iterator[str]:
    """Yields a word and its tag a line, and a blank line at the end; that alone for a blank one."""
    [(_, line)] = block
    for token, tag in zip(line.split(), tags or (), strict=True):
        yield f"{token} {tag}"
    yield ""
