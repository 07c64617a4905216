"""Trees of the Stanford Sentiment Treebank: a label from 0 to 4 at every node, a tree a line."""

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from elmokit.errors import InputError
from elmokit.tasks.readers.items import Text
from elmokit.tasks.readers.reading import Block, cut_lines

Classes = Literal[5, 2]
"""5: the labels as they are. 2: 0 and 1 are negative, 3 and 4 positive, 2 is left out."""

# A leaf may hold a no-break space; only the ASCII space separates.
_PIECE = re.compile(r"\(([^ ()]*) ?|\)|([^ ()]+)| +")
_LABELS = ("0", "1", "2", "3", "4")
_TWO: dict[str, str | None] = {
    "0": "negative",
    "1": "negative",
    "2": None,
    "3": "positive",
    "4": "positive",
}
_ROOTS = {"negative": "1", "positive": "3"}


class Trees:
    """The format for one file."""

    def __init__(self, name: str, *, classes: Classes | None) -> None:
        """Prepares for a file.

        Args:
            name: What messages call it.
            classes: Which labels are read; None for none.
        """
        self._name, self._classes = name, classes

    def cut(self, lines: Iterable[tuple[int, str]]) -> Iterable[Block]:
        """Makes each line a block."""
        return cut_lines(lines)

    def parse(self, block: Block) -> Text | None:
        """Returns the sentence of a tree; None for a blank line, or 2 classes and a neutral one.

        Raises:
            InputError: Brackets do not match, or a label is missing or none of 0 to 4.
        """
        if not block[0][1].strip():
            return None
        if self._classes is None:
            tokens = _parse(block[0], self._name)[-1][1]
            return Text(where=f"{self._name}: line {block[0][0]}", tokens=tokens)
        return self._text(block, *_parse(block[0], self._name)[-1])

    def phrases(self, block: Block) -> list[Text]:
        """Returns the text of every node, each distinct one once, the whole sentence last.

        Raises:
            InputError: As for `parse`.
        """
        nodes = dict.fromkeys(_parse(block[0], self._name)) if block[0][1].strip() else {}
        texts = (self._text(block, *node) for node in nodes)
        return [text for text in texts if text is not None]

    def _text(self, block: Block, label: str, tokens: tuple[str, ...]) -> Text | None:
        found = _TWO[label] if self._classes == 2 else label
        where = f"{self._name}: line {block[0][0]}"
        return None if found is None else Text(where=where, tokens=tokens, label=found)


def write_tree(line: str, label: str | None) -> Iterator[str]:
    """Yields a tree with another label at its root; without one, as it is."""
    yield (
        line if label is None else re.sub(r"\([^ ]*", f"({_ROOTS.get(label, label)}", line, count=1)
    )


def _parse(line: tuple[int, str], name: str) -> list[tuple[str, tuple[str, ...]]]:
    """Returns the label and the words of each node, from the leaves to the root."""
    number, text = line
    text = text.strip(" ")
    where = f"{name}: line {number}"
    mend = "mend the tree, or leave it out with --skip-bad"
    nodes: list[tuple[str, tuple[str, ...]]] = []
    open_nodes: list[tuple[str, list[str]]] = []
    for piece in _PIECE.finditer(text):
        label, leaf = piece.groups()
        if nodes and not open_nodes:
            break
        if label is not None:
            if label not in _LABELS:
                raise InputError(
                    f"{where}, character {piece.start() + 1}: the label is {label!r}, expected 0 "
                    f"to 4; {mend}"
                )
            open_nodes.append((label, []))
        elif leaf is not None:
            if not open_nodes:
                break
            open_nodes[-1][1].append(leaf)
        elif piece[0] == ")":
            if not open_nodes or not open_nodes[-1][1]:
                break
            label, words = open_nodes.pop()
            nodes.append((label, tuple(words)))
            if open_nodes:
                open_nodes[-1][1].extend(words)
    else:
        if nodes and not open_nodes:
            return nodes
    raise InputError(f"{where}: the brackets do not make one tree; {mend}")
