"""elmokit's own format: config.json, model.safetensors and the word lists, complete in themselves.

config.json         schema_version, the fields of BiLMConfig, card
model.safetensors   the tensors of BiLMNetwork(config).state_dict() and of the softmax, float32
                    or float16
characters.json     the alphabet, if the model reads characters
words.json          the input words, if the model reads word ids
vocab.txt           the words of the training vocabulary, one a line, if they are known: those that
                    the softmax predicts, if there is one
activations.json    the range of what each matrix is multiplied with, if it was measured for int8;
                    a reader that does not know this file reads the same model
"""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from elmokit.characters import Alphabet, alphabet_from_dict
from elmokit.checkpoints import layout, table
from elmokit.checkpoints.checkpoint import Checkpoint
from elmokit.checkpoints.files import (
    Finding,
    read_json,
    read_text,
    reason,
    split_lines,
    write_json,
    write_words,
)
from elmokit.config import SCHEMA_VERSION, ActivationRanges, BiLMConfig, Card, parse
from elmokit.errors import CheckpointError
from elmokit.vocabulary import InputWords, Vocabulary

CONFIG, TENSORS, VOCABULARY = "config.json", "model.safetensors", "vocab.txt"
CHARACTERS, WORDS = "characters.json", "words.json"
ACTIVATIONS = "activations.json"

_OS_ERROR = re.compile(r"\(os error (\d+)\)")
"""How safetensors tells the number of an error of the system."""


def find(directory: Path) -> Finding:
    """Finds the files of a model in this format, or what is missing of them."""
    roles = {"config": CONFIG, "tensors": TENSORS}
    lacks = [name for name in roles.values() if not (directory / name).is_file()]
    if not lacks:
        data = read_json(directory / CONFIG)
        if "schema_version" not in data:
            lacks = [f"the field schema_version in {CONFIG}"]
        needed = {"characters": CHARACTERS, "words": WORDS, "softmax_words": VOCABULARY}
        for field, name in needed.items():
            if data.get(field) is not None:
                roles[field] = name
                lacks += [] if (directory / name).is_file() else [name]
    for role, name in (("vocab", VOCABULARY), ("activations", ACTIVATIONS)):
        if (directory / name).is_file():
            roles[role] = name
    return Finding({role: directory / name for role, name in roles.items()}, tuple(lacks))


def read(files: Mapping[str, Path]) -> Checkpoint:
    """Reads a model.

    Args:
        files: Role -> file, from `find`.

    Raises:
        CheckpointError: A file is damaged or newer than this version, or two files contradict.
        ConfigError: A field is unknown, missing or wrong.
    """
    config, card = _read_config(files["config"])
    path = files["tensors"]
    try:
        tensors = safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(
            f"{path}: the file is truncated or damaged: {reason(error)}"
        ) from None
    rows = _table(config)
    table.account(
        table.expected(rows), table.stored(tensors), where=str(path), reason=files["config"].name
    )
    vocabulary = Vocabulary(split_lines(read_text(files["vocab"]))) if "vocab" in files else None
    _check_vocabulary(config, vocabulary, str(files.get("vocab")))
    return Checkpoint(
        config=config,
        tensors=table.import_tensors(rows, tensors.__getitem__, where=str(path)),
        alphabet=_read_alphabet(files["characters"], config) if config.characters else None,
        words=_read_input_words(files["words"], config) if config.words else None,
        vocabulary=vocabulary,
        card=card,
        activations=_read_activations(files.get("activations")),
    )


