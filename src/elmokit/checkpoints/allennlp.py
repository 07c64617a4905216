"""AllenNLP and bilm-tf: options.json + HDF5 weights; archives of NLPL and SeqVec hold the same.

Peculiarities that are kept, with their reasons:

- Row i of `char_embed` and of `embedding` belongs to id i + 1. The programs add the row of id 0,
  which is zero, when they load; it is never stored.
- `n_characters` is 261 in options written by training and has to be 262 for inference. The rows of
  the file decide: both numbers, and none, are read; 262 is written.
- TensorFlow stores weights as x @ W and gates as i, j, f, o. It adds 1.0 to f when the model runs,
  which is not in the file: `lstm.forget_bias` is 1.0.
- A carry gate of the file weighs the non-linear part, a native one the input: the one is the other
  with its sign changed.
- A clip of null, of 0, and none at all mean no limit, as in AllenNLP.
- bilm-tf leaves out `CNN_proj` if there are as many filters as the projection is wide, and `W_P_0`
  if the cell is that wide. Files that have them all the same (AllenNLP wants them) are read so.
- `use_skip_connections` left out means none, as in bilm-tf's training.
- bilm-tf's dump of a model of one layer has `RNN/LSTMCell` for `RNN/MultiRNNCell/Cell0/LSTMCell`.
- Without `char_cnn` in the options a model reads word ids: line of the word list + 1.
"""

import dataclasses
import logging
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor

from elmokit.characters import ByteAlphabet
from elmokit.checkpoints import bilm_table, hdf5, layout, table
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
from elmokit.checkpoints.bilm_options import FORGET_BIAS, Options, options_of, read_options
from elmokit.checkpoints.checkpoint import Checkpoint
from elmokit.checkpoints.files import (
    Finding,
    candidates,
    names,
    read_text,
    split_words,
    write_json,
    write_words,
)
from elmokit.checkpoints.hdf5 import Datasets
from elmokit.checkpoints.nlpl import read_card
from elmokit.config import BiLMConfig, Card
from elmokit.errors import CheckpointError
from elmokit.vocabulary import BEGIN, END, UNKNOWN, InputWords, Vocabulary

logger = logging.getLogger(__name__)

WEIGHTS = "weights.hdf5"

_ALLENNLP_CHARACTERS = 50
"""`max_characters` of AllenNLP's indexer, whatever the options say."""

_WEIGHTS_NAMES = (
    ["*weights*.hdf5", "*weights*.h5", "model.hdf5", "model.h5"],
    ["*.hdf5", "*.h5"],
)

_MODEL = re.compile(r"char_embed|(RNN_\d|CNN|CNN_high_\d+|CNN_proj)/.*")
"""Datasets that tell a model from other HDF5 files."""
_TOKEN_ENCODER = re.compile(r"char_embed|embedding|(CNN|CNN_high_\d+|CNN_proj)/.*")
"""Datasets that `token_embeddings=` takes the place of."""


def find(directory: Path) -> Finding:
    """Finds the files of a model in this format, or what is missing of them.

    Raises:
        CheckpointError: Several files could be meant.
    """
    options, weights = (
        candidates(directory, *OPTIONS_NAMES),
        candidates(directory, *_WEIGHTS_NAMES),
    )
    lacks = [] if options else [f"{OPTIONS} (or one *options*.json)"]
    lacks += [] if weights else [f"{WEIGHTS} (or one *weights*.hdf5, model.hdf5)"]
    if lacks:
        return Finding({path.name: path for path in (*options, *weights)}, tuple(lacks))
    if len(options) > 1 or len(weights) > 1:
        raise CheckpointError(
            f"{directory}: several files could be the model ({names(options)}; {names(weights)}); "
            "leave one pair in the directory, or give the pair from Python: options= and weights="
        )
    files = {"options": options[0], "weights": weights[0]}
    vocabularies = candidates(directory, *VOCABULARY_NAMES)
    if len(vocabularies) == 1:
        files["vocab"] = vocabularies[0]
    if (directory / META).is_file():
        files["meta"] = directory / META
    return Finding(files)


def read(files: Mapping[str, Path]) -> Checkpoint:
    """Reads a model.

    Args:
        files: `options`, `weights`, and if there are any `vocab`, `token_embeddings` (vectors for
            the lines of `vocab`, which take the place of the character CNN) and `meta`.

    Raises:
        CheckpointError: A file is damaged or is something else, or two files contradict.
        ConfigError: A field of the options is missing or wrong.
    """
    options = read_options(files["options"])
    words = split_words(read_text(files["vocab"])) if "vocab" in files else None
    provenance = f"AllenNLP, bilm-tf ({files['options'].name}, {files['weights'].name})"
    card = read_card(files["meta"], provenance) if "meta" in files else Card(provenance=provenance)
    with hdf5.opened(files["weights"]) as weights:
        _check_is_model(weights)
        if "token_embeddings" in files:
            config, tensors = _read_cached(options, weights, files["token_embeddings"])
        else:
            config, tensors = _read_whole(options, weights)
    return Checkpoint(
        config=config,
        tensors=tensors | layout.zero_state(config.lstm),
        alphabet=alphabet(config),
        words=_input_words(files, words, config.words.num_words) if config.words else None,
        vocabulary=None if words is None else Vocabulary(words),
        card=card,
    )


