"""The task `ner`. Inside, tags are BIOES, whatever the files have; scores are those of spans."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from elmokit.metrics.spans import Scheme, decode, encode, score_spans, tags_of
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.ner.config import NerData
from elmokit.tasks.readers.columns import Columns, write_columns
from elmokit.tasks.readers.items import Sentence
from elmokit.tasks.readers.reading import Block, Reading, read_examples
from elmokit.tasks.readers.span_tags import checked, scheme_of
from elmokit.tasks.tagger import TaggerSection
from elmokit.tasks.tagging import TaggingTask, Tags, file_scheme
from elmokit.tasks.task import Lists, Purpose

_INSIDE: Scheme = "BIOES"


@dataclass(frozen=True, slots=True, kw_only=True)
class NerConfig(TaskConfig):
    """A run of `ner`."""

    data: NerData
    """The examples."""
    model: TaggerSection = field(default_factory=TaggerSection)
    """The tagger."""


class Ner(TaggingTask):
    """Named entities."""

    name: ClassVar[str] = "ner"
    config: ClassVar[type[TaskConfig]] = NerConfig

    def read_tagged(
        self, source: str, config: TaskConfig, purpose: Purpose, lists: Lists | None
    ) -> Reading[Block, Sentence]:
        """Reads columns; their tags become BIOES."""
        data = cast(NerData, config.data)
        column = None if purpose == "predict" else data.column
        reading = read_examples(
            source,
            lambda name: Columns(name, column),
            encoding=data.encoding,
            skip_bad=data.skip_bad,
        )
        if column is None:
            return reading
        scheme = scheme_of(reading) if lists is None else file_scheme(lists)
        return checked(
            reading,
            cast(Scheme, scheme if data.scheme == "auto" else data.scheme),
            data.invalid_tags,
            write_as=_INSIDE,
            skip_bad=data.skip_bad,
        )

    def tag_list(self, items: Sequence[Sentence]) -> Sequence[str]:
        """Returns O, and every tag of every label."""
        return tags_of({span.label for item in items for span in decode(item.tags or ())}, _INSIDE)

    def crf_scheme(self, lists: Lists) -> Scheme | None:
        """Returns BIOES."""
        return _INSIDE

    def metric(self, lists: Lists) -> str:
        """Returns the F1 of spans."""
        return "f1"

    def evaluate(
        self, items: Sequence[Sentence], predictions: Sequence[Tags], lists: Lists
    ) -> dict[str, Any]:
        """Returns the scores of spans."""
        gold = (decode(item.tags or ()) for item in items)
        return score_spans(gold, map(decode, predictions)).to_dict()

    def write_block(
        self, block: Block, tags: Tags | None, config: TaskConfig, lists: Lists
    ) -> Iterable[str]:
        """Yields the lines with one more column, in the scheme of the training file."""
        if tags is not None:
            tags = self.written(tags, lists)
        return write_columns(block, tags)

    def written(self, tags: Tags, lists: Lists) -> Tags:
        """Returns tags in the scheme of the training file."""
        return tuple(encode(decode(tags), len(tags), file_scheme(lists) or _INSIDE))


TASK = Ner()