def write(checkpoint: Checkpoint, directory: Path) -> None:
    """Writes a model into an empty directory.

    Raises:
        CheckpointError: The tensors or the vocabulary do not fit the configuration, or a word
            cannot be written.
    """
    config, rows = checkpoint.config, _table(checkpoint.config)
    table.account(
        table.expected(rows),
        table.stored(checkpoint.tensors),
        where="checkpoint",
        reason="its config",
    )
    _check_vocabulary(config, checkpoint.vocabulary, "checkpoint: its vocabulary")
    data = {"schema_version": SCHEMA_VERSION, **config.to_dict(), "card": checkpoint.card.to_dict()}
    write_json(directory / CONFIG, data)
    kept = {name: _portable(tensor) for name, tensor in checkpoint.tensors.items()}
    _save(kept, directory / TENSORS)
    shutil.copymode(
        directory / CONFIG, directory / TENSORS
    )  # safetensors lets its owner alone read
    if checkpoint.alphabet is not None:
        write_json(directory / CHARACTERS, checkpoint.alphabet.to_dict())
    if checkpoint.words is not None:
        write_json(directory / WORDS, checkpoint.words.to_dict())
    if checkpoint.vocabulary is not None:
        write_words(directory / VOCABULARY, checkpoint.vocabulary.words)
    if checkpoint.activations is not None:
        write_json(directory / ACTIVATIONS, checkpoint.activations.to_dict())


def _portable(tensor: Tensor) -> Tensor:
    """Returns a tensor as the file has it, whatever its device and layout."""
    dtype = torch.float16 if tensor.dtype == torch.float16 else torch.float32
    return tensor.detach().to("cpu", dtype).contiguous()


def _save(tensors: Mapping[str, Tensor], path: Path) -> None:
    try:
        safetensors.torch.save_file(dict(tensors), path, metadata={"format": "pt"})
    except safetensors.SafetensorError as error:
        number = _OS_ERROR.search(str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


def _table(config: BiLMConfig) -> list[table.Row]:
    return [table.row(name, name, shape) for name, shape in layout.shapes(config).items()]


def _read_config(path: Path) -> tuple[BiLMConfig, Card]:
    data = read_json(path)
    version = parse(int, data.pop("schema_version", None), f"{path}: schema_version")
    if version > SCHEMA_VERSION:
        raise CheckpointError(
            f"{path}: schema_version: {version} is newer than this elmokit reads "
            f"({SCHEMA_VERSION}); upgrade elmokit"
        )
    card = Card.from_dict(data.pop("card", {}), where=f"{path}: card")
    return BiLMConfig.from_dict(data, where=str(path)), card


def _read_alphabet(path: Path, config: BiLMConfig) -> Alphabet:
    alphabet = alphabet_from_dict(read_json(path), where=str(path))
    assert config.characters is not None
    if alphabet.num_characters > config.characters.num_characters:
        raise CheckpointError(
            f"{path}: its ids go up to {alphabet.num_characters}, but {CONFIG} has num_characters "
            f"{config.characters.num_characters}; the two belong to different models"
        )
    if alphabet.max_characters != config.characters.max_characters:
        raise CheckpointError(
            f"{path}: max_characters is {alphabet.max_characters}, but {CONFIG} has "
            f"{config.characters.max_characters}; the two belong to different models"
        )
    return alphabet


def _read_input_words(path: Path, config: BiLMConfig) -> InputWords:
    words = parse(InputWords, read_json(path), str(path))
    assert config.words is not None
    if len(words.words) != config.words.num_words:
        raise CheckpointError(
            f"{path} has {len(words.words)} words, {CONFIG} has num_words "
            f"{config.words.num_words}; the two belong to different models"
        )
    return words


def _read_activations(path: Path | None) -> ActivationRanges | None:
    return ActivationRanges.from_dict(read_json(path), where=str(path)) if path else None


def _check_vocabulary(config: BiLMConfig, vocabulary: Vocabulary | None, where: str) -> None:
    """Refuses a softmax without a word for each of its rows."""
    if config.softmax_words is None:
        return
    number = len(vocabulary.words) if vocabulary else 0
    if number != config.softmax_words:
        raise CheckpointError(
            f"{where} has {number} words, {CONFIG} has softmax_words {config.softmax_words}; the "
            "two belong to different models"
        )
