"""The language model itself: log-probabilities, perplexity, predictions.

Letters: N predictions, V words of the softmax, D projection width, T tokens, U word types.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.batch import Batch, Types
from elmokit.config import StatePolicy
from elmokit.embedding.computing import computing
from elmokit.embedding.schedule import cut_parts, plan
from elmokit.errors import ConfigError, InputError
from elmokit.model import BiLM, index_words
from elmokit.nn import CarriedState, LMSoftmax, State
from elmokit.vocabulary import BEGIN, END, UNKNOWN, Vocabulary

if TYPE_CHECKING:
    from elmokit.embedding.embedder import Embedder

_SLICE_BYTES = 1 << 26
"""Memory of the logits that exist at a time, whatever the number of predictions and words."""
_PART_BATCHES = 8
"""Batches of text that are read ahead."""
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


class _Reading(NamedTuple):
    """Outputs of the top layer, and the words that they foretell."""

    ahead: Tensor
    """(N, D) after each position but the last of a sentence, left to right."""
    back: Tensor
    """(N, D) after each position but the first of a sentence, right to left."""
    following: Tensor
    """(N,) words that `ahead` foretells."""
    preceding: Tensor
    """(N,) words that `back` foretells."""


def log_probs(emb: "Embedder", tokens: Sequence[str]) -> tuple[Array, Array]:
    """See `Embedder.log_probs`."""
    softmax, vocabulary = output_layer(emb.bilm)
    with computing(emb.bilm.device):
        reading = _read(emb, vocabulary, [tokens])
        forward = target_losses(softmax, reading.ahead, reading.following)
        backward = target_losses(softmax, reading.back, reading.preceding)
    return (-forward).cpu().numpy(), (-backward).cpu().numpy()


def perplexity(
    emb: "Embedder", sentences: Iterable[Sequence[str]], state: StatePolicy
) -> Perplexity:
    """See `Embedder.perplexity`; this one takes any iterable, of which it holds a part at a time.

    Raises:
        ConfigError: The model has no softmax, or the state policy is unknown.
        InputError: There is no sentence.
    """
    softmax, vocabulary = output_layer(emb.bilm)
    if state not in get_args(StatePolicy):
        raise ConfigError(f"state: {state!r} is not one of {', '.join(get_args(StatePolicy))}")
    carried, unknown = CarriedState(), vocabulary.ids.get(UNKNOWN, -1)
    sums, num_sentences, num_predictions, num_unknown = torch.zeros(2, dtype=torch.float64), 0, 0, 0
    size = _PART_BATCHES * emb.batch_tokens
    for part in cut_parts(sentences, max_rows=size, max_tokens=size):
        num_sentences += len(part)
        readings = (
            _fresh(emb, vocabulary, part)
            if state == "fresh"
            else _carried(emb, vocabulary, part, carried)
        )
        with computing(emb.bilm.device):
            for reading in readings:
                forward = target_losses(softmax, reading.ahead, reading.following)
                backward = target_losses(softmax, reading.back, reading.preceding)
                sums += torch.stack([forward, backward]).cpu().double().sum(dim=1)
                num_predictions += len(reading.following)
                num_unknown += int((reading.following == unknown).sum())
    if not num_sentences:
        raise InputError("perplexity: there is no sentence to measure; give at least one")
    unknown_rate = num_unknown / max(num_predictions - num_sentences, 1)
    return perplexity_of(sums, num_predictions, unknown_rate)


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
    predictions: list[Prediction] = []
    with computing(emb.bilm.device):
        reading = _read(emb, vocabulary, [tokens])
        ahead, back = reading.ahead[:-1], reading.back[1:]  # without what foretells a boundary
        for start, stop in _slices(len(tokens), 3 * len(vocabulary.words)):
            forward = torch.log_softmax(softmax(ahead[start:stop]), dim=1)
            backward = torch.log_softmax(softmax(back[start:stop]), dim=1)
            both = torch.log_softmax(forward + backward, dim=1)
            named = [_top(scores, k, vocabulary) for scores in (forward, backward, both)]
            predictions += map(Prediction, tokens[start:stop], *named)
    return predictions


def output_layer(bilm: BiLM) -> tuple[LMSoftmax, Vocabulary]:
    """Returns the softmax and its words.

    Raises:
        ConfigError: The model has none, or cannot foretell words: a stacked LSTM has read each word
            from the other side before it is asked for it.
    """
    if not bilm.network.has_state:
        raise ConfigError(
            "this model's stacked LSTM reads both directions in every layer, so it can embed but "
            "neither learn, score nor predict words; take a model of kind projected"
        )
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
    emb: "Embedder", vocabulary: Vocabulary, sentences: Sequence[Sequence[str]]
) -> Iterator[_Reading]:
    """Reads sentences a batch at a time, in an order of its own."""
    for places in plan([len(sentence) for sentence in sentences], emb.batch_tokens):
        yield _read(emb, vocabulary, [sentences[place] for place in places])


def _read(emb: "Embedder", vocabulary: Vocabulary, sentences: Sequence[Sequence[str]]) -> _Reading:
    """Reads sentences from the initial state, `<S> w1 .. wn </S>` both ways.

    They lie end to end, the longest first. Row t of a sentence's `ahead` stands after
    `<S> w1 .. wt` and foretells token t + 1; row t of its `back`, after `</S> wn .. w(t+1)`,
    foretells token t.
    """
    words, indices = index_words(sentences, emb.bilm.boundaries)
    batch = Batch.from_sentences(indices, Types()).to(emb.bilm.device)
    layers, _ = emb.bilm.network.run(emb.type_vectors(words), batch)
    positions, lengths = batch.unpacked(boundaries=True)
    ends = torch.cumsum(lengths, dim=0)
    has_next, has_previous = (torch.ones_like(positions, dtype=torch.bool) for _ in range(2))
    has_next[ends - 1] = False
    has_previous[ends - lengths] = False
    rows = _vocabulary_rows(emb.bilm, vocabulary, words)[batch.forward[positions]]
    return _Reading(
        ahead=layers.forward[-1][positions[has_next]],
        back=layers.backward[-1][batch.flipped()[positions[has_previous]]],
        following=rows[has_previous],
        preceding=rows[has_next],
    )


def _carried(
    emb: "Embedder",
    vocabulary: Vocabulary,
    sentences: Sequence[Sequence[str]],
    carried: CarriedState,
) -> Iterator[_Reading]:
    """Reads running text as one row, a window at a time, as bilm-tf's test does.

    Forward reads `<S> w1 .. wn <S> w1 ..`, backward `</S> wn .. w1 </S> wn ..`, so that `</S>`
    forward and `<S>` backward are foretold and never read.
    """
    bilm, network = emb.bilm, emb.bilm.network
    zeros = State(*(torch.zeros_like(part) for part in network.initial_state))
    words, indices = index_words(sentences, bilm.boundaries)
    vectors, rows = emb.type_vectors(words), _vocabulary_rows(bilm, vocabulary, words)
    reverse = [sentence[::-1] for sentence in indices]
    streams = torch.tensor(
        [
            [word for sentence in reading for word in sentence[part]]
            for reading in (indices, reverse)
            for part in (slice(None, -1), slice(1, None))  # what is read, and what comes next
        ],
        device=bilm.device,
    )
    for window in torch.split(streams, _CARRY_WINDOW, dim=1):
        ahead, following, back, preceding = window
        batch = Batch.from_windows(ahead[None], back[None], Types())
        layers, after = network.run(vectors, batch, carried.take(batch.rows, zeros))
        assert after is not None
        carried.put(batch.rows, after)
        yield _Reading(layers.forward[-1], layers.backward[-1], rows[following], rows[preceding])


def _vocabulary_rows(bilm: BiLM, vocabulary: Vocabulary, words: Sequence[str]) -> Tensor:
    """(U,) rows of the softmax; boundaries are `<S>` and `</S>` there, whatever the model reads."""
    marks = dict(zip(bilm.boundaries, (BEGIN, END), strict=True))
    return torch.tensor(
        [vocabulary.encode(marks.get(word, word)) for word in words], device=bilm.device
    )


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf


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
