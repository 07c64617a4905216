"""Answers to questions: exact match and F1, normalised as in the official script of SQuAD 1.1."""

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elmokit.errors import InputError
from elmokit.metrics.counts import Counts

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(a|an|the)\b")


@dataclass(frozen=True, slots=True)
class AnswerScores:
    """How predicted answers agree with the right ones, as means over questions."""

    f1: float
    """Overlap of words with the nearest right answer."""
    exact_match: float
    """Share of questions whose answer equals a right one."""

    def to_dict(self) -> dict[str, float]:
        """Returns the figures as plain values."""
        return {"f1": self.f1, "exact_match": self.exact_match}


def normalize(answer: str) -> str:
    """Returns an answer in lower case, without ASCII punctuation, English articles and extra space.

    The steps come in this order, as in the official script: punctuation inside a word joins its
    parts, and an article that only appears so is taken away too.
    """
    text = _ARTICLE.sub(" ", answer.lower().translate(_PUNCTUATION))
    return " ".join(text.split())


def exact_match(predicted: str, right: Iterable[str]) -> bool:
    """Tells whether an answer equals one of the right ones once both are normalised."""
    return normalize(predicted) in map(normalize, right)


def f1(predicted: str, right: Iterable[str]) -> float:
    """Returns the F1 of words with the right answer that is nearest.

    Words are what white space separates once answers are normalised; a word counts as often as it
    stands in both. Where no word is left on either side it is 0, as in the official script of 1.1,
    and where there is no right answer.
    """
    return max((_overlap(predicted, answer) for answer in right), default=0.0)


def score_answers(right: Sequence[Sequence[str]], predicted: Sequence[str]) -> AnswerScores:
    """Compares answers.

    Args:
        right: The right answers of each question; where there are none, any answer is wrong.
        predicted: One answer for each, in the same order.

    Raises:
        InputError: There is no question.
    """
    if not right:
        raise InputError("there is not one question to score")
    pairs = list(zip(predicted, right, strict=True))
    return AnswerScores(
        sum(f1(*pair) for pair in pairs) / len(pairs),
        sum(exact_match(*pair) for pair in pairs) / len(pairs),
    )


def _overlap(predicted: str, answer: str) -> float:
    found, wanted = (Counter(normalize(text).split()) for text in (predicted, answer))
    return Counts((found & wanted).total(), found.total(), wanted.total()).f1
