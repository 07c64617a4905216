"""bilm-tf's training checkpoints, without TensorFlow: checkpoint, model.ckpt-N.*, options.json.

They hold what the dumped HDF5 weights leave out: the softmax, and the state of the optimiser.

Peculiarities that are kept, with their reasons:

- `checkpoint` names the tensors by a path, often an absolute one of the machine they were trained
  on: what counts is the last part of it, beside the file itself. If that is not there, or there is
  no such file, the only model.ckpt-N.index of the directory is meant.
- The tensors are as in the HDF5 weights (see `allennlp`), with `lm/` before the name, and the
  TensorFlow names of cells. A model of one layer has no `multi_rnn_cell/cell_0` in them.
- With `share_embedding_softmax` there is no `softmax/W`: the word table is the softmax too. Here it
  becomes two equal tensors.
- Adagrad's accumulators stand beside the tensors, which `read` leaves out and `read_optimizer`
  reads. They are sums of squares: where a weight's sign is changed, theirs is not.
"""

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor

from elmokit.checkpoints import bilm_table, layout, table, tensor_bundle
from elmokit.checkpoints.bilm_files import (
    META,
    OPTIONS,
    OPTIONS_NAMES,
    VOCABULARY,
    VOCABULARY_NAMES,
    alphabet,
    check_characters,
    input_words,
)
from elmokit.checkpoints.bilm_options import Options, read_options
from elmokit.checkpoints.checkpoint import Checkpoint
from elmokit.checkpoints.files import Finding, candidates, names, read_text, split_words
from elmokit.checkpoints.nlpl import read_card
from elmokit.checkpoints.table import Row, Transform, row
from elmokit.checkpoints.tensor_bundle import Bundle
from elmokit.config import BiLMConfig, Card
from elmokit.errors import CheckpointError
from elmokit.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

CHECKPOINT = "checkpoint"

_NAMED = re.compile(rb'^\s*model_checkpoint_path\s*:\s*"(.*)"\s*$', re.MULTILINE)
_PREFIX = "lm/"
_CHARACTERS, _WORDS = f"{_PREFIX}char_embed", f"{_PREFIX}embedding"
_SOFTMAX_WEIGHT, _SOFTMAX_BIAS = f"{_PREFIX}softmax/W", f"{_PREFIX}softmax/b"
_ACCUMULATOR, _INITIAL_ACCUMULATOR = "/Adagrad", 1.0
_STEP = "global_step"
_DROPPED = re.compile(rf"{_STEP}|train_perplexity|beta[12]_power|{_PREFIX}.*/(Adagrad|Adam|Adam_1)")
"""Variables of the training program; some copies of bilm-tf train with Adam."""

