"""Windows of predictions, cut from a forward stream and from a stream of reversed sentences.

As in bilm-tf, a sentence w1 .. wn is read forward as `<S> w1 .. wn`, to predict `w1 .. wn </S>`,
and backward as `</S> wn .. w1`, to predict `wn .. w1 <S>`. B rows are read side by side, W
positions at a time; a row takes the next unread sentence whenever its own is used up, and its LSTM
state runs on from window to window and from sentence to sentence. Unlike there, nothing is dropped
or padded, the place in the data is a few integers, and both directions take the sentences in one
order: a window then holds the same sentences in both, and a third fewer word types to encode.

Letters: B rows, W positions.
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from elmokit.config import parse
from elmokit.errors import ConfigError, InputError, OutputError
from elmokit.training.corpus import Corpus
from elmokit.training.order import SentenceOrder

_logger = logging.getLogger(__name__)

_FORWARD, _BACKWARD = 1, -1
"""Steps from a token of a sentence to the one that is read after it."""

_PADDING = -1


@dataclass(frozen=True, slots=True)
class Reading:
    """What one direction reads in a window."""

    types: NDArray[np.int64]
    """(B, W), the corpus's word types at the inputs."""
    targets: NDArray[np.int64]
    """(B, W), the words to predict there."""


@dataclass(frozen=True, slots=True)
class Window:
    """W positions of B rows in both directions."""

    forward: Reading
    backward: Reading
    mask: NDArray[np.bool_] | None = None
    """(B, W), the positions that count, the same ones in both directions; None if all do."""


class WindowStream:
    """The endless windows of a training run; an iterator.

    The order of an epoch's sentences depends on seed, epoch and the corpus's fingerprint alone; of
    several processes, number `rank` takes the sentences at places rank, rank + world_size, ... of
    that order. Rows run across the edges of epochs. A sentence longer than a window runs through
    several windows of its row.

    Attributes:
        corpus: What is read.
        steps_per_epoch: Windows that each process reads until all processes together have made as
            many predictions as an epoch has, rounded up. Their shares are equal in sentences, not
            in tokens: one process may come to the end of an epoch some steps before another.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        batch_size: int,
        window: int = 20,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        """Begins at the first window of the first epoch.

        Args:
            corpus: What is read.
            batch_size: B, rows of this process.
            window: W, positions per row and step.
            seed: Decides the order of sentences; 0 or more.
            rank: Number of this process, from 0.
            world_size: Number of processes.

        Raises:
            ConfigError: A number is out of range.
            InputError: The corpus has fewer sentences than there are processes.
        """
        _check_sizes(batch_size, window)
        if seed < 0:
            raise ConfigError(f"seed: {seed} must be 0 or more")
        if not 0 <= rank < world_size:
            raise ConfigError(f"rank: {rank} must be 0 or more and below world_size ({world_size})")
        if corpus.num_sentences < world_size:
            raise InputError(
                f"corpus: {corpus.num_sentences} sentences cannot be shared among {world_size} "
                "processes; use fewer processes or more text"
            )
        self.corpus = corpus
        self._settings = {
            "fingerprint": corpus.fingerprint,
            "seed": seed,
            "rank": rank,
            "world_size": world_size,
            "batch_size": batch_size,
            "window": window,
        }
        key = (int(corpus.fingerprint, 16), seed)
        self._forward, self._backward = (
            _ShuffledRows(
                _Rows(corpus, step, batch_size, window),
                SentenceOrder(corpus.num_sentences, key=key, rank=rank, world_size=world_size),
            )
            for step in (_FORWARD, _BACKWARD)
        )
        positions = world_size * batch_size * window
        self.steps_per_epoch = math.ceil(corpus.num_predictions / positions)
        if corpus.num_predictions < positions:
            _logger.warning(
                "corpus: its %d predictions do not fill a step of %d (rows times window), so that "
                "a step reads some of them more than once; make batch_size or window smaller",
                *(corpus.num_predictions, positions),
            )

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Window:
        return Window(self._forward.read(), self._backward.read())

    def state(self) -> dict[str, Any]:
        """Returns the place in the data: the settings, and integers and lists of them."""
        return {
            **self._settings,
            "forward": asdict(self._forward.state()),
            "backward": asdict(self._backward.state()),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes to the place where `state` was taken: the next window is the one that came then.

        Args:
            state: From a stream over the same corpus with the same settings.

        Raises:
            ConfigError: It is no such state.
            OutputError: The corpus or a setting differs; the message has both values.
        """
        saved = parse(_StreamState, state, "place in the data")
        changes = [
            f"{name} {getattr(saved, name)} -> {value}"
            for name, value in self._settings.items()
            if getattr(saved, name) != value
        ]
        if changes:
            raise OutputError(
                "place in the data: cannot resume with other text, words or sizes than the run "
                f"began with ({', '.join(changes)}); change them back, or begin a new run"
            )
        if not (self._forward.has(saved.forward) and self._backward.has(saved.backward)):
            raise ConfigError("place in the data: damaged, it is no place of this text")
        self._forward.restore(saved.forward)
        self._backward.restore(saved.backward)


