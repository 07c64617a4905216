"""Texts that questions are asked about: their words, where these stand, what is read together."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from elmokit.text.tokenizers import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A text in words. A range is of words, from the first to behind the last."""

    text: str
    """As it was read; answers are cut from it."""
    tokens: tuple[str, ...]
    """Its words."""
    offsets: tuple[tuple[int, int], ...]
    """Start and end of each in characters of the text."""
    windows: tuple[range, ...]
    """Words that a model reads together; all of them if the text is short."""

    def words(self, start: int, end: int) -> range:
        """Returns the words that characters from start to end (exclusive) touch."""
        first = bisect_right(self.offsets, start, key=lambda place: place[1])
        return range(first, bisect_left(self.offsets, end, key=lambda place: place[0]))

    def characters(self, words: range) -> str:
        """Returns the piece of the text from the first word to the last."""
        return self.text[self.offsets[words.start][0] : self.offsets[words.stop - 1][1]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutting:
    """How questions and texts are cut."""

    tokenizer: Tokenizer
    """What makes words."""
    window: int
    """Words that are read together at most."""
    overlap: int
    """Words that a window shares with the next."""

    def passage(self, text: str) -> Passage:
        """Cuts a text into words, and these into windows."""
        found = self.tokenizer(text)
        return Passage(
            text=text,
            tokens=tuple(token for token, _, _ in found),
            offsets=tuple((start, end) for _, start, end in found),
            windows=windows(len(found), self.window, self.overlap),
        )

    def question(self, text: str) -> tuple[str, ...]:
        """Returns the words of a question, as many of them as are read together."""
        return tuple(token for token, _, _ in self.tokenizer(text)[: self.window])


def windows(num_words: int, size: int, overlap: int) -> tuple[range, ...]:
    """Cuts words into windows, so that each run of at most `overlap` words is whole in one.

    Args:
        num_words: Words in all.
        size: Words of a window; the last may have fewer.
        overlap: Words that it shares with the next, fewer than `size`.
    """
    starts = range(0, max(num_words - overlap, 1), size - overlap)
    return tuple(range(start, min(start + size, num_words)) for start in starts)


def window_around(answers: Sequence[range], windows: Sequence[range]) -> range | None:
    """Returns the window with an answer that has the most words on both sides of it.

    Args:
        answers: Words of each answer; the first that is whole in some window counts.
        windows: To choose from.

    Returns:
        The window; None if none holds an answer.
    """

    def margin(answer: range, window: range) -> int:
        return min(answer.start - window.start, window.stop - answer.stop)

    for answer in answers:
        best = max(windows, key=lambda window: margin(answer, window))
        if margin(answer, best) >= 0:
            return best
    return None
