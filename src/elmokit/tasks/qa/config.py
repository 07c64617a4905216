"""Settings of `qa`; needs no torch."""

from dataclasses import dataclass

from elmokit.tasks.config import DataSection


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionData(DataSection):
    """Texts with questions and answers, in SQuAD's JSON."""

    tokenizer: str = "words"
    """What cuts texts and questions: words (Unicode's word boundaries; each Chinese character is a
    word), whitespace, characters, or spacy:LANG."""
