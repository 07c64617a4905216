"""The task `entailment`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, cast

from elmokit.tasks.config import TaskConfig
from elmokit.tasks.elmo_at import ElmoAt
from elmokit.tasks.entailment.config import EntailmentData
from elmokit.tasks.entailment.model import Esim, EsimSection
from elmokit.tasks.labelling import LabelTask, WriteLine, label_list
from elmokit.tasks.readers.items import Pair
from elmokit.tasks.readers.pairs import SICK, Snli, TsvPairs, write_snli
from elmokit.tasks.readers.reading import Block, Reading, read_examples
from elmokit.tasks.readers.tsv import LabelColumn
from elmokit.tasks.task import InputFormat, Lists, Purpose
from elmokit.tasks.tokens import count_words

_TEXT = {"premise": "1", "hypothesis": "2"}
"""Columns of plain text: two texts with a tab between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntailmentConfig(TaskConfig):
    """A run of `entailment`."""

    data: EntailmentData
    """The examples."""
    model: EsimSection = field(default_factory=EsimSection)
    """The classifier."""


class Entailment(LabelTask[Pair]):
    """How two texts stand to each other."""

    name: ClassVar[str] = "entailment"
    config: ClassVar[type[TaskConfig]] = EntailmentConfig

    def read(
        self,
        source: str,
        config: TaskConfig,
        purpose: Purpose,
        lists: Lists | None = None,
        format: InputFormat = "task",
    ) -> Reading[Block, Pair]:
        """Reads pairs; see `Task.read`."""
        data = cast(EntailmentData, config.data)
        has_labels = purpose != "predict"

        def open_format(name: str) -> Snli | TsvPairs:
            if format == "text":
                return TsvPairs(name, _TEXT, labels=False)
            if data.format == "snli":
                return Snli(name, labels=has_labels)
            return TsvPairs(name, _columns(data), labels=has_labels)

        return read_examples(source, open_format, encoding=data.encoding, skip_bad=data.skip_bad)

    def make_lists(self, items: Sequence[Pair], config: TaskConfig) -> Lists:
        """Numbers words and labels."""
        sentences = (words for item in items for words in self.sentences(item))
        words = count_words(sentences, config.model.tokens)
        return {"words": words, "labels": label_list(items)}

    def build(self, config: TaskConfig, lists: Lists, elmo: ElmoAt | None) -> Esim:
        """Returns a new classifier."""
        return Esim(cast(EsimSection, config.model), lists["words"], lists["labels"], elmo)

    def sentences(self, item: Pair) -> Sequence[Sequence[str]]:
        """Returns both texts."""
        return (item.premise, item.hypothesis)

    def line_writer(self, config: TaskConfig) -> WriteLine:
        """Returns what writes a line of the file's format with its label."""
        data = cast(EntailmentData, config.data)
        return write_snli if data.format == "snli" else LabelColumn(_columns(data))


def _columns(data: EntailmentData) -> dict[str, str]:
    """Returns what stands in which column of a table."""
    if data.format == "sick":
        return SICK
    return {
        "premise": data.premise_column,
        "hypothesis": data.hypothesis_column,
        "label": data.label_column,
    }


TASK = Entailment()
