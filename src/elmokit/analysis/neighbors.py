"""Neighbours of a word in its sentence, beside those of its context-free vector.

After table 4 of Peters et al. 2018.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from elmokit.analysis.index import Index, static_vectors
from elmokit.embedding.embedder import Embedder
from elmokit.errors import ConfigError, InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbor:
    """A token of the index that is near."""

    cosine: float
    sentence: int
    """Number of its sentence, from 0, those without words not counted."""
    place: int
    """Where it stands there, from 0."""
    tokens: tuple[str, ...]
    """The sentence."""

    @property
    def form(self) -> str:
        """The token as it is written."""
        return self.tokens[self.place]

    def shown(self, num_around: int) -> str:
        """Returns the token in brackets with so many tokens before and after it."""
        start, end = max(0, self.place - num_around), self.place + num_around + 1
        before, after = self.tokens[start : self.place], self.tokens[self.place + 1 : end]
        parts = ("..." if start else "", *before, f"[{self.form}]", *after)
        return " ".join((*filter(None, parts), *(["..."] if end < len(self.tokens) else [])))


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbors:
    """What is near to a word."""

    tokens: tuple[str, ...]
    """Its sentence."""
    place: int
    """Where it stands, from 0."""
    static: tuple[tuple[str, float], ...]
    """Word types near to its context-free vector, with cosines."""
    layers: Mapping[int, tuple[Neighbor, ...]]
    """Layer -> tokens near to it there."""

    def to_dict(self) -> dict[str, object]:
        """Returns it as JSON values."""
        return {
            "tokens": list(self.tokens),
            "place": self.place,
            "layer 0": [{"word": word, "cosine": cosine} for word, cosine in self.static],
            "layers": {
                str(layer): [asdict(x) for x in near] for layer, near in self.layers.items()
            },
        }


def find_neighbors(
    emb: Embedder,
    index: Index,
    tokens: Sequence[str],
    place: int,
    *,
    layers: Sequence[int] | None = None,
    k: int = 10,
) -> Neighbors:
    """Finds the tokens of an index that are nearest to a word in its sentence, by cosine.

    Args:
        emb: The model that made the index.
        index: The index.
        tokens: The sentence.
        place: Where the word stands in it, from 0.
        layers: Layers by number, those of the index if None. Layer 0 is always there.
        k: How many for each layer.

    Raises:
        ConfigError: The index is of another model or has no such layer, or k is below 1.
    """
    if k < 1:
        raise ConfigError(f"k: {k} must be 1 or more")
    index.check_model(emb)
    if layers is not None and not {*layers} <= {0, *index.layers}:
        raise ConfigError(f"layers: the index holds {[0, *index.layers]}, not all of {layers}")
    layers = [layer for layer in index.layers if layers is None or layer in layers]
    vectors = emb.embed([tokens], list(index.layers))[0][:, place]
    by_layer = dict(zip(index.layers, vectors, strict=True))
    found = {}
    for layer in layers:
        near = index.nearest(layer, by_layer[layer], k)
        found[layer] = tuple(_neighbor(index, token, cosine) for token, cosine in near)
    static = index.nearest_types(static_vectors(emb, [tokens[place]])[0], k)
    return Neighbors(tokens=tuple(tokens), place=place, static=tuple(static), layers=found)


def find_word(tokens: Sequence[str], word: str, occurrence: int = 1) -> int:
    """Returns where a word stands in a sentence, from 0.

    Args:
        tokens: The sentence.
        word: The word as it is written there.
        occurrence: Which of several, from 1.

    Raises:
        InputError: The sentence has not so many of it.
    """
    if not tokens:
        raise InputError("sentence: has no token; give some between white space, in quotes")
    places = [place for place, token in enumerate(tokens) if token == word]
    if not places:
        raise InputError(
            f"word: {word!r} is no token of the sentence; its tokens are {' '.join(tokens)}"
        )
    if not 1 <= occurrence <= len(places):
        raise InputError(f"occurrence: {occurrence} of {word!r}, which stands there {len(places)}x")
    return places[occurrence - 1]


def _neighbor(index: Index, token: int, cosine: float) -> Neighbor:
    sentence, tokens, place = index.sentence(token)
    return Neighbor(cosine=cosine, sentence=sentence, place=place, tokens=tokens)
