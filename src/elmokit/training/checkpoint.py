"""The state of a run on disk, so that it goes on bit for bit, and what may differ when it does."""

from collections.abc import Set
from pathlib import Path
from typing import Any

import torch

from elmokit.checkpoints.files import reason
from elmokit.config import Section
from elmokit.embedding.manifest import move_into_place
from elmokit.errors import CheckpointError, OutputError
from elmokit.training.config import MAY_CHANGE

CHECKPOINT = "checkpoint.pt"
"""Name of the file in a run's directory."""

VERSION = 1


def save(run_dir: Path, config: Section, content: dict[str, Any]) -> None:
    """Puts a checkpoint in the place of the last one; a crash leaves one or the other.

    Args:
        run_dir: The run's directory.
        config: The run.
        content: Tensors, numbers, texts, and lists and dicts of them.

    Raises:
        OutputError: The disk is full or refuses; the last checkpoint is kept.
    """
    path = run_dir / CHECKPOINT
    temporary = path.with_name(f"{CHECKPOINT}.tmp")
    try:
        with temporary.open("wb") as file:
            torch.save({"version": VERSION, "config": config.to_dict(), **content}, file)
        move_into_place(temporary, path)
    except (OSError, RuntimeError) as error:
        temporary.unlink(missing_ok=True)
        raise OutputError(
            f"{path}: cannot be written ({_disk_reason(error)}); the last checkpoint is kept: "
            "free some space, then go on with --resume"
        ) from None


def load(run_dir: Path, config: Section, *, may_change: Set[str] = MAY_CHANGE) -> dict[str, Any]:
    """Reads a checkpoint for a run that goes on.

    Args:
        run_dir: The run's directory.
        config: The run as it is to go on.
        may_change: Settings that may differ.

    Raises:
        CheckpointError: There is none, or it is damaged.
        OutputError: A setting differs that must not; the message has each, then and now.
    """
    path = run_dir / CHECKPOINT
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no checkpoint to resume; start without --resume")
    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        version, began = content["version"], content["config"]
    except Exception as error:  # the kinds of damage that torch.load meets are many
        raise CheckpointError(
            f"{path}: truncated or damaged ({reason(error)}); begin a new run"
        ) from None
    if version != VERSION:
        raise CheckpointError(f"{path}: version {version}, this elmokit reads {VERSION}")
    check_settings(run_dir, began, config, may_change=may_change)
    return content


def check_settings(
    run_dir: Path, began: dict[str, Any], config: Section, *, may_change: Set[str] = MAY_CHANGE
) -> None:
    """Makes sure that a run goes on as it began.

    Args:
        run_dir: The run's directory.
        began: `to_dict` of the configuration it began with.
        config: The run as it is to go on.
        may_change: Settings that may differ.

    Raises:
        OutputError: A setting differs that must not; the message has each, then and now.
    """
    changes = differences(began, config.to_dict(), may_change=may_change)
    if changes:
        raise OutputError(
            f"{run_dir}: cannot resume with other settings ({'; '.join(changes)}); change them "
            "back, or begin a new run with another run_dir"
        )


def differences(
    old: dict[str, Any], new: dict[str, Any], *, may_change: Set[str] = MAY_CHANGE
) -> list[str]:
    """Returns `key: old -> new` for each setting that differs and must not."""
    before, after = _flat(old), _flat(new)
    return [
        f"{key}: {before.get(key)} -> {after.get(key)}"
        for key in sorted({*before, *after})
        if key not in may_change and before.get(key) != after.get(key)
    ]


def _disk_reason(error: BaseException) -> str:
    """Returns what the disk said; torch's writer complains of its own position after that."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__context__
    return reason(cause or error)


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = _plain(value)
    return flat


def _plain(value: Any) -> Any:
    """Lists for tuples, which compare as unequal otherwise."""
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
