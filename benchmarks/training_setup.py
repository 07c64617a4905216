"""What both parts of the training benchmark share: settings, text, sizes of the models."""

import gzip
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from elmokit.training.vocabulary import choose_words, write_vocabulary
from environments import DEFAULT_FOLDER
from sample_text import REPOSITORY, Sentences, make_sentences
from training_worker import Run

CORPUS = REPOSITORY.parent / "shared/corpus/en"
WORKER = Path(__file__).with_name("training_worker.py")
BASELINE = "simple-elmo"
SYNTHETIC_LENGTH = 20.5
"""Mean length of a made-up sentence."""

SPEED: dict[str, Any] = {
    "filters": [(1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)],
    "num_highway": 1,
    "cell_dim": 1024,
    "projection_dim": 128,
    "batch_size": 128,
    "window": 20,
    "num_negatives": 1024,
    "dropout": 0.1,
}
QUALITY: dict[str, Any] = SPEED | {
    "filters": [(1, 32), (2, 32), (3, 64)],
    "cell_dim": 256,
    "projection_dim": 64,
    "batch_size": 32,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is measured."""

    quality: bool = False
    """Train small models to the end and compare their perplexity, instead of the speed."""
    num_rounds: int = 5
    """Speed: timed turns of each contender."""
    steps_per_round: int = 3
    """Speed: steps of a turn."""
    num_warmup: int = 2
    """Speed: steps before the first turn."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Quality: seeds of weights, order of the text, dropout and sampled words. Speed: the first."""
    epochs: float = 3.0
    """Quality: times that the text is read."""
    num_tokens: int = 500_000
    """Tokens to train on."""
    heldout_tokens: int = 50_000
    """Quality: tokens to measure perplexity on."""
    vocabulary_size: int = 20_000
    """Words of the softmax at most, the special ones included."""
    num_threads: int = 2
    """Threads of each contender; speed: as many processes of one thread each are measured too."""
    text: Path = CORPUS
    """Folder with train-*.txt.gz and heldout.txt.gz; synthetic text takes its place if absent."""
    environments: Path = DEFAULT_FOLDER
    """Where simple-elmo's virtual environment is, or is to be built, in a folder of its name."""
    output: Path | None = None
    """A JSON file for every number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Sentences to learn from and to measure on, and the words to predict."""

    source: str
    train: Path
    vocabulary: Path
    num_words: int
    num_tokens: int
    num_sentences: int
    heldout: Sentences

    def describe(self) -> str:
        """Return one line about the text."""
        return (
            f"{self.source}: {self.num_tokens:,} tokens in {self.num_sentences:,} sentences, "
            f"{self.num_words:,} words, {sum(map(len, self.heldout)):,} tokens held out"
        )


def make_text(settings: Settings, folder: Path) -> Text:
    """Write the text and its vocabulary into a folder, the same files for both contenders."""
    if settings.text.exists():
        source = f"{settings.text.parent.name}/{settings.text.name}"
        train = _take(_read(sorted(settings.text.glob("train-*.txt.gz"))), settings.num_tokens)
        heldout = _take(_read([settings.text / "heldout.txt.gz"]), settings.heldout_tokens)
    else:
        source = f"synthetic text, since {settings.text} is absent"
        wanted = settings.num_tokens + settings.heldout_tokens
        sentences = iter(make_sentences(math.ceil(1.1 * wanted / SYNTHETIC_LENGTH), seed=1))
        train = _take(sentences, settings.num_tokens)
        heldout = _take(sentences, settings.heldout_tokens)
    counts = Counter(token for sentence in train for token in sentence)
    vocabulary = choose_words(counts, max_size=settings.vocabulary_size)
    text = Text(
        source=source,
        train=folder / "train.txt",
        vocabulary=folder / "vocab.txt",
        num_words=len(vocabulary.words),
        num_tokens=counts.total(),
        num_sentences=len(train),
        heldout=heldout,
    )
    lines = "".join(f"{' '.join(sentence)}\n" for sentence in train)
    text.train.write_text(lines, encoding="utf-8")
    write_vocabulary(vocabulary, text.vocabulary)
    return text


def make_run(
    settings: Settings,
    model: Mapping[str, Any],
    text: Text,
    folder: Path,
    *,
    softmax_init: str = "frequency",
    seed: int | None = None,
    num_threads: int | None = None,
) -> Run:
    """Return what a worker needs to know; seed and threads are the settings' unless given."""
    return Run(
        text=str(text.train),
        vocabulary=str(text.vocabulary),
        num_words=text.num_words,
        folder=str(folder),
        softmax_init=softmax_init,
        seed=settings.seeds[0] if seed is None else seed,
        num_threads=num_threads or settings.num_threads,
        **model,
    )


def new_folder(parent: Path, name: str) -> Path:
    """Make a folder for what a worker writes."""
    folder = parent / name
    folder.mkdir()
    return folder


def _read(files: Sequence[Path]) -> Iterator[list[str]]:
    """Yield the tokens of each line that has any."""
    for file in files:
        with gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
            yield from filter(None, map(str.split, lines))


def _take(sentences: Iterator[list[str]], num_tokens: int) -> Sentences:
    """Return sentences of so many tokens; the last is cut."""
    taken: Sentences = []
    while num_tokens > 0 and (sentence := next(sentences, None)):
        taken.append(list(islice(sentence, num_tokens)))
        num_tokens -= len(sentence)
    return taken
