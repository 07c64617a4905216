"""What the tasks that tag words have in common."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from elmokit.metrics.spans import Scheme
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.elmo_at import ElmoAt
from elmokit.tasks.readers.items import Sentence
from elmokit.tasks.readers.plain import PlainSentences, write_tagged
from elmokit.tasks.readers.reading import Block, Reading, read_examples
from elmokit.tasks.tagger import Tagger, TaggerSection
from elmokit.tasks.task import InputFormat, Lists, Purpose, Task
from elmokit.tasks.tokens import count_words

Tags = tuple[str, ...]


class TaggingTask(Task[Sentence, Tags]):
    """A tag for each word of a sentence."""

    @abstractmethod
    def read_tagged(
        self, source: str, config: TaskConfig, purpose: Purpose, lists: Lists | None
    ) -> Reading[Block, Sentence]:
        """Reads a file of the task's own format; see `read`."""

    @abstractmethod
    def write_block(
        self, block: Block, tags: Tags | None, config: TaskConfig, lists: Lists
    ) -> Iterable[str]:
        """Yields the lines of a sentence in the task's own format; without tags, as they are."""

    @abstractmethod
    def tag_list(self, items: Sequence[Sentence]) -> Sequence[str]:
        """Returns the tags that a model chooses from."""

    @abstractmethod
    def crf_scheme(self, lists: Lists) -> Scheme | None:
        """Returns how the tags of the model write spans; None if they write none."""

    def written(self, tags: Tags, lists: Lists) -> Tags:
        """Returns tags of the model as files have them."""
        return tags

    def read(
        self,
        source: str,
        config: TaskConfig,
        purpose: Purpose,
        lists: Lists | None = None,
        format: InputFormat = "task",
    ) -> Reading[Block, Sentence]:
        """Reads sentences; see `Task.read`."""
        if format == "text":
            return read_examples(source, PlainSentences, encoding=config.data.encoding)
        return self.read_tagged(source, config, purpose, lists)

    def make_lists(self, items: Sequence[Sentence], config: TaskConfig) -> Lists:
        """Numbers words and tags."""
        return {
            "words": count_words((item.tokens for item in items), config.model.tokens),
            "tags": self.tag_list(items),
            "scheme": [scheme for scheme in [items[0].scheme] if scheme is not None],
        }

    def build(self, config: TaskConfig, lists: Lists, elmo: ElmoAt | None) -> Tagger:
        """Returns a new tagger."""
        scheme = self.crf_scheme(lists)
        section = cast(TaggerSection, config.model)
        return Tagger(section, lists["words"], lists["tags"], scheme, elmo)

    def sentences(self, item: Sentence) -> Sequence[Sequence[str]]:
        """Returns the one sentence."""
        return (item.tokens,)

    def labels(self, item: Sentence) -> Iterator[tuple[str, str]]:
        """Yields the tags."""
        for line, tag in zip(item.lines, item.tags or (), strict=True):
            yield tag, f"{item.name}: line {line}"

    def known_labels(self, lists: Lists) -> Iterable[str]:
        """Returns the tags."""
        return lists["tags"]

    def write(
        self,
        reading: Reading[Any, Sentence],
        predictions: Sequence[Tags],
        config: TaskConfig,
        lists: Lists,
        format: InputFormat,
    ) -> Iterator[str]:
        """Yields every line that was read, with its tag."""
        for entry, tags in reading.predicted(predictions):
            if format == "text":
                yield from write_tagged(entry.piece, tags and self.written(tags, lists))
            else:
                yield from self.write_block(entry.piece, tags, config, lists)


def file_scheme(lists: Lists) -> Scheme | None:
    """Returns how tags wrote spans in the training file; None if they wrote none."""
    return cast(Scheme, lists["scheme"][0]) if lists["scheme"] else None