_SHARED = Transform(
    # One table of the file for the input (with the row of id 0) and for the softmax.
    read=lambda tensors: (F.pad(tensors[0], (0, 0, 1, 0)), tensors[0]),
    write=lambda tensors: (tensors[1],),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerState:
    """What Adagrad needs to go on from a checkpoint."""

    step: int
    """Updates done so far."""
    accumulators: Mapping[str, Tensor]
    """Sum of squared gradients of each trained tensor, by its native name and in its shape. The
    row of id 0, which is never trained, holds the initial value, 1.0."""


def find(directory: Path) -> Finding:
    """Finds the files of a model in this format, or what is missing of them."""
    files: dict[str, Path] = {}
    lacks = []
    index = _find_index(directory)
    if isinstance(index, Path):
        files["index"] = index
        for number, shard in enumerate(tensor_bundle.read_index(index).shards):
            files[f"data {number}"] = shard
        lacks += [path.name for path in files.values() if not path.is_file()]
    else:
        lacks += index
    options = candidates(directory, *OPTIONS_NAMES)
    vocabularies = candidates(directory, *VOCABULARY_NAMES)
    if len(options) == 1:
        files["options"] = options[0]
    else:
        lacks.append(f"{OPTIONS} (or one *options*.json)")
    if len(vocabularies) == 1:
        files["vocab"] = vocabularies[0]
    else:
        lacks.append(f"{VOCABULARY} (or one *vocab*.txt)")
    for role, name in (("checkpoint", CHECKPOINT), ("meta", META)):
        if (directory / name).is_file():
            files[role] = directory / name
    return Finding(files, tuple(lacks))


def read(files: Mapping[str, Path]) -> Checkpoint:
    """Reads a model with its softmax and its vocabulary.

    Args:
        files: Role -> file, from `find`.

    Raises:
        CheckpointError: A file is damaged or is something else, or two files contradict.
        ConfigError: A field of the options is missing or wrong.
    """
    options, bundle = read_options(files["options"]), tensor_bundle.read_index(files["index"])
    config = _config(options, bundle)
    words = split_words(read_text(files["vocab"]))
    if len(words) != config.softmax_words:
        raise CheckpointError(
            f"{files['vocab']} has {len(words)} words, the softmax of {bundle.path} has "
            f"{config.softmax_words}; the two belong to different models"
        )
    bundle.check_lengths()
    rows, where = _rows(config, bundle), str(bundle.path)
    table.account(
        table.expected(rows),
        bundle.stored,
        where=where,
        reason=options.path.name,
        dropped=_DROPPED,
    )
    provenance = f"training checkpoint of bilm-tf ({options.path.name}, {bundle.path.stem})"
    card = read_card(files["meta"], provenance) if "meta" in files else Card(provenance=provenance)
    tensors = table.import_tensors(rows, bundle.read, where=where)
    return Checkpoint(
        config=config,
        tensors=tensors | layout.zero_state(config.lstm),
        alphabet=alphabet(config),
        words=input_words(words, files["vocab"]) if config.words else None,
        vocabulary=Vocabulary(words),
        card=card,
    )


def read_optimizer(directory: str | os.PathLike[str]) -> OptimizerState:
    """Reads where training stopped: the accumulators of Adagrad, and the number of updates.

    Args:
        directory: A training checkpoint of bilm-tf.

    Raises:
        CheckpointError: A file is missing or damaged, or was not written with Adagrad.
        ConfigError: A field of the options is missing or wrong.
    """
    if not Path(directory).is_dir():
        raise CheckpointError(f"{directory}: no such directory")
    finding = find(Path(directory))
    if finding.lacks:
        raise CheckpointError(
            f"{directory}: no training checkpoint of bilm-tf: it lacks {', '.join(finding.lacks)}"
        )
    options = read_options(finding.files["options"])
    bundle = tensor_bundle.read_index(finding.files["index"])
    bundle.check_lengths()
    rows = _rows(_config(options, bundle), bundle)
    stored = {
        name.removesuffix(_ACCUMULATOR): entry
        for name, entry in bundle.stored.items()
        if name.endswith(_ACCUMULATOR)
    }
    where = f"{bundle.path} ({_ACCUMULATOR.strip('/')})"
    if not stored:
        raise CheckpointError(
            f"{where}: no tensor has an accumulator; training with Adagrad cannot go on from here"
        )
    table.account(table.expected(rows), stored, where=where, reason=options.path.name)
    read = table.import_tensors(rows, lambda name: bundle.read(name + _ACCUMULATOR), where=where)
    accumulators = {name: tensor.abs() for name, tensor in read.items()}
    for name in (layout.WORDS, f"{layout.CHARACTERS}.embedding.weight"):
        if name in accumulators:
            accumulators[name][0] = _INITIAL_ACCUMULATOR
    return OptimizerState(step=_read_step(bundle), accumulators=accumulators)


def _find_index(directory: Path) -> Path | list[str]:
    """Returns the index that is meant, or in words what is missing."""
    state = directory / CHECKPOINT
    named = None
    if state.is_file():
        with state.open("rb") as file:
            match = _NAMED.search(file.read(2**16))  # the first line, if it is that kind of file
        if match:
            base = re.split(r"[/\\]", match[1].decode("utf-8", "replace"))[-1]
            named = directory / f"{base}{tensor_bundle.SUFFIX}"
            if named.is_file():
                return named
    # Without `checkpoint`, not every index is one of TensorFlow's.
    pattern = f"*{tensor_bundle.SUFFIX}" if state.is_file() else f"*.ckpt*{tensor_bundle.SUFFIX}"
    indexes = candidates(directory, [pattern])
    if len(indexes) == 1:
        if named:
            logger.warning(
                "%s names %s, which is not there; the only one, %s, is read",
                state,
                named.name,
                indexes[0].name,
            )
        return indexes[0]
    if named:
        return [named.name]
    if indexes:
        return [f'{CHECKPOINT} with model_checkpoint_path: ".." (one of {names(indexes)})']
    return [CHECKPOINT, f"model.ckpt-*{tensor_bundle.SUFFIX}"]


def _config(options: Options, bundle: Bundle) -> BiLMConfig:
    _check_is_model(options, bundle)
    softmax_words = _num_rows(bundle, _SOFTMAX_BIAS)
    table_rows = softmax_words
    if options.char_cnn:
        table_rows = _num_rows(bundle, _CHARACTERS)
        check_characters(options, bundle.path, table_rows)
    return options.config(
        table_rows=table_rows,
        token_projection=any(name.startswith(f"{_PREFIX}CNN_proj/") for name in bundle.entries),
        recurrent_projection=_cell(0, 0, bundle).projection in bundle,
        softmax_words=softmax_words,
    )


def _check_is_model(options: Options, bundle: Bundle) -> None:
    """Refuses tensors of something else, and those that the options do not belong to."""
    for name in (_SOFTMAX_BIAS, _cell(0, 0, bundle).kernel):
        if name not in bundle:
            raise CheckpointError(
                f"{bundle.path}: has no {name!r}; it is no training checkpoint of bilm-tf"
            )
    if _cell(1, 0, bundle).kernel not in bundle:
        raise CheckpointError(
            f"{bundle.path}: holds the forward direction only; train with bidirectional: true"
        )
    needed = _CHARACTERS if options.char_cnn else _WORDS
    if needed not in bundle:
        has = "a block" if options.char_cnn else "no block"
        raise CheckpointError(
            f"{bundle.path}: has no {needed!r}, but {options.path.name} has {has} char_cnn; they "
            "are of different models"
        )


def _rows(config: BiLMConfig, bundle: Bundle) -> list[Row]:
    rows = bilm_table.rows(config, lambda d, i: _cell(d, i, bundle), prefix=_PREFIX)
    weight, bias = f"{layout.SOFTMAX}.weight", f"{layout.SOFTMAX}.bias"
    assert config.softmax_words is not None
    if config.words and _SOFTMAX_WEIGHT not in bundle:
        logger.info("%s: the word table is the softmax too; it is copied", bundle.path)
        rows[0] = Row((layout.WORDS, weight), rows[0].foreign, _SHARED)
    else:
        shape = (config.softmax_words, config.lstm.projection_dim)
        rows.append(row(weight, _SOFTMAX_WEIGHT, shape))
    return [*rows, row(bias, _SOFTMAX_BIAS, (config.softmax_words,))]


def _cell(direction: int, index: int, bundle: Bundle) -> bilm_table.Cell:
    place = f"{_PREFIX}RNN_{direction}/rnn"
    group = f"{place}/multi_rnn_cell/cell_{index}/lstm_cell"
    if index == 0 and f"{group}/kernel" not in bundle:
        group = f"{place}/lstm_cell"
    return bilm_table.Cell(f"{group}/kernel", f"{group}/bias", f"{group}/projection/kernel")


def _num_rows(bundle: Bundle, name: str) -> int:
    return next(iter(bundle.entries[name].shape), 1)


def _read_step(bundle: Bundle) -> int:
    if _STEP not in bundle:
        raise CheckpointError(f"{bundle.path}: {_STEP} is missing; where training stopped is lost")
    entry = bundle.entries[_STEP]
    number = bundle.read(_STEP) if entry.shape == () else None
    if number is None or not number.isfinite() or number < 0:
        raise CheckpointError(f"{bundle.path}: {_STEP} is no number of updates")
    return int(number)
