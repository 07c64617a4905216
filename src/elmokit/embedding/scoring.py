"""The language model itself: log-probabilities, perplexity, predictions.

Letters: N predictions, V words of the softmax, D projection width, T tokens, B rows.
"""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.batch import Batch, Types
from elmokit.config import StatePolicy
from elmokit.embedding.schedule import plan
from elmokit.errors import ConfigError
from elmokit.model import BiLM, index_words
from elmokit.nn import LMSoftmax, State
from elmokit.vocabulary import Vocabulary

if TYPE_CHECKING:
    from elmokit.embedding.embedder import Embedder

_SLICE_BYTES = 1 << 26
"""Memory of the logits that exist at a time, whatever the number of predictions and words."""
_CARRY_WINDOW = 1024
"""Positions of running text that run together."""

Array = NDArray[np.float32]


class Perplexity(NamedTuple):
    """exp of the mean negative log-probability, over the whole vocabulary."""

    forward: float
    """Left to right: each word and `</S>`."""
    backward: float
    """Right to left: each word and `<S>`."""
    mean: float
    """exp of the mean of both directions' losses."""
    num_predictions: int
    """Predictions per direction."""
    unknown_rate: float
    """Share of tokens outside the vocabulary, which count as `<UNK>`."""


class Prediction(NamedTuple):
    """What the language model expects at a position; words with natural log-probabilities."""

    token: str
    """What stands there."""
    forward: list[tuple[str, float]]
    """Expected from the words before."""
    backward: list[tuple[str, float]]
    """Expected from the words after."""
    both: list[tuple[str, float]]
    """Product of both, normalised over the vocabulary."""


def log_probs(emb: "Embedder", tokens: Sequence[str]) -> tuple[Array, Array]:
    """See `Embedder.log_probs`."""
    softmax, vocabulary = output_layer(emb.bilm)
    with torch.inference_mode():
        ahead, back = next(_hidden(emb, [tokens]))
        targets = _targets(emb.bilm, vocabulary, tokens).to(ahead.device)
        forward = target_losses(softmax, ahead, targets[1:])
        backward = target_losses(softmax, back, targets[:-1])
    return (-forward).cpu().numpy(), (-backward).cpu().numpy()


def perplexity(
    emb: "Embedder", sentences: Sequence[Sequence[str]], state: StatePolicy
) -> Perplexity:
    """See `Embedder.perplexity`."""
    softmax, vocabulary = output_layer(emb.bilm)
    if not len(sentences):
        raise ConfigError("perplexity: there is no sentence to measure")
    sums, count = torch.zeros(2, dtype=torch.float64), 0
    with torch.inference_mode():
        pairs = _carried(emb, sentences, vocabulary) if state == "carry" else None
        for ahead, back, next_words, previous_words in pairs or _fresh(emb, sentences, vocabulary):
            sums[0] += target_losses(softmax, ahead, next_words).double().sum().cpu()
            sums[1] += target_losses(softmax, back, previous_words).double().sum().cpu()
            count += len(ahead)
    return perplexity_of(sums, count, _unknown_rate(vocabulary, sentences))


def perplexity_of(sums: Tensor, num_predictions: int, unknown_rate: float) -> Perplexity:
    """Turns (2,) summed losses, forward and backward, into perplexities."""
    forward, backward = (sums / num_predictions).tolist()
    return Perplexity(
        _exp(forward), _exp(backward), _exp((forward + backward) / 2), num_predictions, unknown_rate
    )


def predict(emb: "Embedder", tokens: Sequence[str], k: int) -> list[Prediction]:
    """See `Embedder.predict`."""
    softmax, vocabulary = output_layer(emb.bilm)
    if not 0 < k <= len(vocabulary.words):
        raise ConfigError(f"k: {k} must lie in 1..{len(vocabulary.words)}, the words of the model")
    with torch.inference_mode():
        ahead, back = next(_hidden(emb, [tokens]))
        # Row t of the one reads up to token t, row t of the other down to token t + 1.
        predictions: list[Prediction] = []
        for start, stop in _slices(len(tokens), 3 * len(vocabulary.words)):
            forward = torch.log_softmax(softmax(ahead[start:stop]), dim=1)
            backward = torch.log_softmax(softmax(back[start + 1 : stop + 1]), dim=1)
            both = torch.log_softmax(forward + backward, dim=1)
            named = [_top(scores, k, vocabulary) for scores in (forward, backward, both)]
            predictions += map(Prediction, tokens[start:stop], *named)
    return predictions


def output_layer(bilm: BiLM) -> tuple[LMSoftmax, Vocabulary]:
    """Returns the softmax and its words.

    Raises:
        ConfigError: The model has none.
    """
    if bilm.softmax is None or bilm.vocabulary is None:
        raise ConfigError(
            "this model has no LM softmax, so it can embed but neither score nor predict words; "
            "take a training checkpoint or a native model that was saved with its softmax"
        )
    return bilm.softmax, bilm.vocabulary


