"""Checks of tokens that users hand over: what cannot be embedded, and what is probably a slip."""

import html.entities
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence

from elmokit.errors import InputError

_SPACE = re.compile(r"\s")
_ESCAPE = re.compile(r"&(#[0-9]+;|#[xX][0-9A-Fa-f]+;|[A-Za-z][A-Za-z0-9]*;)")


def check_tokens(sentences: Sequence[Sequence[str]], *, warn_spaces: bool = True) -> None:
    """Checks that the sentences are lists of tokens.

    Args:
        sentences: Sentences as lists or tuples of tokens; the check would use up an iterator.
        warn_spaces: Warn, once for the whole call, if tokens hold white space. Rows of a file,
            whose tokens may do so, are checked without.

    Raises:
        InputError: A string stands where a list of tokens is due, or a token is not a string; the
            message has its place.
    """
    if isinstance(sentences, str):
        raise InputError(_found_string("sentences", sentences, "lists of tokens"))
    if not isinstance(sentences, Iterable):
        raise InputError(f"sentences: expected lists of tokens, found {_kind(sentences)}")
    spaced: list[str] = []
    for i, sentence in enumerate(sentences):
        _check_sentence(sentence, f"sentences[{i}]")
        if warn_spaces and _SPACE.search("".join(sentence)):
            spaced += [
                f"sentences[{i}][{j}]" for j, token in enumerate(sentence) if _SPACE.search(token)
            ]
    if spaced:
        warnings.warn(
            f"{spaced[0]}: the token holds white space ({len(spaced)} such tokens in all); "
            "each is read as one word, so split it if it is several",
            stacklevel=3,
        )


def count_html_escapes(tokens: Iterable[str]) -> int:
    """Counts HTML escapes such as `&amp;` and `&#39;` in tokens or texts.

    A tokeniser may cut an escape in pieces: where a row has its `text`, that is what to look at.
    """
    return sum(
        _is_escape(found) for token in tokens if "&" in token for found in _ESCAPE.findall(token)
    )


def _check_sentence(sentence: object, where: str) -> None:
    if isinstance(sentence, str):
        raise InputError(_found_string(where, sentence, "a list of tokens"))
    # Arrays and columns of data frames are no Sequence, but can be read like one.
    is_list = hasattr(sentence, "__len__") and hasattr(sentence, "__getitem__")
    if not is_list or isinstance(sentence, Mapping) or not isinstance(sentence, Iterable):
        raise InputError(f"{where}: expected a list of tokens, found {_kind(sentence)}")
    for j, token in enumerate(sentence):
        if not isinstance(token, str):
            raise InputError(f"{where}[{j}]: expected a token, a string, found {_kind(token)}")


def _found_string(where: str, text: str, expected: str) -> str:
    shown = repr(text) if len(text) <= 40 else f"{text[:40]!r}..."
    return (
        f"{where}: expected {expected}, found the string {shown}; split it first: sentence.split()"
    )


def _kind(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _is_escape(found: str) -> bool:
    return found.startswith("#") or found in html.entities.html5
