"""Words of a task model: learnt vectors, a character CNN, and ELMo beside them.

Letters: B rows, T time, U word types, W width of a word vector, F filters, D ELMo's projection.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from elmokit.characters import ByteAlphabet
from elmokit.config import CharCNNConfig
from elmokit.errors import ConfigError
from elmokit.model import pad_words
from elmokit.nn.char_encoder import CharEncoder
from elmokit.tasks.config import TokensSection

_ALPHABET = ByteAlphabet()
_PADDING, _UNKNOWN = 0, 1
_WINDOW = 3
"""Bytes under a filter."""


def count_words(sentences: Iterable[Sequence[str]], section: TokensSection) -> list[str]:
    """Returns the words that get a vector of their own, by falling count."""
    counts = Counter(word for words in sentences for word in _looked_up(words, section))
    return [word for word, count in counts.most_common() if count >= section.min_count]


class TokenVectors(nn.Module):
    """Sentences -> vectors of their words.

    Attributes:
        dim: Width of a word's vector, ELMo's included.
    """

    def __init__(self, section: TokensSection, words: Sequence[str], elmo_dim: int) -> None:
        """Draws the weights.

        Args:
            section: How words are seen.
            words: Those with a vector of their own.
            elmo_dim: Width of ELMo's vectors at the input; 0 without it.

        Raises:
            ConfigError: Nothing would be left of a word.
        """
        super().__init__()
        self._section = section
        self._ids = {word: place for place, word in enumerate(words, start=_UNKNOWN + 1)}
        self.dim = section.word_dim + section.character_filters + elmo_dim
        if not self.dim:
            raise ConfigError("word_dim, character_filters: without ELMo one must be above 0")
        self.words = self.characters = None
        if section.word_dim:
            self.words = nn.Embedding(len(words) + 2, section.word_dim, padding_idx=_PADDING)
            limit = math.sqrt(3 / section.word_dim)
            nn.init.uniform_(self.words.weight[_UNKNOWN:], -limit, limit)
        if section.character_filters:
            self.characters = CharEncoder(
                CharCNNConfig(
                    num_characters=_ALPHABET.num_characters,
                    embedding_dim=section.character_dim,
                    filters=((_WINDOW, section.character_filters),),
                    num_highway=0,
                )
            )
        self.dropout = nn.Dropout(section.dropout)

    def forward(self, sentences: Sequence[Sequence[str]], elmo: Tensor | None) -> Tensor:
        """Returns the vectors of words.

        Args:
            sentences: B token lists.
            elmo: (B, T, 2D) ELMo at the input, which has its own dropout; None without it.

        Returns:
            (B, T, dim); rows of padding are zero.
        """
        parts = [
            part
            for part in (self._words(sentences), self._characters(sentences))
            if part is not None
        ]
        found = [self.dropout(torch.cat(parts, dim=2))] if parts else []
        return torch.cat([*found, *([] if elmo is None else [elmo])], dim=2)

    def _words(self, sentences: Sequence[Sequence[str]]) -> Tensor | None:
        """(B, T, W)."""
        if self.words is None:
            return None
        ids = [
            torch.tensor(
                [self._ids.get(word, _UNKNOWN) for word in _looked_up(words, self._section)]
            )
            for words in sentences
        ]
        return self.words(_padded(ids).to(self.words.weight.device))  # type: ignore[no-any-return]

    def _characters(self, sentences: Sequence[Sequence[str]]) -> Tensor | None:
        """(B, T, F), each distinct word encoded once."""
        if self.characters is None:
            return None
        types: dict[str, int] = {}
        rows = [torch.tensor([types.setdefault(w, len(types)) + 1 for w in ws]) for ws in sentences]
        device = self.characters.embedding.weight.device
        vectors = self.characters(pad_words(list(types), _ALPHABET).to(device))  # (U, F)
        return F.embedding(_padded(rows).to(device), F.pad(vectors, (0, 0, 1, 0)))


def lengths_of(sentences: Sequence[Sequence[str]], device: torch.device) -> Tensor:
    """(B,) int64 words of each sentence."""
    return torch.tensor([len(words) for words in sentences], device=device)


def _looked_up(words: Sequence[str], section: TokensSection) -> Sequence[str]:
    return [word.lower() for word in words] if section.lower else words


def _padded(rows: Sequence[Tensor]) -> Tensor:
    """(B, T) int64, 0 where a row has ended."""
    return pad_sequence(list(rows), batch_first=True).long()
