"""The task `srl`: what plays which role for the predicates that the file, or a mark, names."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, cast

from elmokit.errors import InputError
from elmokit.metrics.roles import VERB, score_roles
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.elmo_at import ElmoAt
from elmokit.tasks.readers.reading import Block, Reading, read_examples
from elmokit.tasks.readers.roles import (
    MarkedText,
    RoleColumns,
    RoleSentence,
    write_marked,
    write_roles,
)
from elmokit.tasks.srl.config import SrlData, SrlSection
from elmokit.tasks.srl.model import RoleLabeller, Roles
from elmokit.tasks.task import InputFormat, Lists, Purpose, Task
from elmokit.tasks.tokens import count_words


@dataclass(frozen=True, slots=True, kw_only=True)
class SrlConfig(TaskConfig):
    """A run of `srl`."""

    data: SrlData
    """The examples."""
    model: SrlSection = field(default_factory=SrlSection)
    """The labeller of roles."""


class Srl(Task[RoleSentence, Roles]):
    """Semantic role labelling."""

    name: ClassVar[str] = "srl"
    config: ClassVar[type[TaskConfig]] = SrlConfig

    def read(
        self,
        source: str,
        config: TaskConfig,
        purpose: Purpose,
        lists: Lists | None = None,
        format: InputFormat = "task",
    ) -> Reading[Block, RoleSentence]:
        """Reads sentences; see `Task.read`."""
        data = cast(SrlData, config.data)
        if format == "text":
            return read_examples(source, MarkedText, encoding=data.encoding)
        reading = read_examples(
            source,
            lambda name: RoleColumns(
                name, data.format, data.predicate_column, has_roles=purpose != "predict"
            ),
            encoding=data.encoding,
            skip_bad=data.skip_bad,
        )
        if purpose == "train" and not any(item.predicates for item in reading.items):
            raise InputError(
                f"{reading.name}: no sentence has a predicate; set data.format, or "
                "data.predicate_column"
            )
        return reading

    def make_lists(self, items: Sequence[RoleSentence], config: TaskConfig) -> Lists:
        """Numbers words and labels; a part of a file may have no predicate, and a model has V."""
        labels = {label for item in items for label, _ in self.labels(item)}
        return {
            "words": count_words((item.tokens for item in items), config.model.tokens),
            "labels": sorted({VERB, *labels}),
        }

    def build(self, config: TaskConfig, lists: Lists, elmo: ElmoAt | None) -> RoleLabeller:
        """Returns a new labeller."""
        return RoleLabeller(cast(SrlSection, config.model), lists["words"], lists["labels"], elmo)

    def sentences(self, item: RoleSentence) -> Sequence[Sequence[str]]:
        """Returns the one sentence."""
        return (item.tokens,)

    def labels(self, item: RoleSentence) -> Iterator[tuple[str, str]]:
        """Yields the labels of spans."""
        for span in chain.from_iterable(item.roles or ()):
            yield span.label, f"{item.name}: line {item.lines[span.start]}"

    def known_labels(self, lists: Lists) -> Iterable[str]:
        """Returns the labels."""
        return lists["labels"]

    def metric(self, lists: Lists) -> str:
        """Returns the F1 of arguments."""
        return "f1"

    def evaluate(
        self, items: Sequence[RoleSentence], predictions: Sequence[Roles], lists: Lists
    ) -> dict[str, Any]:
        """Returns the scores of arguments."""
        gold = chain.from_iterable(item.roles or () for item in items)
        return score_roles(gold, chain.from_iterable(predictions)).to_dict()

    def write(
        self,
        reading: Reading[Any, RoleSentence],
        predictions: Sequence[Roles],
        config: TaskConfig,
        lists: Lists,
        format: InputFormat,
    ) -> Iterator[str]:
        """Yields every line that was read, with the columns of arguments written anew."""
        data = cast(SrlData, config.data)
        for entry, roles in reading.predicted(predictions):
            if format == "text":
                yield from write_marked(entry.piece, roles)
            else:
                yield from write_roles(entry.piece, roles, data.format, data.predicate_column)


TASK = Srl()