def evaluation_windows(corpus: Corpus, *, batch_size: int, window: int) -> Iterator[Window]:
    """Yields each prediction of a corpus exactly once, in the order of the text.

    Each row reads a run of neighbouring sentences, about as many predictions as any other row, from
    a state of zeros at the first window on. A row that is through is filled up with positions that
    the mask takes out. With one row this is what bilm-tf's `test` reads.

    Args:
        corpus: What is read.
        batch_size: B, rows; if there are fewer sentences, some rows are masked throughout.
        window: W, positions per row and step; what a row reads does not depend on it.

    Raises:
        ConfigError: A number is below 1.
    """
    _check_sizes(batch_size, window)
    # A sentence goes to the row in whose equal share of all predictions its own ones begin.
    begins = corpus.offsets[:-1] - np.arange(corpus.num_sentences)
    shares = np.arange(batch_size + 1) * corpus.num_predictions // batch_size
    edges = np.searchsorted(begins, shares).tolist()
    runs = [range(*edges[row : row + 2]) for row in range(batch_size)]
    return _masked_windows(corpus, runs, window)


def _masked_windows(corpus: Corpus, runs: list[range], window: int) -> Iterator[Window]:
    """Yields windows in which row r reads the sentences runs[r]."""
    forward, backward = (_Rows(corpus, step, len(runs), window) for step in (_FORWARD, _BACKWARD))
    forward_runs, backward_runs = ([iter(run) for run in runs] for _ in range(2))
    while True:
        reading, mask = forward.read(lambda row: next(forward_runs[row], None))
        if not mask.any():
            return
        # Sentences are as long in one direction as in the other, so that the mask is the same.
        reversed_reading, _ = backward.read(lambda row: next(backward_runs[row], None))
        yield Window(reading, reversed_reading, mask)


def _check_sizes(batch_size: int, window: int) -> None:
    for name, value in (("batch_size", batch_size), ("window", window)):
        if value < 1:
            raise ConfigError(f"{name}: {value} must be 1 or more")


class _Rows:
    """B rows that read sentences in one direction, W positions at a time.

    Attributes:
        num_rows: B.
        places: For each row, where its next input is in `Corpus.tokens`.
        left: For each row, the predictions left in its sentence; 0 if it needs a new one.
    """

    def __init__(self, corpus: Corpus, step: int, num_rows: int, window: int) -> None:
        self._corpus, self._step, self._window = corpus, step, window
        self.num_rows = num_rows
        self.places = [0] * num_rows
        self.left = [0] * num_rows

    def read(self, take: Callable[[int], int | None]) -> tuple[Reading, NDArray[np.bool_]]:
        """Reads a window, row after row.

        Args:
            take: Row -> the sentence it reads next; None if there is none, and the rest of the row
                is padding.

        Returns:
            The window, and (B, W) which positions are no padding.
        """
        places: list[int] = []
        counts: list[int] = []
        for row in range(self.num_rows):
            for place, count in self._read_row(row, take):
                places.append(place)
                counts.append(count)
        return self._gather(np.array(places), np.array(counts))

    def is_inside(self, place: int, left: int) -> bool:
        """Tells whether so many predictions from a place on lie in the corpus."""
        size = len(self._corpus.tokens)
        return left >= 0 and 0 <= place < size and 0 <= place + self._step * left < size

    def _read_row(self, row: int, take: Callable[[int], int | None]) -> Iterator[tuple[int, int]]:
        """Yields runs of inputs within a sentence, as place of the first and number."""
        need = self._window
        while need:
            if not self.left[row]:
                sentence = take(row)
                if sentence is None:
                    yield _PADDING, need
                    return
                begin, end = self._corpus.offsets[sentence : sentence + 2].tolist()
                self.places[row] = begin if self._step == _FORWARD else end - 1
                self.left[row] = end - begin - 1
            count = min(need, self.left[row])
            yield self.places[row], count
            self.places[row] += self._step * count
            self.left[row] -= count
            need -= count

    def _gather(
        self, places: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> tuple[Reading, NDArray[np.bool_]]:
        """Looks up runs of inputs, which fill the rows one after another, and what follows each."""
        size = (self.num_rows, self._window)
        within = np.arange(size[0] * size[1]) - np.repeat(np.cumsum(counts) - counts, counts)
        mask = np.repeat(places != _PADDING, counts)
        inputs = np.where(mask, np.repeat(places, counts) + self._step * within, 0)
        following = np.where(mask, inputs + self._step, 0)
        types = self._corpus.tokens[inputs].astype(np.int64)
        targets = self._corpus.targets[self._corpus.tokens[following]]
        return Reading(types.reshape(size), targets.reshape(size)), mask.reshape(size)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RowsState:
    epoch: int
    cursor: int
    """Sentences of the epoch that rows have taken."""
    places: tuple[int, ...]
    left: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _StreamState:
    fingerprint: str
    seed: int
    rank: int
    world_size: int
    batch_size: int
    window: int
    forward: _RowsState
    backward: _RowsState


class _ShuffledRows:
    """Rows that share the sentences of an order."""

    def __init__(self, rows: _Rows, order: SentenceOrder) -> None:
        self._rows, self._order = rows, order

    def read(self) -> Reading:
        reading, _ = self._rows.read(lambda _: self._order.take())
        return reading

    def state(self) -> _RowsState:
        return _RowsState(
            epoch=self._order.epoch,
            cursor=self._order.cursor,
            places=tuple(self._rows.places),
            left=tuple(self._rows.left),
        )

    def has(self, state: _RowsState) -> bool:
        """Tells whether a state is one that these rows can be in."""
        return (
            state.epoch >= 0
            and 0 <= state.cursor <= len(self._order)
            and len(state.places) == len(state.left) == self._rows.num_rows
            and all(map(self._rows.is_inside, state.places, state.left))
        )

    def restore(self, state: _RowsState) -> None:
        self._order.go_to(epoch=state.epoch, cursor=state.cursor)
        self._rows.places = list(state.places)
        self._rows.left = list(state.left)
