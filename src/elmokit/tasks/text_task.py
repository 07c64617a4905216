"""What the tasks that label one text have in common."""

from abc import abstractmethod
from collections.abc import Sequence

from elmokit.tasks.config import TaskConfig
from elmokit.tasks.labelling import LabelTask, label_list
from elmokit.tasks.readers.items import Text
from elmokit.tasks.readers.plain import PlainTexts
from elmokit.tasks.readers.reading import Block, Reading, read_examples
from elmokit.tasks.task import InputFormat, Lists, Purpose
from elmokit.tasks.tokens import count_words


class TextTask(LabelTask[Text]):
    """One label for one text."""

    @abstractmethod
    def read_labelled(
        self, source: str, config: TaskConfig, purpose: Purpose
    ) -> Reading[Block, Text]:
        """Reads a file of the task's own format; see `read`."""

    def read(
        self,
        source: str,
        config: TaskConfig,
        purpose: Purpose,
        lists: Lists | None = None,
        format: InputFormat = "task",
    ) -> Reading[Block, Text]:
        """Reads texts; see `Task.read`."""
        if format == "text":
            return read_examples(source, PlainTexts, encoding=config.data.encoding)
        return self.read_labelled(source, config, purpose)

    def make_lists(self, items: Sequence[Text], config: TaskConfig) -> Lists:
        """Numbers words and labels."""
        return {
            "words": count_words((item.tokens for item in items), config.model.tokens),
            "labels": label_list(items),
        }

    def sentences(self, item: Text) -> Sequence[Sequence[str]]:
        """Returns the one text."""
        return (item.tokens,)
