"""Word types -> context-free vectors of projection width: layer 0 of the biLM.

Letters: U word types, D projection width.
"""

import torch
from torch import Tensor, nn

from elmokit.batch import Types, send
from elmokit.config import BiLMConfig
from elmokit.nn.char_encoder import CharEncoder
from elmokit.nn.products import Linear


class TokenEncoder(nn.Module):
    """A word table, a character encoder or both side by side, then a linear projection."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.words = (
            nn.Embedding(config.words.num_words + 1, config.words.embedding_dim, padding_idx=0)
            if config.words
            else None
        )
        self.characters = CharEncoder(config.characters) if config.characters else None
        self.projection = (
            Linear(config.token_dim, config.lstm.projection_dim)
            if config.token_projection
            else None
        )

    def forward(self, types: Types) -> Tensor:
        """Encodes each type by itself; returns (U, D)."""
        parts = []
        if self.words is not None:
            assert types.word_ids is not None
            parts.append(self.words(send(types.word_ids, self.words.weight.device)))
        if self.characters is not None:
            assert types.char_ids is not None
            parts.append(self.characters(types.char_ids))
        vectors = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        return vectors if self.projection is None else self.projection(vectors)
