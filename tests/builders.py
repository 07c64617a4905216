"""Small random models and sentences that several tests use."""

import torch

from elmokit.characters import ByteAlphabet
from elmokit.config import BiLMConfig, CharCNNConfig, LSTMConfig, WordEmbeddingConfig
from elmokit.model import BiLM
from elmokit.nn import BiLMNetwork
from elmokit.vocabulary import InputWords


def char_config(**lstm) -> BiLMConfig:
    """A tiny character model; keyword arguments change its LSTM."""
    settings = {"num_layers": 2, "cell_dim": 24, "projection_dim": 8, "forget_bias": 1.0, **lstm}
    return BiLMConfig(
        lstm=LSTMConfig(**settings),
        characters=CharCNNConfig(
            num_characters=261, embedding_dim=4, filters=((1, 4), (2, 6), (3, 6)), num_highway=1
        ),
    )


def char_bilm(seed: int = 0, **lstm) -> BiLM:
    torch.manual_seed(seed)
    return BiLM(BiLMNetwork(char_config(**lstm)), alphabet=ByteAlphabet()).eval()


def word_bilm(words: list[str], seed: int = 0, **lstm) -> BiLM:
    torch.manual_seed(seed)
    listed = ("<S>", "</S>", "<UNK>", *words)
    settings = {"num_layers": 2, "cell_dim": 24, "projection_dim": 8, **lstm}
    config = BiLMConfig(
        lstm=LSTMConfig(**settings),
        words=WordEmbeddingConfig(num_words=len(listed), embedding_dim=settings["projection_dim"]),
        token_projection=False,
    )
    return BiLM(BiLMNetwork(config), words=InputWords(words=listed)).eval()


def sentences_of_lengths(lengths, seed: int = 0) -> list[list[str]]:
    """Sentences of random words over a few hundred distinct ones, the lengths as given."""
    generator = torch.Generator().manual_seed(seed)
    alphabet = "abcdefghijklmnopqrstuvwxyzäéß漢字"
    words = [
        "".join(
            alphabet[i] for i in torch.randint(len(alphabet), (int(size),), generator=generator)
        )
        for size in torch.randint(1, 14, (300,), generator=generator)
    ]
    return [
        [words[i] for i in torch.randint(len(words), (length,), generator=generator)]
        for length in lengths
    ]
