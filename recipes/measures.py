"""What is measured with a model before it ships, for its card."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit import BiLM, BiLMConfig, Embedder
from elmokit.analysis import probe
from elmokit.analysis.examples import Example, read_tags, unit, vectors_of
from elmokit.characters import ByteAlphabet
from elmokit.config import CharCNNConfig, LSTMConfig
from elmokit.embedding.run import embed_file
from elmokit.embedding.settings import EmbedSettings
from elmokit.nn import BiLMNetwork
from elmokit.text import read_rows

Sentences = Sequence[Sequence[str]]

NUM_FIRST = 5
"""Tokens of a sentence on which a cold start shows most."""


def read_text(path: Path) -> list[Sequence[str]]:
    """Reads the sentences of a text, one a line; blank lines end documents and are left out."""
    return [row.tokens for row in read_rows(path) if row.tokens]


def first_tokens(emb: Embedder, sentences: Sentences) -> float:
    """Perplexity of the first tokens that each direction reads, every sentence by itself.

    Those are the first five of a sentence for the forward direction, the last five for the other.
    """
    losses: list[NDArray[np.float32]] = []
    for sentence in sentences:
        forward, backward = emb.log_probs(sentence)  # (T+1,) each
        num = min(NUM_FIRST, len(sentence))
        losses += [-forward[:num], -backward[len(backward) - num :]]
    return float(np.exp(np.concatenate(losses).mean()))


def probe_tags(emb: Embedder, train: Path, dev: Path) -> list[float]:
    """Accuracy of a linear probe for parts of speech, for each layer.

    Logistic regression (C = 0.1) on standardised vectors of the first 1,500 sentences of `train`,
    tested on the first 1,000 of `dev`.
    """
    parts = [read_tags(train, "upos", 1_500), read_tags(dev, "upos", 1_000)]
    _, *scores = probe.probe_tags(emb, *parts, layers=range(emb.num_outputs))
    return [score.mean for score in scores]


def nearest_senses(emb: Embedder, path: Path) -> dict[str, list[float]]:
    """Tells senses of words apart by the nearest other occurrence, by cosine, for each layer.

    Args:
        emb: The model.
        path: Lines of word, sense and a sentence in which the word occurs once, between tabs.

    Returns:
        Word -> share of its occurrences whose nearest one has the same sense, for each layer. In
        layer 0 all occurrences are alike: what is right there is chance, less than half.
    """
    examples: dict[str, list[Example]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        word, sense, text = line.split("\t")
        tokens = tuple(text.split())
        example = Example(word=word, tokens=tokens, place=tokens.index(word), label=sense)
        examples.setdefault(word, []).append(example)
    shares = {}
    for word, found in examples.items():
        senses = probe.labels_of(found)
        vectors = unit(vectors_of(emb, found, range(emb.num_outputs)))  # (L+1, N, 2D)
        alike = vectors @ vectors.transpose(0, 2, 1)
        alike[:, range(len(found)), range(len(found))] = -np.inf
        # Of several equally near ones each counts for its part.
        nearest = alike >= alike.max(axis=-1, keepdims=True) - 1e-6
        same = senses[:, None] == senses
        right = (nearest & same).sum(axis=-1) / nearest.sum(axis=-1)
        shares[word] = right.mean(axis=-1).tolist()
    return shares


def words_per_second(model: Path, text: Path, place: Path, num_tokens: int) -> float:
    """Tokens that `elmo embed` gets through in a second, loading the model and writing included.

    Args:
        model: The model's directory.
        text: Where the tokens come from.
        place: A directory for files that are let go of.
        num_tokens: About how many tokens of the text are embedded.
    """
    lines, count = [], 0
    for sentence in read_text(text):
        lines.append(" ".join(sentence))
        count += len(sentence)
        if count >= num_tokens:
            break
    part, output = place / "part.txt", place / "part.h5"
    part.write_text("\n".join(lines) + "\n", encoding="utf-8")
    started = time.monotonic()
    embed_file(
        EmbedSettings(
            input=str(part), output=output, model=str(model), layers="mean", overwrite=True
        )
    )
    return count / (time.monotonic() - started)


def write_published_size(cell_dim: int, projection_dim: int, num_highway: int, place: Path) -> Path:
    """Writes a model of the shape of a published one with random weights, to measure its speed."""
    config = BiLMConfig(
        lstm=LSTMConfig(num_layers=2, cell_dim=cell_dim, projection_dim=projection_dim),
        characters=CharCNNConfig(num_characters=261, num_highway=num_highway),
    )
    network = BiLMNetwork(config)
    for parameter in network.parameters():
        torch.nn.init.uniform_(parameter, -0.05, 0.05)
    BiLM(network, alphabet=ByteAlphabet()).save_pretrained(place)
    return place
