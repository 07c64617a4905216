"""How near every token of a sentence is to every token of another, layer by layer."""

from collections.abc import Sequence

from elmokit.analysis.examples import Array, unit
from elmokit.embedding.embedder import Embedder
from elmokit.errors import InputError


def similarity(
    emb: Embedder, first: Sequence[str], second: Sequence[str], layers: Sequence[int]
) -> Array:
    """Compares two sentences token by token.

    Args:
        emb: The model.
        first: A tokens.
        second: B tokens.
        layers: K layers by number.

    Returns:
        (K, A, B) float32 cosines.

    Raises:
        InputError: A sentence has no token.
    """
    for name, tokens in (("first", first), ("second", second)):
        if not tokens:
            raise InputError(f"{name}: the sentence holds not a single token")
    one, other = (unit(vectors) for vectors in emb.embed([first, second], list(layers)))
    cosines: Array = (one @ other.transpose(0, 2, 1)).clip(-1, 1)
    return cosines