def write(checkpoint: Checkpoint, directory: Path) -> None:
    """Writes options.json, weights.hdf5, and vocab.txt if it is known, into an empty directory.

    The format has no place for a card, a softmax and a calibrated initial state, which are dropped
    with a warning. bilm-tf, simple_elmo and elmokit read every pair; of one that AllenNLP itself
    does not read, or reads otherwise, the log says so.

    Raises:
        CheckpointError: The format cannot express the model.
    """
    config = checkpoint.config
    if reasons := _obstacles(checkpoint):
        raise CheckpointError(
            f"the AllenNLP format cannot express this model: {'; '.join(reasons)}"
        )
    table.account(
        layout.shapes(config),
        table.stored(checkpoint.tensors),
        where="checkpoint",
        reason="its config",
    )
    if config.softmax_words is not None:
        warnings.warn(
            "the AllenNLP format has no place for the softmax of the language model; it is dropped",
            stacklevel=2,
        )
    if any(checkpoint.tensors[name].any() for name in layout.state_shapes(config.lstm)):
        warnings.warn(
            "the AllenNLP format has no place for a calibrated initial state; it is dropped",
            stacklevel=2,
        )
    if told := _told(checkpoint.card):
        logger.warning("the AllenNLP format has no place for the card (%s); it is dropped", told)
    if strange := _strange_to_allennlp(config):
        logger.warning("AllenNLP itself does not read this pair as it is meant: %s", strange)
    words = checkpoint.words.words if checkpoint.words else None
    if checkpoint.vocabulary is not None:
        if words is not None and tuple(checkpoint.vocabulary.words) != words:
            raise CheckpointError(
                "the AllenNLP format has one word list; this model's input words and training "
                "vocabulary differ"
            )
        words = tuple(checkpoint.vocabulary.words)
    rows = bilm_table.rows(config, _cell)
    write_json(directory / OPTIONS, options_of(config))
    hdf5.write(directory / WEIGHTS, table.export_tensors(rows, checkpoint.tensors))
    if words is not None:
        write_words(directory / VOCABULARY, words, split_words)


def _read_whole(options: Options, weights: Datasets) -> tuple[BiLMConfig, dict[str, Tensor]]:
    """Reads a model whose tensors are all in the weights file."""
    name = "char_embed" if options.char_cnn else "embedding"
    if name not in weights:
        raise CheckpointError(f"{weights.path}: {_no_table(options, weights)}")
    if options.char_cnn:
        check_characters(options, weights.path, _num_rows(weights, name))
    config = _config(options, weights, _num_rows(weights, name))
    rows = bilm_table.rows(config, _cell_names(weights))
    return config, _account_and_import(rows, weights, options)


def _read_cached(
    options: Options, weights: Datasets, path: Path
) -> tuple[BiLMConfig, dict[str, Tensor]]:
    """Reads the LSTM from the weights file, and word vectors from a file of token embeddings."""
    options = dataclasses.replace(options, char_cnn=None)
    with hdf5.opened(path) as cached:
        if "embedding" not in cached:
            raise CheckpointError(
                f"{path}: has no dataset 'embedding'; it is no file of token embeddings"
            )
        config = _config(options, weights, _num_rows(cached, "embedding"))
        words, *lstm = bilm_table.rows(config, _cell_names(weights))
        tensors = _account_and_import([words], cached, options)
    return config, tensors | _account_and_import(lstm, weights, options, dropped=_TOKEN_ENCODER)


def _config(options: Options, weights: Datasets, table_rows: int) -> BiLMConfig:
    return options.config(
        table_rows=table_rows,
        token_projection=any(name.startswith("CNN_proj/") for name in weights.stored),
        recurrent_projection=any(name.endswith("/W_P_0") for name in weights.stored),
    )


def _cell(direction: int, index: int) -> bilm_table.Cell:
    group = f"RNN_{direction}/RNN/MultiRNNCell/Cell{index}/LSTMCell"
    return bilm_table.Cell(f"{group}/W_0", f"{group}/B", f"{group}/W_P_0")


def _lone_cell(direction: int, index: int) -> bilm_table.Cell:
    if index > 0:  # which is missing then, and must not be the first one again
        return _cell(direction, index)
    group = f"RNN_{direction}/RNN/LSTMCell"
    return bilm_table.Cell(f"{group}/W_0", f"{group}/B", f"{group}/W_P_0")


def _cell_names(weights: Datasets) -> Callable[[int, int], bilm_table.Cell]:
    return _lone_cell if _lone_cell(0, 0).kernel in weights else _cell


