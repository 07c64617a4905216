"""A trained task model as a directory.

config.json         schema_version, task, the run's configuration, and which biLM it needs
model.safetensors   its tensors, float32: mix weights of ELMo too, but no biLM
lists.json          the words, tags and labels that it numbers
bilm/               the fine-tuned biLM in elmokit's own format, if there is one
"""

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from elmokit.checkpoints import table
from elmokit.checkpoints.files import expanded, read_json, reason, write_json
from elmokit.config import Section, parse
from elmokit.embedding.devices import find_device
from elmokit.errors import CheckpointError
from elmokit.model import BiLM
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.elmo_at import ElmoAt
from elmokit.tasks.fingerprint import fingerprint
from elmokit.tasks.registry import get_task
from elmokit.tasks.task import Lists, Task, TaskModel

SCHEMA_VERSION = 1
CONFIG, TENSORS, LISTS, BILM = "config.json", "model.safetensors", "lists.json", "bilm"

_BILM_PREFIX = "elmo.bilm."


@dataclass(frozen=True, slots=True, kw_only=True)
class BiLMNeeded(Section):
    """The biLM that a task model was trained with."""

    fingerprint: str | None
    """What its vectors depend on; null for a fine-tuned one, which lies beside the model."""
    state: str
    """fresh: every sentence starts from the biLM's initial state."""
    dim: int
    """Width of its vectors."""
    num_outputs: int
    """Layers that a word has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A task model with what it needs to read, predict and write."""

    task: Task[Any, Any]
    config: TaskConfig
    lists: Lists
    model: TaskModel[Any, Any]
    bilm: BiLMNeeded | None
    """What it asks of a biLM; None without ELMo."""


def new_model(task: Task[Any, Any], config: TaskConfig, lists: Lists) -> Trained:
    """Builds a model from the seed of its configuration.

    Raises:
        CheckpointError: The biLM cannot be loaded.
        ConfigError: The settings do not fit each other or the biLM.
    """
    bilm = BiLM.from_pretrained(config.elmo.model) if config.elmo.places else None
    needed = None if bilm is None else _needed(bilm, config)
    torch.manual_seed(config.seed)
    return _build(task, config, lists, bilm, needed)


def save(trained: Trained, directory: Path) -> None:
    """Writes a model into a directory, which is made.

    Raises:
        OSError, safetensors.SafetensorError: The disk is full or refuses.
        CheckpointError: The fine-tuned biLM cannot be written.
    """
    directory.mkdir()
    needed = None if trained.bilm is None else trained.bilm.to_dict()
    write_json(
        directory / CONFIG,
        {
            "schema_version": SCHEMA_VERSION,
            "task": trained.task.name,
            "config": trained.config.to_dict(),
            "bilm": needed,
        },
    )
    write_json(directory / LISTS, trained.lists)
    tensors = {name: tensor.cpu().contiguous() for name, tensor in _own(trained.model).items()}
    safetensors.torch.save_file(tensors, directory / TENSORS, metadata={"format": "pt"})
    elmo = trained.model.elmo
    if elmo is not None and elmo.bilm is not None:
        elmo.bilm.save_pretrained(directory / BILM)


def load(
    path: str | os.PathLike[str],
    *,
    task: str | None = None,
    device: str = "auto",
    elmo: str | None = None,
) -> Trained:
    """Reads a model that `save` wrote, in evaluation mode.

    Args:
        path: Its directory.
        task: The task that it must be of.
        device: Where it is to compute.
        elmo: Where its frozen biLM is now; by default where it was in training.

    Raises:
        CheckpointError: A file is missing or damaged, the model is of another task, or the biLM is
            not the one it was trained with.
        ConfigError: The device is unknown.
    """
    directory = expanded(path)
    found, config, needed = read_config(directory)
    if task is not None and found.name != task:
        raise CheckpointError(f"{path}: is a model for {found.name}, not for {task}")
    if elmo is not None:
        config = dataclasses.replace(config, elmo=dataclasses.replace(config.elmo, model=elmo))
    config = dataclasses.replace(config, device=device)
    lists = {
        name: parse(tuple[str, ...], entries, f"{directory / LISTS}: {name}")
        for name, entries in read_json(directory / LISTS).items()
    }
    bilm = None if needed is None else _bilm(directory, config, needed)
    try:
        trained = _build(found, config, lists, bilm, needed)
    except KeyError as error:
        raise CheckpointError(f"{directory / LISTS}: the list {error} is missing") from None
    _restore(trained.model, directory)
    trained.model.eval()
    return trained


