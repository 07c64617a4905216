"""What readers make of files: examples of the tasks, each with its place for messages."""

from dataclasses import dataclass

from elmokit.metrics.spans import Scheme
from elmokit.tasks.readers.passages import Passage


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """Words with a tag each."""

    name: str
    """The file."""
    lines: tuple[int, ...]
    """Line of each word."""
    tokens: tuple[str, ...]
    """The words; at least one."""
    tags: tuple[str, ...] | None = None
    """A tag per word, if tags were asked for."""
    scheme: Scheme | None = None
    """How the tags of the file write spans; None if they write none."""

    @property
    def where(self) -> str:
        """Place for messages."""
        return f"{self.name}: line {self.lines[0]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Words with one label."""

    where: str
    """Place for messages."""
    tokens: tuple[str, ...]
    """The words; at least one."""
    label: str | None = None
    """What the text is, if that was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about a text, with what is right to answer."""

    where: str
    """Place for messages."""
    passage: Passage
    """The text; at least one word."""
    tokens: tuple[str, ...]
    """Words of the question; at least one."""
    answers: tuple[str, ...] = ()
    """What is right, as it stands in the text; none if that was not asked for or nothing is."""
    spans: tuple[range, ...] = ()
    """Words of the text that each answer touches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two texts with one label."""

    where: str
    """Place for messages."""
    premise: tuple[str, ...]
    """Words of the first; at least one."""
    hypothesis: tuple[str, ...]
    """Words of the second; at least one."""
    label: str | None = None
    """How they stand to each other, if that was asked for."""
