"""`elmo train`: a model from text."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings:
    """Trains a biLM, or fine-tunes one, as a YAML file says.

    Example: elmo train config.yaml --set schedule.epochs=5
    """

    config: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="CONFIG.yaml")]
    """The run's YAML file."""
    set: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="KEY=VALUE")
    ] = field(default=())
    """A setting that wins over the file, such as schedule.batch_size=32; may be repeated."""
    resume: bool = False
    """Go on with the run from its last checkpoint."""


def run(settings: TrainSettings) -> None:
    """Trains; what happens is logged."""
    from elmokit.training.configfile import read_config
    from elmokit.training.pretrain import pretrain

    pretrain(read_config(settings.config, settings.set), resume=settings.resume)
