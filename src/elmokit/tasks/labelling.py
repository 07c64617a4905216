"""What the tasks that give an example one label have in common.

Letters: B rows, T time, K labels, W width.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from elmokit.metrics.classification import score_labels
from elmokit.nn.masks import inside
from elmokit.tasks.readers.reading import Block, Reading
from elmokit.tasks.readers.texts import write_labelled
from elmokit.tasks.task import InputFormat, Lists, Task, TaskModel

WriteLine = Callable[[str, str | None], Iterable[str]]
"""A line that was read and its label, None if it is no example -> the lines to write."""


class Labelled(Protocol):
    """An example with one label."""

    @property
    def where(self) -> str:
        """Place for messages."""
        ...

    @property
    def label(self) -> str | None:
        """What is right, if that was read."""
        ...


LabelledItem = TypeVar("LabelledItem", bound=Labelled)


class LabelModel(TaskModel[LabelledItem, str]):
    """A model that scores the labels of an example."""

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__()
        self._labels = list(labels)
        self._ids = {label: place for place, label in enumerate(labels)}

    @abstractmethod
    def scores(self, items: Sequence[LabelledItem]) -> Tensor:
        """Returns the (B, K) scores of labels before the softmax."""

    def loss(self, items: Sequence[LabelledItem]) -> Tensor:
        """Returns the mean cross-entropy."""
        scores = self.scores(items)
        labels = torch.tensor([self._ids[item.label or ""] for item in items])
        return F.cross_entropy(scores, labels.to(scores.device))

    def predict(self, items: Sequence[LabelledItem]) -> list[str]:
        """Returns the label of each example."""
        return [self._labels[place] for place in self.scores(items).argmax(dim=1).tolist()]


class LabelTask(Task[LabelledItem, str]):
    """One label for an example."""

    @abstractmethod
    def line_writer(self, config: Any) -> WriteLine:
        """Returns what writes a line of the task's own format with its label."""

    def labels(self, item: LabelledItem) -> Iterator[tuple[str, str]]:
        """Yields the label."""
        if item.label is not None:
            yield item.label, item.where

    def known_labels(self, lists: Lists) -> Iterable[str]:
        """Returns the labels."""
        return lists["labels"]

    def metric(self, lists: Lists) -> str:
        """Returns accuracy."""
        return "accuracy"

    def evaluate(
        self, items: Sequence[LabelledItem], predictions: Sequence[str], lists: Lists
    ) -> dict[str, Any]:
        """Returns accuracy, macro F1, and the scores of each label."""
        return score_labels([item.label or "" for item in items], predictions).to_dict()

    def write(
        self,
        reading: Reading[Block, LabelledItem],
        predictions: Sequence[str],
        config: Any,
        lists: Lists,
        format: InputFormat,
    ) -> Iterator[str]:
        """Yields every line that was read, with its label; before it, if it was plain text."""
        write_line = write_labelled if format == "text" else self.line_writer(config)
        for entry, label in reading.predicted(predictions):
            for _, line in entry.piece:
                yield from write_line(line, label)


def label_list(items: Iterable[Labelled]) -> list[str]:
    """Returns the labels that occur."""
    return sorted({item.label for item in items if item.label is not None})


def mean_and_max(vectors: Tensor, lengths: Tensor) -> Tensor:
    """Pools rows: (B, T, W) -> (B, 2W)."""
    mask = inside(lengths, vectors.size(1))[:, :, None]
    mean = vectors.masked_fill(~mask, 0.0).sum(dim=1) / lengths[:, None]
    return torch.cat([mean, vectors.masked_fill(~mask, -torch.inf).amax(dim=1)], dim=1)


def attend(scores: Tensor, lengths: Tensor, vectors: Tensor) -> Tensor:
    """Sums vectors by the softmax of scores over them.

    Args:
        scores: (B, S, T).
        lengths: (B,) of the vectors.
        vectors: (B, T, W).

    Returns:
        (B, S, W).
    """
    mask = inside(lengths, vectors.size(1))[:, None]
    return torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=2) @ vectors
