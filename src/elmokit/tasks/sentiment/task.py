"""The task `sentiment`."""

from dataclasses import dataclass, field
from typing import ClassVar, cast

from elmokit.tasks.config import TaskConfig
from elmokit.tasks.elmo_at import ElmoAt
from elmokit.tasks.labelling import WriteLine
from elmokit.tasks.readers.items import Text
from elmokit.tasks.readers.reading import Block, Entry, Reading, read_examples
from elmokit.tasks.readers.texts import TsvTexts
from elmokit.tasks.readers.trees import Trees, write_tree
from elmokit.tasks.readers.tsv import LabelColumn
from elmokit.tasks.sentiment.config import SentimentData
from elmokit.tasks.sentiment.model import BiattentiveClassifier, BiattentiveSection
from elmokit.tasks.task import Lists, Purpose
from elmokit.tasks.text_task import TextTask


@dataclass(frozen=True, slots=True, kw_only=True)
class SentimentConfig(TaskConfig):
    """A run of `sentiment`."""

    data: SentimentData
    """The examples."""
    model: BiattentiveSection = field(default_factory=BiattentiveSection)
    """The classifier."""


class Sentiment(TextTask):
    """How a sentence judges."""

    name: ClassVar[str] = "sentiment"
    config: ClassVar[type[TaskConfig]] = SentimentConfig

    def read_labelled(
        self, source: str, config: TaskConfig, purpose: Purpose
    ) -> Reading[Block, Text]:
        """Reads trees or tab-separated lines; phrases of trees are learnt from on request."""
        data = cast(SentimentData, config.data)
        has_labels = purpose != "predict"

        def open_format(name: str) -> Trees | TsvTexts:
            if data.format == "trees":
                return Trees(name, classes=data.classes if has_labels else None)
            return TsvTexts(name, data.columns, labels=has_labels)

        reading = read_examples(source, open_format, encoding=data.encoding, skip_bad=data.skip_bad)
        if purpose == "train" and data.phrases and data.format == "trees":
            return _with_phrases(reading, Trees(reading.name, classes=data.classes))
        return reading

    def build(self, config: TaskConfig, lists: Lists, elmo: ElmoAt | None) -> BiattentiveClassifier:
        """Returns a new classifier."""
        section = cast(BiattentiveSection, config.model)
        return BiattentiveClassifier(section, lists["words"], lists["labels"], elmo)

    def line_writer(self, config: TaskConfig) -> WriteLine:
        """Returns what writes a line of the file's format with its label."""
        data = cast(SentimentData, config.data)
        return write_tree if data.format == "trees" else LabelColumn(data.columns)


def _with_phrases(reading: Reading[Block, Text], trees: Trees) -> Reading[Block, Text]:
    """Returns the phrases of all trees that hold an example."""
    entries = [
        Entry(entry.piece, text)
        for entry in reading.entries
        if entry.item is not None
        for text in trees.phrases(entry.piece)
    ]
    return Reading(reading.name, entries, reading.num_skipped)


TASK = Sentiment()
