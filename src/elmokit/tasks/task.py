"""What a task is: how it reads, what its model is, how it is scored, how it writes.

Everything else (the loop, ELMo, the cache, saved models, commands) is the same for all of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, TypeVar

from torch import Tensor, nn

from elmokit.tasks.config import TaskConfig
from elmokit.tasks.elmo_at import ElmoAt
from elmokit.tasks.readers.reading import Reading

Item = TypeVar("Item")
Prediction = TypeVar("Prediction")

Lists = Mapping[str, Sequence[str]]
"""What a model learnt to number: name -> words, tags, labels. Saved with the model."""

Purpose = Literal["train", "eval", "predict"]
"""Why a file is read: with what is right as in training, or without it."""

InputFormat = Literal["task", "text"]
"""What is predicted from: a file of the task's own format, or plain text, an example a line."""


class TaskModel(nn.Module, ABC, Generic[Item, Prediction]):
    """A model of a task: examples in, a loss or predictions out."""

    elmo: ElmoAt | None
    """ELMo at its places; None for the model without it."""

    @abstractmethod
    def loss(self, items: Sequence[Item]) -> Tensor:
        """Returns the mean loss of examples with what is right, of shape ()."""

    @abstractmethod
    def predict(self, items: Sequence[Item]) -> list[Prediction]:
        """Returns what the model takes for right, for each example in order."""


class Task(ABC, Generic[Item, Prediction]):
    """A task; its methods keep no state."""

    name: ClassVar[str]
    """What commands call it."""
    config: ClassVar[type[TaskConfig]]
    """Its settings."""

    @abstractmethod
    def read(
        self,
        source: str,
        config: TaskConfig,
        purpose: Purpose,
        lists: Lists | None = None,
        format: InputFormat = "task",
    ) -> Reading[Any, Item]:
        """Reads a file of examples.

        Args:
            source: The file; `-` is standard input.
            config: The run's, or the model's.
            purpose: Whether what is right is read too.
            lists: Those of the model, unless it is yet to be made.
            format: The task's own, or plain text (to predict).

        Raises:
            InputError: The file or an example cannot be read, or there is none.
            ConfigError: The settings do not fit the file.
        """

    @abstractmethod
    def make_lists(self, items: Sequence[Item], config: TaskConfig) -> Lists:
        """Numbers what a model is to know, from the examples it learns from."""

    @abstractmethod
    def build(self, config: TaskConfig, lists: Lists, elmo: ElmoAt | None) -> Any:
        """Returns a new `TaskModel`, with weights from torch's random numbers."""

    @abstractmethod
    def sentences(self, item: Item) -> Sequence[Sequence[str]]:
        """Returns the token lists that the model gives to ELMo."""

    def labels(self, item: Item) -> Iterable[tuple[str, str]]:
        """Yields what is right in an example, each with its place; nothing if it has no names."""
        return ()

    def known_labels(self, lists: Lists) -> Iterable[str]:
        """Returns what of that the model can predict."""
        return ()

    @abstractmethod
    def evaluate(
        self, items: Sequence[Item], predictions: Sequence[Prediction], lists: Lists
    ) -> dict[str, Any]:
        """Returns the scores of predictions, plain values by name; see `metric`."""

    @abstractmethod
    def metric(self, lists: Lists) -> str:
        """Returns the name of the score that decides which epoch is best."""

    @abstractmethod
    def write(
        self,
        reading: Reading[Any, Item],
        predictions: Sequence[Prediction],
        config: TaskConfig,
        lists: Lists,
        format: InputFormat,
    ) -> Iterator[str]:
        """Yields the lines of a file with predictions, one row per row that was read."""

    def length(self, item: Item) -> int:
        """Returns the words of an example, by which examples are put together."""
        return max(map(len, self.sentences(item)))
