"""The task `classify`."""

from dataclasses import dataclass, field
from typing import ClassVar, cast

from elmokit.tasks.classify.config import ClassifyData
from elmokit.tasks.classify.model import PooledClassifier, PooledSection
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.elmo_at import ElmoAt
from elmokit.tasks.labelling import WriteLine
from elmokit.tasks.readers.items import Text
from elmokit.tasks.readers.reading import Block, Reading, read_examples
from elmokit.tasks.readers.texts import Trec, TsvTexts, write_trec
from elmokit.tasks.readers.tsv import LabelColumn
from elmokit.tasks.task import Lists, Purpose
from elmokit.tasks.text_task import TextTask


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifyConfig(TaskConfig):
    """A run of `classify`."""

    data: ClassifyData
    """The examples."""
    model: PooledSection = field(default_factory=PooledSection)
    """The classifier."""


class Classify(TextTask):
    """One label for a text."""

    name: ClassVar[str] = "classify"
    config: ClassVar[type[TaskConfig]] = ClassifyConfig

    def read_labelled(
        self, source: str, config: TaskConfig, purpose: Purpose
    ) -> Reading[Block, Text]:
        """Reads tab-separated lines or TREC's questions."""
        data = cast(ClassifyData, config.data)
        has_labels = purpose != "predict"

        def open_format(name: str) -> Trec | TsvTexts:
            if data.format == "trec":
                return Trec(name, labels=data.classes if has_labels else None)
            return TsvTexts(name, data.columns, labels=has_labels)

        return read_examples(source, open_format, encoding=data.encoding, skip_bad=data.skip_bad)

    def build(self, config: TaskConfig, lists: Lists, elmo: ElmoAt | None) -> PooledClassifier:
        """Returns a new classifier."""
        section = cast(PooledSection, config.model)
        return PooledClassifier(section, lists["words"], lists["labels"], elmo)

    def line_writer(self, config: TaskConfig) -> WriteLine:
        """Returns what writes a line of the file's format with its label."""
        data = cast(ClassifyData, config.data)
        return write_trec if data.format == "trec" else LabelColumn(data.columns)


TASK = Classify()
