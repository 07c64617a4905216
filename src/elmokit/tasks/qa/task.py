"""The task `qa`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from elmokit.metrics.answers import score_answers
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.elmo_at import ElmoAt
from elmokit.tasks.qa.config import QuestionData
from elmokit.tasks.qa.model import Bidaf, BidafSection
from elmokit.tasks.readers.items import Question
from elmokit.tasks.readers.passages import Cutting
from elmokit.tasks.readers.questions import PlainQuestions, read_squad, write_squad
from elmokit.tasks.readers.reading import Reading, read_examples
from elmokit.tasks.readers.texts import write_labelled
from elmokit.tasks.task import InputFormat, Lists, Purpose, Task
from elmokit.tasks.tokens import count_words
from elmokit.text.tokenizers import get_tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class QaConfig(TaskConfig):
    """A run of `qa`."""

    data: QuestionData
    """The examples."""
    model: BidafSection = field(default_factory=BidafSection)
    """What finds the answer."""


class Qa(Task[Question, str]):
    """Which piece of a text answers a question."""

    name: ClassVar[str] = "qa"
    config: ClassVar[type[TaskConfig]] = QaConfig

    def read(
        self,
        source: str,
        config: TaskConfig,
        purpose: Purpose,
        lists: Lists | None = None,
        format: InputFormat = "task",
    ) -> Reading[Any, Question]:
        """Reads questions; see `Task.read`."""
        data, model = cast(QuestionData, config.data), cast(BidafSection, config.model)
        cutting = Cutting(
            tokenizer=get_tokenizer(data.tokenizer), window=model.window, overlap=model.overlap
        )
        if format == "text":
            return read_examples(
                source,
                lambda name: PlainQuestions(name, cutting),
                encoding=data.encoding,
                skip_bad=data.skip_bad,
            )
        return read_squad(
            source,
            cutting,
            encoding=data.encoding,
            answers=purpose != "predict",
            learnt=purpose == "train",
            skip_bad=data.skip_bad,
        )

    def make_lists(self, items: Sequence[Question], config: TaskConfig) -> Lists:
        """Numbers words; those of a text count once, however many questions it has."""
        passages = {item.passage.text: item.passage.tokens for item in items}
        sentences = [*passages.values(), *(item.tokens for item in items)]
        return {"words": count_words(sentences, config.model.tokens)}

    def build(self, config: TaskConfig, lists: Lists, elmo: ElmoAt | None) -> Bidaf:
        """Returns a new model."""
        return Bidaf(cast(BidafSection, config.model), lists["words"], elmo)

    def sentences(self, item: Question) -> Sequence[Sequence[str]]:
        """Returns the question and the windows of its text."""
        tokens = item.passage.tokens
        return [item.tokens, *(tokens[w.start : w.stop] for w in item.passage.windows)]

    def metric(self, lists: Lists) -> str:
        """Returns F1."""
        return "f1"

    def evaluate(
        self, items: Sequence[Question], predictions: Sequence[str], lists: Lists
    ) -> dict[str, Any]:
        """Returns F1 and exact match; a question without an answer counts, as answered wrongly."""
        scores = score_answers([item.answers for item in items], predictions)
        unanswerable = sum(not item.answers for item in items)
        return {**scores.to_dict(), "unanswerable": unanswerable}

    def write(
        self,
        reading: Reading[Any, Question],
        predictions: Sequence[str],
        config: TaskConfig,
        lists: Lists,
        format: InputFormat,
    ) -> Iterator[str]:
        """Yields SQuAD's object of answers; of plain text every line, its answer before it."""
        if format == "task":
            yield from write_squad(reading, predictions)
            return
        for entry, answer in reading.predicted(predictions):
            for _, line in entry.piece:
                yield from write_labelled(line, answer)


TASK = Qa()
