"""A run's YAML file, and settings given beside it."""

import re
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elmokit.errors import ConfigError
from elmokit.extras import needed
from elmokit.training.config import DataSection, TrainConfig

_SECTIONS = ("data", "model", "objective", "optimizer", "schedule")
"""Those that may stand in a file with nothing in them."""

_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$")
"""1e-3, which is a number to everybody but YAML 1.1."""


_MERGE = "tag:yaml.org,2002:merge"
"""`<<`, which takes over the settings of another section and stands for no key."""


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
    data = read_settings(path)
    for section in _SECTIONS:
        if section in data and data[section] is None:
            del data[section]
    apply_settings(data, settings)
    _wrap_lists(data)
    return TrainConfig.from_dict(data, where=f"{path} with --set" if settings else str(path))


def read_settings(path: Path) -> dict[str, Any]:
    """Reads a YAML file of named settings and sections of them.

    Raises:
        ConfigError: The file cannot be read or holds something else.
        MissingExtraError: pyyaml is not installed.
    """
    data = _load(_read(path), str(path))
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected sections such as 'data:', found {type(data).__name__}")
    return data


def apply_settings(data: dict[str, Any], settings: Sequence[str]) -> None:
    """Sets each `key=value` in nested settings, with sections joined by dots.

    Raises:
        ConfigError: A setting is not of that form.
        MissingExtraError: pyyaml is not installed.
    """
    for setting in settings:
        _set(data, setting)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: byte {error.start + 1} is not UTF-8; save it as UTF-8"
        ) from None


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
    data[name] = _load(value, f"--set {setting}")


def _wrap_lists(data: dict[str, Any]) -> None:
    """Takes one text for a list of one, where a list of texts is expected."""
    section = data.get("data")
    if isinstance(section, dict):
        for name, kind in typing.get_type_hints(DataSection).items():
            if kind == tuple[str, ...] and isinstance(section.get(name), str):
                section[name] = [section[name]]


def _load(text: str, where: str) -> Any:
    with needed("yaml", f'{where}: reading YAML needs pyyaml; pip install "elmokit[train]"'):
        import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # yaml has no types
        """YAML with 1e-3 as a number, and without keys that silently win over others."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            nodes = [key for key, _ in node.value if key.tag != _MERGE]
            keys = [self.construct_object(key, deep=True) for key in nodes]
            for number, key in enumerate(keys):
                if key in keys[:number]:
                    line = nodes[number].start_mark.line + 1
                    raise ConfigError(f"{where}: line {line}: {key!r} stands there twice")
            return super().construct_mapping(node, deep)  # type: ignore[no-any-return]

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+0123456789"))
    try:
        return yaml.load(text, Loader)
    except ConfigError:
        raise
    except (
        yaml.YAMLError,
        ValueError,
        RecursionError,
    ) as error:  # ValueError: the 30th of February
        raise ConfigError(f"{where}: no valid YAML: {' '.join(str(error).split())}") from None
