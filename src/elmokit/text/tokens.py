"""Checks of tokens that users hand over: what cannot be embedded, and what is probably a slip."""

import html.entities
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Set

from elmokit.errors import InputError

_SPACE = re.compile(r"\s")
_ESCAPE = re.compile(r"&(#[0-9]+;|#[xX][0-9A-Fa-f]+;|[A-Za-z][A-Za-z0-9]*;)")


def token_lists(sentences: Iterable[Iterable[str]]) -> Iterator[list[str]]:
    """Yields sentences as lists of tokens, in the order in which they are iterated over.

    The first token that holds white space is warned of: it is read as one word, and is probably a
    sentence that was not split.

    Args:
        sentences: Lists, tuples or arrays of tokens, in any iterable that has an order.

    Raises:
        InputError: A string stands where a list of tokens is due, or a token is not a string; the
            message has its place.
    """
    if isinstance(sentences, str):
        raise InputError(_found_string("sentences", sentences, "lists of tokens"))
    if not isinstance(sentences, Iterable) or isinstance(sentences, Mapping | Set):
        raise InputError(f"sentences: expected lists of tokens, found {_kind(sentences)}")
    warned = False
    for i, sentence in enumerate(sentences):
        tokens = _token_list(sentence, f"sentences[{i}]")
        if not warned and _SPACE.search("".join(tokens)):
            place = next(j for j, token in enumerate(tokens) if _SPACE.search(token))
            warnings.warn(
                f"sentences[{i}][{place}]: the token holds white space and is read as one word; "
                "split it if it is several (told once per call)",
                stacklevel=3,
            )
            warned = True
        yield tokens


def count_html_escapes(tokens: Iterable[str]) -> int:
    """Counts HTML escapes such as `&amp;` and `&#39;` in tokens or texts.

    A tokeniser may cut an escape in pieces: where a row has its `text`, that is what to look at.
    """
    return sum(
        _is_escape(found) for token in tokens if "&" in token for found in _ESCAPE.findall(token)
    )


def _token_list(sentence: object, where: str) -> list[str]:
    if isinstance(sentence, str):
        raise InputError(_found_string(where, sentence, "a list of tokens"))
    if not isinstance(sentence, Iterable) or isinstance(sentence, Mapping | Set):
        raise InputError(f"{where}: expected a list of tokens, found {_kind(sentence)}")
    tokens = list(sentence)
    for j, token in enumerate(tokens):
        if not isinstance(token, str):
            raise InputError(f"{where}[{j}]: expected a token, a string, found {_kind(token)}")
    return tokens


def _found_string(where: str, text: str, expected: str) -> str:
    shown = repr(text) if len(text) <= 40 else f"{text[:40]!r}..."
    return (
        f"{where}: expected {expected}, found the string {shown}; split it first: sentence.split()"
    )


def _kind(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _is_escape(found: str) -> bool:
    return found.startswith("#") or found in html.entities.html5
