"""`elmo vocab`: the word list of a corpus."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from elmokit.cli.printing import say

_CORPUS = tyro.conf.arg(metavar="CORPUS...", help_behavior_hint="(required)")


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabSettings:
    """Counts the words of a corpus and writes the list that a language model predicts from.

    Example: elmo vocab text/*.txt.gz -o vocab.txt --min-count 3
    """

    corpus: Annotated[tyro.conf.Positional[tuple[str, ...]], _CORPUS]
    """Text files or patterns, one sentence per line, tokens between white space, plain or
    compressed (.gz, .xz, .zst)."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    """File to write: <S>, </S>, <UNK>, then words by falling count, one per line."""
    max_size: int | None = None
    """Most words of the list, <S>, </S> and <UNK> included; all words if not given."""
    min_count: int = 1
    """Occurrences that a word needs."""
    encoding: str = "utf-8"
    """Encoding of the corpus; the list is UTF-8."""
    processes: int | None = None
    """Files counted at once; as many as there are cores if not given."""
    overwrite: bool = False
    """Replace an existing list once the new one is complete."""


def run(settings: VocabSettings) -> None:
    """Makes the word list and says what it covers."""
    from elmokit.training.vocabulary import make_vocabulary

    summary = make_vocabulary(
        settings.corpus,
        settings.output,
        max_size=settings.max_size,
        min_count=settings.min_count,
        encoding=settings.encoding,
        processes=settings.processes,
        overwrite=settings.overwrite,
    )
    say(f"{settings.output}: {summary.describe()}")