def _account_and_import(
    rows: list[table.Row],
    datasets: Datasets,
    options: Options,
    *,
    dropped: re.Pattern[str] | None = None,
) -> dict[str, Tensor]:
    where = str(datasets.path)
    wanted = table.expected(rows)
    table.account(wanted, datasets.stored, where=where, reason=options.path.name, dropped=dropped)
    return table.import_tensors(rows, datasets.read, where=where)


def _num_rows(datasets: Datasets, name: str) -> int:
    return next(iter(datasets.stored[name].shape), 1)


def _check_is_model(weights: Datasets) -> None:
    """Refuses a file of something else, above all of computed embeddings."""
    if any(_MODEL.fullmatch(name) for name in weights.stored):
        return
    needed = "give the file of weights that the model was published with"
    if set(weights.stored) == {"embedding"}:
        raise CheckpointError(
            f"{weights.path}: holds token embeddings only; {needed}, and this file as "
            "token_embeddings="
        )
    looks = [
        name
        for name, (shape, _) in weights.stored.items()
        if name.isdecimal() or name == "sentence_to_index" or len(shape) > 1
    ]
    found = ", ".join(repr(name) for name in (looks or list(weights.stored))[:3]) or "nothing"
    what = (
        f"computed embeddings (datasets {found}, ..), not a model"
        if looks
        else f"no model ({found})"
    )
    raise CheckpointError(f"{weights.path}: holds {what}; {needed}")


def _no_table(options: Options, weights: Datasets) -> str:
    """Says what to do about a file without the table that the options ask for."""
    name = options.path.name
    if options.char_cnn:
        return f"has no 'char_embed', but {name} has a block char_cnn; they are of different models"
    if "char_embed" in weights:
        return f"reads characters ('char_embed'), but {name} has no block char_cnn; complete {name}"
    return (
        f"has neither 'char_embed' nor 'embedding'; {name} has no block char_cnn, so this is one "
        "of word ids: give its word vectors as token_embeddings= and its word list as vocab="
    )


def _input_words(files: Mapping[str, Path], words: tuple[str, ...] | None, rows: int) -> InputWords:
    path = files.get("token_embeddings", files["weights"])
    if words is None:
        raise CheckpointError(
            f"{path}: this model reads word ids and needs its word list ({VOCABULARY}, or vocab=): "
            f"one word a line for the {rows} rows of 'embedding'"
        )
    if len(words) != rows:
        raise CheckpointError(
            f"{files['vocab']} has {len(words)} words, 'embedding' of {path} has {rows} rows; the "
            "two belong to different models"
        )
    return input_words(words, files["vocab"])


def _obstacles(checkpoint: Checkpoint) -> list[str]:
    """Returns why a model cannot be written in this format."""
    config, words = checkpoint.config, checkpoint.words
    reasons = []
    if checkpoint.alphabet is not None and not isinstance(checkpoint.alphabet, ByteAlphabet):
        reasons.append("its alphabet is one of Unicode characters, the format has bytes only")
    if config.lstm.kind == "stacked":
        reasons.append("its LSTM is a stacked one, the format has projected ones only")
    elif config.lstm.forget_bias != FORGET_BIAS:
        reasons.append(
            f"its forget bias is {config.lstm.forget_bias}, the format implies {FORGET_BIAS}"
        )
    if config.characters and config.words:
        reasons.append("it reads characters and words, the format has one of them")
    elif config.words and config.token_projection:
        reasons.append("it projects its word vectors, the format has no such projection")
    if words and (words.begin, words.end, words.unknown) != (BEGIN, END, UNKNOWN):
        reasons.append(f"its special words are not {BEGIN}, {END}, {UNKNOWN}")
    if words and words.max_characters is not None:
        reasons.append("it cuts words before the look-up")
    return reasons


def _told(card: Card) -> str:
    """Returns the fields of a card that tell something, but for where the weights came from."""
    values, empty = card.to_dict(), Card(provenance=card.provenance).to_dict()
    return ", ".join(name for name in values if values[name] != empty[name])


def _strange_to_allennlp(config: BiLMConfig) -> str:
    """Returns why AllenNLP fails at a pair of this format, or reads it otherwise."""
    cnn, lstm = config.characters, config.lstm
    reasons = []
    if cnn is None:
        reasons.append("it reads word ids, AllenNLP characters only")
    elif not config.token_projection:
        reasons.append("it has no projection after its filters, since they are as many")
    if not lstm.recurrent_projection:
        reasons.append("its LSTM has no projection, since cell_dim is projection_dim")
    if not lstm.skip_connections:
        reasons.append("it has no skip connections")
    if cnn is not None and cnn.max_characters != _ALLENNLP_CHARACTERS:
        reasons.append(
            f"it keeps {cnn.max_characters} bytes of a token, AllenNLP {_ALLENNLP_CHARACTERS}, so "
            "that longer tokens get other vectors"
        )
    return "; ".join(reasons)
