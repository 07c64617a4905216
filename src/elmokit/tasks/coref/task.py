"""The task `coref`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from elmokit.metrics.coreference import score_clusters
from elmokit.tasks.config import DataSection, TaskConfig
from elmokit.tasks.coref.config import CorefFit, CorefSection
from elmokit.tasks.coref.model import SpanRanker, segments
from elmokit.tasks.elmo_at import ElmoAt
from elmokit.tasks.readers.documents import (
    Clusters,
    Conll2012,
    Document,
    PlainDocuments,
    write_conll2012,
    write_plain,
)
from elmokit.tasks.readers.reading import Block, Reading, read_examples
from elmokit.tasks.task import InputFormat, Lists, Purpose, Task
from elmokit.tasks.tokens import count_words


@dataclass(frozen=True, slots=True, kw_only=True)
class CorefConfig(TaskConfig):
    """A run of `coref`."""

    data: DataSection
    """The examples."""
    model: CorefSection = field(default_factory=CorefSection)
    """The span ranker."""
    fit: CorefFit = field(default_factory=CorefFit)
    """How it learns."""


class Coref(Task[Document, Clusters]):
    """Clusters of mentions in a document."""

    name: ClassVar[str] = "coref"
    config: ClassVar[type[TaskConfig]] = CorefConfig

    def read(
        self,
        source: str,
        config: TaskConfig,
        purpose: Purpose,
        lists: Lists | None = None,
        format: InputFormat = "task",
    ) -> Reading[Block, Document]:
        """Reads documents; see `Task.read`."""
        data, section = config.data, cast(CorefSection, config.model)

        def open_format(name: str) -> Conll2012 | PlainDocuments:
            if format == "text":
                return PlainDocuments(name)
            return Conll2012(name, clusters=purpose != "predict", singletons=section.singletons)

        return read_examples(source, open_format, encoding=data.encoding, skip_bad=data.skip_bad)

    def make_lists(self, items: Sequence[Document], config: TaskConfig) -> Lists:
        """Numbers words; says what becomes of singletons."""
        sentences = (words for item in items for words in item.sentences)
        has_singletons = cast(CorefSection, config.model).singletons
        return {
            "words": count_words(sentences, config.model.tokens),
            "singletons": ["kept" if has_singletons else "left out"],
        }

    def build(self, config: TaskConfig, lists: Lists, elmo: ElmoAt | None) -> SpanRanker:
        """Returns a new span ranker."""
        return SpanRanker(cast(CorefSection, config.model), lists["words"], elmo)

    def sentences(self, item: Document) -> Sequence[Sequence[str]]:
        """Returns the sentences, very long ones in pieces."""
        return segments(item)

    def metric(self, lists: Lists) -> str:
        """Returns the mean F1 of MUC, B-cubed and CEAF."""
        return "conll"

    def evaluate(
        self, items: Sequence[Document], predictions: Sequence[Clusters], lists: Lists
    ) -> dict[str, Any]:
        """Returns the CoNLL score, all measures, and what became of singletons on both sides."""
        scores = score_clusters((item.clusters or () for item in items), predictions)
        return {**scores.to_dict(), "singletons": lists["singletons"][0]}

    def write(
        self,
        reading: Reading[Block, Document],
        predictions: Sequence[Clusters],
        config: TaskConfig,
        lists: Lists,
        format: InputFormat,
    ) -> Iterator[str]:
        """Yields every line that was read, with the last column as predicted."""
        part = 0
        for entry, clusters in reading.predicted(predictions):
            if format == "task":
                yield from write_conll2012(entry.piece, clusters)
            elif entry.item is not None and clusters is not None:
                yield from write_plain(entry.item, clusters, part)
                part += 1

    def length(self, item: Document) -> int:
        """Returns the words of a document."""
        return len(item.speakers)


TASK = Coref()