def target_losses(softmax: LMSoftmax, hidden: Tensor, targets: Tensor) -> Tensor:
    """(N, D) LSTM outputs and (N,) words -> (N,) losses, the logits in slices of bounded memory."""
    slices = _slices(len(hidden), len(softmax.bias))
    losses = [softmax.loss(hidden[a:b], targets[a:b]) for a, b in slices]
    return torch.cat(losses) if losses else hidden.new_zeros(0)


def _fresh(
    emb: "Embedder", sentences: Sequence[Sequence[str]], vocabulary: Vocabulary
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Yields outputs and words, forward and backward, of a sentence at a time."""
    for places in plan([len(sentence) for sentence in sentences], emb.batch_tokens):
        group = [sentences[place] for place in places]
        for sentence, (ahead, back) in zip(group, _hidden(emb, group), strict=True):
            targets = _targets(emb.bilm, vocabulary, sentence).to(ahead.device)
            yield ahead, back, targets[1:], targets[:-1]


def _hidden(emb: "Embedder", sentences: Sequence[Sequence[str]]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields what predicts each token of a sentence: (T+1, D) before it, (T+1, D) after it.

    Row t of the first, after `<S> w1 .. wt`, foretells token t+1; row t of the second, after
    `</S> wn .. w(t+1)`, token t.
    """
    batch, vectors = emb.pack(sentences)
    layers, _ = emb.bilm.network.run(vectors, batch)
    positions, lengths = batch.unpacked(boundaries=True)
    flipped = batch.flipped()[positions]
    readings = zip(
        torch.split(layers.forward[-1][positions], lengths.tolist()),
        torch.split(layers.backward[-1][flipped], lengths.tolist()),
        strict=True,
    )
    found = dict(zip(batch.rows.tolist(), readings, strict=True))
    for row in range(len(sentences)):
        ahead, back = found[row]
        yield ahead[:-1], back[1:]


def _carried(
    emb: "Embedder", sentences: Sequence[Sequence[str]], vocabulary: Vocabulary
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Yields the same for windows of running text, as bilm-tf's test reads it.

    Forward reads `<S> w1 .. wn <S> w1 ..`, backward `</S> wn .. w1 </S> wn ..`, so that `</S>`
    forward and `<S>` backward are foretold and never read.
    """
    network, bilm = emb.bilm.network, emb.bilm
    state: State | None = State(*(torch.zeros_like(x) for x in network.initial_state)).expand(1)
    for start in range(0, len(sentences), 64):
        group = sentences[start : start + 64]
        words, indices = index_words(group, bilm.boundaries)
        vectors, rows = emb.type_vectors(words), torch.tensor([vocabulary.encode(w) for w in words])
        ahead = torch.tensor([i for sentence in indices for i in sentence[:-1]])
        back = torch.tensor([i for sentence in indices for i in sentence[:0:-1]])
        after = torch.tensor([i for sentence in indices for i in sentence[1:]])
        before = torch.tensor([i for sentence in indices for i in sentence[-2::-1]])
        for i in range(0, len(ahead), _CARRY_WINDOW):
            window = slice(i, i + _CARRY_WINDOW)
            batch = Batch.from_windows(ahead[None, window], back[None, window], Types())
            layers, state = network.run(vectors, batch.to(bilm.device), state)
            found = rows.to(bilm.device)
            yield (
                layers.forward[-1],
                layers.backward[-1],
                found[after[window].to(bilm.device)],
                found[before[window].to(bilm.device)],
            )


def _targets(bilm: BiLM, vocabulary: Vocabulary, tokens: Sequence[str]) -> Tensor:
    """(T + 2,) rows of the softmax for `<S>`, the tokens and `</S>`."""
    begin, end = bilm.boundaries
    return torch.tensor([vocabulary.encode(word) for word in (begin, *tokens, end)])


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf


def _unknown_rate(vocabulary: Vocabulary, sentences: Sequence[Sequence[str]]) -> float:
    words = [word not in vocabulary.ids for sentence in sentences for word in sentence]
    return sum(words) / max(len(words), 1)


def _top(scores: Tensor, k: int, vocabulary: Vocabulary) -> list[list[tuple[str, float]]]:
    """(N, V) log-probabilities -> for each row the k best words with theirs."""
    values, rows = scores.topk(k, dim=1)
    return [
        [(vocabulary.words[row], value) for row, value in zip(*pair, strict=True)]
        for pair in zip(rows.tolist(), values.tolist(), strict=True)
    ]


def _slices(count: int, width: int) -> Iterator[tuple[int, int]]:
    step = max(1, _SLICE_BYTES // (4 * width))
    for start in range(0, count, step):
        yield start, min(start + step, count)
