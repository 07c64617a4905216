"""A run's YAML file, and settings given beside it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elmokit.errors import ConfigError, MissingExtraError
from elmokit.training.config import TrainConfig

_LISTS = ("train", "heldout")
"""Fields of `data` for which one text stands for a list of one."""


def read_config(path: Path, settings: Sequence[str] = ()) -> TrainConfig:
    """Reads a run's configuration.

    Args:
        path: The YAML file. Paths in it count from the working directory.
        settings: `key=value`, with sections joined by dots, such as schedule.batch_size=32; they
            win over the file.

    Raises:
        ConfigError: The file cannot be read, or a setting is unknown (the nearest is named),
            missing or of a wrong type.
        MissingExtraError: pyyaml is not installed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: byte {error.start + 1} is not UTF-8; save it as UTF-8"
        ) from None
    data = _load(text, str(path))
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected sections such as 'data:', found {type(data).__name__}")
    for setting in settings:
        _set(data, setting)
    _wrap_lists(data)
    return TrainConfig.from_dict(data, where=str(path))


def _set(data: dict[str, Any], setting: str) -> None:
    key, equals, value = setting.partition("=")
    if not equals:
        raise ConfigError(f"--set {setting}: expected key=value, such as schedule.batch_size=32")
    *sections, name = key.split(".")
    for section in sections:
        if data.get(section) is None:
            data[section] = {}
        data = data[section]
        if not isinstance(data, dict):
            raise ConfigError(f"--set {setting}: {section} is no section")
    data[name] = _load(value, f"--set {key}")


def _wrap_lists(data: dict[str, Any]) -> None:
    section = data.get("data")
    if isinstance(section, dict):
        for name in _LISTS:
            if isinstance(section.get(name), str):
                section[name] = [section[name]]


def _load(text: str, where: str) -> Any:
    try:
        import yaml
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        raise MissingExtraError(
            f'{where}: reading YAML needs pyyaml; pip install "elmokit[train]"'
        ) from None

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # yaml has no types
        """Takes 1e-3 for a number, as everybody but YAML 1.1 does."""

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"),
        list("-+0123456789"),
    )
    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: no valid YAML: {' '.join(str(error).split())}") from None
