"""Shows what a file of embeddings holds: python examples/show_embeddings.py demo.h5."""

import sys

import numpy as np

from elmokit import open_embeddings


def main(path: str) -> None:
    """Prints the shape, the tokens and a few numbers of every row."""
    with open_embeddings(path) as stored:
        print(f"{path}: {len(stored)} rows, made with {stored.settings['model_name']}")
        print("row  (layers, tokens, dim)  tokens")
        for row, vectors in enumerate(stored):
            print(f"{row:>3}  {vectors.shape!s:<21}  {' '.join(stored.tokens(row)[:6])}".rstrip())
        top = stored[0][-1]  # (tokens, dim)
        print(f"{stored.tokens(0)[0]!r} in row 0, top layer, four of {top.shape[-1]} numbers:")
        print(np.array2string(top[0, :4], precision=4, suppress_small=True))


if __name__ == "__main__":
    main(sys.argv[1])
