"""Tokenisers by name: text -> tokens with their places.

Whatever the tokeniser, a token is a piece of the text (`text[start:end] == token`), tokens follow
one another without overlap, and no token holds white space.
"""

import re
from collections.abc import Callable
from typing import Any, Protocol

import regex

from elmokit.config import nearest
from elmokit.errors import ConfigError
from elmokit.extras import needed


class Tokenizer(Protocol):
    """Cuts text into tokens."""

    def __call__(self, text: str) -> list[tuple[str, int, int]]:
        """Returns each token with its start and end in characters of the text."""
        ...


# White space is what str.split() takes for it; `re` agrees with it, `regex` does not.
_CHUNK = re.compile(r"\S+")
_WORD_BOUNDARY = regex.compile(r"(?w)\b")
_SURROGATE = re.compile("[\ud800-\udfff]")


def cut_whitespace(text: str) -> list[tuple[str, int, int]]:
    """Cuts as `str.split()` does."""
    return [(match.group(), match.start(), match.end()) for match in _CHUNK.finditer(text)]


def cut_characters(text: str) -> list[tuple[str, int, int]]:
    """Makes each code point that is no white space a token; a combining mark is one too."""
    return [(c, i, i + 1) for i, c in enumerate(text) if not c.isspace()]


def cut_words(text: str) -> list[tuple[str, int, int]]:
    """Cuts at white space and at Unicode's default word boundaries (UAX 29).

    These are not the words of Thai, Lao, Khmer, Burmese, Japanese or Chinese, whose letters come
    out one by one or in runs; text in those scripts needs a tokeniser of its own.
    """
    tokens = []
    for chunk, offset, _ in cut_whitespace(text):
        start = 0
        for boundary in _WORD_BOUNDARY.finditer(chunk, 1):
            end = boundary.start()
            tokens.append((chunk[start:end], offset + start, offset + end))
            start = end
    return tokens


_TOKENIZERS: dict[str, Tokenizer] = {
    "whitespace": cut_whitespace,
    "characters": cut_characters,
    "words": cut_words,
}


def is_tokenizer(name: str | None) -> bool:
    """Tells whether a name is one that `get_tokenizer` takes; a card may say it in other words."""
    return name in _TOKENIZERS or (name is not None and name.partition(":")[0] == "spacy")


def get_tokenizer(name: str) -> Tokenizer:
    """Returns the tokeniser of that name.

    Args:
        name: `whitespace`, `characters`, `words`, or `spacy:LANG` for spaCy's rules for a language;
            `spacy` alone is `spacy:en`.

    Raises:
        ConfigError: There is no such tokeniser; the nearest name is given.
        MissingExtraError: spaCy is asked for and not installed.
    """
    kind, _, language = name.partition(":")
    if kind == "spacy":
        return _spacy_tokenizer(name, language or "en")
    if name not in _TOKENIZERS:
        raise ConfigError(
            f"tokenizer: {name!r} is unknown{nearest(name, [*_TOKENIZERS, 'spacy'])}; "
            "use whitespace, characters, words, spacy or spacy:LANG"
        )
    return _TOKENIZERS[name]


def _spacy_tokenizer(name: str, language: str) -> Tokenizer:
    mend = 'pip install "elmokit[spacy]", or name another one'
    with needed("spacy", f"tokenizer {name!r} needs spaCy; {mend}"):
        import spacy
    try:
        cut: Callable[[str], Any] = spacy.blank(language).tokenizer
    except ImportError as error:  # an unknown language, or one whose rules need a further package
        raise ConfigError(f"tokenizer {name!r}: {' '.join(str(error).split())}") from None

    def tokenize(text: str) -> list[tuple[str, int, int]]:
        # spaCy refuses lone surrogates; a stand-in of the same length keeps the places.
        tokens = cut(_SURROGATE.sub("\ufffd", text))
        places = [(token.idx, token.idx + len(token)) for token in tokens if not token.is_space]
        return [(text[start:end], start, end) for start, end in places]

    return tokenize
