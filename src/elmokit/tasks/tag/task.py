"""The task `tag`: tags as they are in the files; those that write spans are scored as spans too."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from elmokit.metrics.classification import score_labels
from elmokit.metrics.spans import Scheme, decode, score_spans, tags_of
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.readers.columns import Columns, write_columns
from elmokit.tasks.readers.conllu import Conllu, write_conllu
from elmokit.tasks.readers.items import Sentence
from elmokit.tasks.readers.reading import Block, Reading, read_examples
from elmokit.tasks.readers.span_tags import are_span_tags, checked, scheme_of
from elmokit.tasks.tag.config import TagData
from elmokit.tasks.tagger import TaggerSection
from elmokit.tasks.tagging import TaggingTask, Tags, file_scheme
from elmokit.tasks.task import Lists, Purpose


@dataclass(frozen=True, slots=True, kw_only=True)
class TagConfig(TaskConfig):
    """A run of `tag`."""

    data: TagData
    """The examples."""
    model: TaggerSection = field(default_factory=TaggerSection)
    """The tagger."""


class Tag(TaggingTask):
    """Parts of speech, chunks, and other tags of words."""

    name: ClassVar[str] = "tag"
    config: ClassVar[type[TaskConfig]] = TagConfig

    def read_tagged(
        self, source: str, config: TaskConfig, purpose: Purpose, lists: Lists | None
    ) -> Reading[Block, Sentence]:
        """Reads CoNLL-U or columns."""
        data = cast(TagData, config.data)
        has_tags = purpose != "predict"

        def open_format(name: str) -> Conllu | Columns:
            if data.is_conllu:
                return Conllu(name, data.field if has_tags else None)
            return Columns(name, data.column if has_tags else None)

        reading = read_examples(source, open_format, encoding=data.encoding, skip_bad=data.skip_bad)
        if not has_tags:
            return reading
        if lists is None:
            scheme = scheme_of(reading) if are_span_tags(reading) else None
        else:
            scheme = file_scheme(lists)
        if scheme is None:
            return reading
        return checked(reading, scheme, data.invalid_tags, skip_bad=data.skip_bad)

    def tag_list(self, items: Sequence[Sentence]) -> Sequence[str]:
        """Returns the tags that occur; of spans every tag of every label that does."""
        scheme = items[0].scheme
        if scheme is None:
            return sorted({tag for item in items for tag in item.tags or ()})
        return tags_of({span.label for item in items for span in decode(item.tags or ())}, scheme)

    def crf_scheme(self, lists: Lists) -> Scheme | None:
        """Returns the scheme of the training file."""
        return file_scheme(lists)

    def metric(self, lists: Lists) -> str:
        """Returns the F1 of spans if tags write some, else accuracy."""
        return "accuracy" if file_scheme(lists) is None else "f1"

    def evaluate(
        self, items: Sequence[Sentence], predictions: Sequence[Tags], lists: Lists
    ) -> dict[str, Any]:
        """Returns the accuracy of tags, and the scores of spans if tags write some."""
        gold = [item.tags or () for item in items]
        words = score_labels(
            list(itertools.chain.from_iterable(gold)),
            list(itertools.chain.from_iterable(predictions)),
        )
        if file_scheme(lists) is None:
            return words.to_dict()
        spans = score_spans(map(decode, gold), map(decode, predictions))
        return {"accuracy": words.accuracy, **spans.to_dict()}

    def write_block(
        self, block: Block, tags: Tags | None, config: TaskConfig, lists: Lists
    ) -> Iterable[str]:
        """Yields the lines with the tags in their column, or in one more."""
        data = cast(TagData, config.data)
        if data.is_conllu:
            return write_conllu(block, tags, data.field)
        return write_columns(block, tags)


TASK = Tag()
