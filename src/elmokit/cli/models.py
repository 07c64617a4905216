"""`elmo info` and `elmo convert`: what a checkpoint is, and the same in another format."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from elmokit.cli.printing import say

_SOURCE = tyro.conf.arg(metavar="MODEL")


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoSettings:
    """Tells what a model is: its format, layers, input, tokeniser and licence.

    Example: elmo info my-elmo.zip
    """

    model: Annotated[tyro.conf.Positional[str], _SOURCE]
    """Directory, zip or tar file of a checkpoint, hub:owner/name, default or zh-hant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertSettings:
    """Writes a model in another format; no bit changes, unless float16 is asked for.

    Example: elmo convert my-elmo.zip my-elmo --to native
    """

    source: Annotated[tyro.conf.Positional[str], _SOURCE]
    """Directory, zip or tar file of a checkpoint, hub:owner/name, default or zh-hant."""
    target: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIRECTORY")]
    """Directory to make."""
    to: Literal["native", "allennlp"]
    """native: config.json and model.safetensors. allennlp: options.json and weights.hdf5."""
    dtype: Literal["float32", "float16"] = "float32"
    """Number format of the weights; float16 halves the file and rounds them (native only)."""


def info(settings: InfoSettings) -> None:
    """Prints the facts of a model."""
    from elmokit.info import describe

    facts = describe(settings.model)
    width = max(map(len, facts))
    for name, text in facts.items():
        say(f"{name:<{width}}  {text}")


def convert(settings: ConvertSettings) -> None:
    """Converts a model and says where it is."""
    from elmokit import checkpoints

    checkpoints.convert(settings.source, settings.target, to=settings.to, dtype=settings.dtype)
    say(f"{settings.target}: written as {settings.to}")
