"""The text and the model of a run: made when it begins, found in its directory when it goes on."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmokit.checkpoints import detect
from elmokit.checkpoints.files import expanded
from elmokit.checkpoints.source import opened
from elmokit.checkpoints.tensorflow import OptimizerState, read_optimizer
from elmokit.errors import CheckpointError, InputError
from elmokit.model import BiLM
from elmokit.training.build import build, check_trainable, rebuild, vocabulary_of
from elmokit.training.config import ModelSection, TrainConfig
from elmokit.training.corpus import Corpus, open_corpus, prepare
from elmokit.training.distributed import Processes
from elmokit.training.run_directory import CORPUS, HELDOUT, VOCABULARY, read_words
from elmokit.training.sources import find_files
from elmokit.training.vocabulary import SPECIAL, read_vocabulary, write_vocabulary
from elmokit.vocabulary import Vocabulary

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What a run works with."""

    bilm: BiLM
    """The model that learns."""
    corpus: Corpus
    """What it learns from."""
    heldout: Corpus | None
    """What it is measured on."""
    optimizer: OptimizerState | None = None
    """Where bilm-tf stopped, if its training goes on."""


def open_new(config: TrainConfig, run_dir: Path, processes: Processes) -> Opening:
    """Prepares the text, in the first process, and makes the model.

    Raises:
        ConfigError: Settings contradict each other or do not fit the text, or the model to start
            from cannot learn.
        InputError: The text or the word list cannot be read, or held-out text is learnt from.
        CheckpointError: The model to start from cannot be read.
        OutputError: The directory cannot be written.
    """
    source = None
    if config.start is not None:
        source = BiLM.from_pretrained(config.start.model)
        check_trainable(config.start.model, source)
        if processes.is_first:
            _tell_unused(config)
    if processes.is_first:
        words = vocabulary_of(config, source)
        if words is None:
            words = read_vocabulary(expanded(str(config.data.vocabulary)))
            _check_order(config, words)
        _check_apart(config)
        write_vocabulary(words, run_dir / VOCABULARY)
        for patterns, name in ((config.data.train, CORPUS), (config.data.heldout, HELDOUT)):
            if patterns:
                prepare(patterns, words, run_dir / name, encoding=config.data.encoding)
    processes.wait()
    corpus, heldout = _open_text(config, run_dir, read_words(run_dir))
    return Opening(
        bilm=build(config, corpus, source),
        corpus=corpus,
        heldout=heldout,
        optimizer=_optimizer_of(config),
    )


def open_again(config: TrainConfig, run_dir: Path, saved: Mapping[str, Any]) -> Opening:
    """Opens what a checkpoint belongs to; neither text nor start model is needed any more.

    Raises:
        InputError: The prepared text is missing or damaged.
        CheckpointError: The word list is.
    """
    words = read_words(run_dir)
    corpus, heldout = _open_text(config, run_dir, words)
    bilm = rebuild(saved["structure"], saved["model"], words)
    return Opening(bilm=bilm, corpus=corpus, heldout=heldout)


def _open_text(
    config: TrainConfig, run_dir: Path, words: Vocabulary
) -> tuple[Corpus, Corpus | None]:
    corpus = open_corpus(run_dir / CORPUS, words)
    return corpus, open_corpus(run_dir / HELDOUT, words) if config.data.heldout else None


def _check_order(config: TrainConfig, vocabulary: Vocabulary) -> None:
    """Warns of a list by alphabet where the sampler takes the first words for the frequent ones."""
    words, negatives = list(vocabulary.words[len(SPECIAL) :]), config.objective.num_negatives
    if negatives is not None and negatives < len(words) and words == sorted(words):
        logger.warning(
            "data.vocabulary: %s is in the order of the alphabet, but words are sampled by their "
            "place, the most frequent first: sort it by falling count, as elmo vocab does, or set "
            "objective.num_negatives to null",
            config.data.vocabulary,
        )


def _check_apart(config: TrainConfig) -> None:
    """Refuses held-out text that is learnt from, which would show learning by heart as progress."""
    train, heldout = (
        {path.resolve(): path for path in find_files(patterns)} if patterns else {}
        for patterns in (config.data.train, config.data.heldout)
    )
    if both := [str(heldout[path]) for path in heldout if path in train]:
        raise InputError(
            f"data.heldout: {', '.join(both)}: is in data.train too, and would measure what was "
            "learnt by heart; take it out of one of them"
        )


def _tell_unused(config: TrainConfig) -> None:
    assert config.start is not None
    if config.model != ModelSection():
        logger.warning("model: is not used, the run starts from %s", config.start.model)
    if config.start.softmax == "keep" and config.data.vocabulary is not None:
        logger.warning(
            "data.vocabulary: is not used, since start.softmax is keep: the words are those of %s",
            config.start.model,
        )


def _optimizer_of(config: TrainConfig) -> OptimizerState | None:
    """Returns Adagrad's accumulators, if the run goes on with a training checkpoint of bilm-tf."""
    start = config.start
    if start is None or start.softmax == "new" or config.optimizer.name != "adagrad":
        return None
    with opened(start.model) as directory:
        if detect(directory)[0].name != "tensorflow":
            return None
        try:
            return read_optimizer(directory)
        except CheckpointError as error:
            logger.warning("%s; the accumulators start anew", error)
            return None