def read_config(directory: Path) -> tuple[Task[Any, Any], TaskConfig, BiLMNeeded | None]:
    """Reads what a model in a directory is, and what it asks of a biLM; None without ELMo.

    Raises:
        CheckpointError: There is no model, or it is damaged.
        ConfigError: A field is not what it should be.
    """
    if not (directory / CONFIG).is_file():
        raise CheckpointError(f"{directory}: no task model: {CONFIG} is missing")
    data = read_json(directory / CONFIG)
    where = str(directory / CONFIG)
    version = parse(int, data.get("schema_version"), f"{where}: schema_version")
    if version > SCHEMA_VERSION:
        raise CheckpointError(
            f"{where}: schema_version: {version} is newer than this elmokit reads "
            f"({SCHEMA_VERSION}); upgrade elmokit"
        )
    task = get_task(parse(str, data.get("task"), f"{where}: task"))
    config = task.config.from_dict(data.get("config", {}), where=f"{where}: config")
    return task, config, parse(BiLMNeeded | None, data.get("bilm"), f"{where}: bilm")  # type: ignore[arg-type]  # a union is no type


def read_tensors(directory: Path) -> dict[str, Tensor]:
    """Reads the tensors of a model in a directory.

    Raises:
        CheckpointError: The file is missing or damaged.
    """
    path = directory / TENSORS
    try:
        return safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(
            f"{path}: the file is missing, truncated or damaged: {reason(error)}"
        ) from None


def _build(
    task: Task[Any, Any],
    config: TaskConfig,
    lists: Lists,
    bilm: BiLM | None,
    needed: BiLMNeeded | None,
) -> Trained:
    device = find_device(config.device)
    elmo = None if bilm is None else ElmoAt(bilm, config.elmo, device)
    model = task.build(config, lists, elmo).to(device)
    return Trained(task=task, config=config, lists=lists, model=model, bilm=needed)


def _needed(bilm: BiLM, config: TaskConfig) -> BiLMNeeded:
    return BiLMNeeded(
        fingerprint=None if config.elmo.trainable else fingerprint(bilm),
        state="fresh",
        dim=bilm.config.dim,
        num_outputs=bilm.config.num_outputs,
    )


def _bilm(directory: Path, config: TaskConfig, needed: BiLMNeeded) -> BiLM:
    if needed.fingerprint is None:
        return BiLM.from_pretrained(directory / BILM)
    source = config.elmo.model
    bilm = BiLM.from_pretrained(source)
    if fingerprint(bilm) != needed.fingerprint:
        raise CheckpointError(
            f"{directory}: was trained with another biLM than {source} is now; give the right one "
            "with --elmo"
        )
    return bilm


def _own(model: TaskModel[Any, Any]) -> dict[str, Tensor]:
    """Returns the tensors of a model that are no biLM's."""
    state = model.state_dict()
    return {name: tensor for name, tensor in state.items() if not name.startswith(_BILM_PREFIX)}


def _restore(model: TaskModel[Any, Any], directory: Path) -> None:
    tensors, path = read_tensors(directory), directory / TENSORS
    wanted = {name: tuple(tensor.shape) for name, tensor in _own(model).items()}
    table.account(wanted, table.stored(tensors), where=str(path), reason=CONFIG)
    model.load_state_dict(tensors, strict=False)
