"""How much an output file will hold, from which its size is estimated before the run."""

from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """Counts of what is to be written."""

    num_rows: int
    """Input rows."""
    num_tokens: int
    """Tokens of all rows."""
    num_characters: int
    """Characters of all tokens; one outside ASCII counts 6, as it is stored as an escape."""
    num_vectors: int
    """Vectors of one layer: tokens (boundaries included, if kept), or rows if pooled."""
    vector_dim: int
    """Values per vector, all kept layers together."""
    dtype: Literal["float32", "float16"] = "float32"

    @property
    def num_values(self) -> int:
        """Values of all vectors."""
        return self.num_vectors * self.vector_dim

    @property
    def vector_bytes(self) -> int:
        """Bytes of all vectors."""
        return self.num_values * np.dtype(self.dtype).itemsize

    @property
    def text_bytes(self) -> int:
        """Bytes of all rows as JSON lists of tokens."""
        return self.num_characters + 3 * self.num_tokens + 2 * self.num_rows
