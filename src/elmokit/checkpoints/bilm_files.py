"""What bilm-tf's two formats have beside their tensors: file names, alphabet and word list.

Row i of a table belongs to id i + 1; a model without `char_cnn` in its options reads word ids, the
line of the word list + 1.
"""

import logging
from pathlib import Path

from elmokit.characters import ByteAlphabet
from elmokit.checkpoints.bilm_options import Options
from elmokit.config import BiLMConfig
from elmokit.errors import CheckpointError, ConfigError
from elmokit.vocabulary import InputWords

logger = logging.getLogger(__name__)

OPTIONS, VOCABULARY, META = "options.json", "vocab.txt", "meta.json"

OPTIONS_NAMES = ([OPTIONS], ["*options*.json"])
VOCABULARY_NAMES = ([VOCABULARY], [f"{VOCABULARY}.gz"], ["*vocab*.txt", "*vocab*.txt.gz"])
"""Patterns of names, the better ones first."""

_BYTES = ByteAlphabet.num_characters


def check_characters(options: Options, path: Path, rows: int) -> None:
    """Compares the rows of `char_embed` in a file with the alphabet and with the options.

    Raises:
        CheckpointError: There are too few rows, or the options say another number.
    """
    assert options.char_cnn is not None
    number = options.char_cnn.n_characters
    if rows < _BYTES:
        raise CheckpointError(
            f"{path}: char_embed has {rows} rows; the byte alphabet needs {_BYTES}"
        )
    if number not in (None, rows, rows + 1):
        raise CheckpointError(
            f"{options.path}: char_cnn: n_characters: {number} does not fit {path.name}, whose "
            f"char_embed has {rows} rows; set it to {rows + 1}"
        )
    if rows > _BYTES:
        logger.warning("%s: char_embed has %d rows; the byte alphabet uses %d", path, rows, _BYTES)


def alphabet(config: BiLMConfig) -> ByteAlphabet | None:
    """Returns the alphabet of a model, if it reads characters."""
    cnn = config.characters
    return ByteAlphabet(max_characters=cnn.max_characters) if cnn else None


def input_words(words: tuple[str, ...], path: Path) -> InputWords:
    """Returns the words of a list as a model's input.

    Raises:
        CheckpointError: A special word is not in the list.
    """
    try:
        return InputWords(words=words)
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from None
