"""`elmo analyze`, the analyses of task models: what ELMo adds to them, and where and when."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from elmokit.analysis.defaults import FRACTIONS, LAMBDAS
from elmokit.cli.reporting import ReportSettings, tell
from elmokit.cli.task import RunSettings, read_run

_MODELS = tyro.conf.arg(metavar="MODEL...")


@dataclass(frozen=True, slots=True, kw_only=True)
class _SweepSettings(RunSettings):
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of weights, order of the examples and dropout; more may be added later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayersSettings(_SweepSettings):
    """Trains a task without ELMo, with its last layer, and with mixes of all (paper, table 2).

    The same command goes on with what was cut off; runs that are finished are kept.

    Example: elmo analyze layers ner --train train.conll --dev dev.conll -o layers
    """

    lambdas: tuple[float, ...] = LAMBDAS
    """Strengths of the pull towards an even mix, for the mixes of all layers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementSettings(_SweepSettings):
    """Trains a task with ELMo nowhere, at the input, the output, and both (paper, table 3).

    The same command goes on with what was cut off; runs that are finished are kept.

    Example: elmo analyze placement ner --train train.conll --dev dev.conll -o placement
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class EfficiencySettings(_SweepSettings):
    """Trains a task with and without ELMo on parts of the training set (paper, figure 1).

    The same command goes on with what was cut off; runs that are finished are kept.

    Example: elmo analyze efficiency ner --train train.conll --dev dev.conll -o efficiency
    """

    fractions: tuple[float, ...] = FRACTIONS
    """Parts of the training set, above 0 and up to 1; the whole is always among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsSettings(ReportSettings):
    """Shows what trained task models take from each layer (paper, figure 2).

    Example: elmo analyze weights runs/ner/model runs/tag/model -o weights
    """

    models: Annotated[tyro.conf.Positional[tuple[Path, ...]], _MODELS]
    """Directories of trained task models."""


def layers(settings: LayersSettings) -> None:
    """Compares layers and prints the scores."""
    from elmokit.analysis.layers import compare_layers

    task, base = read_run(settings)
    report = compare_layers(
        task, base, settings.folder, seeds=settings.seeds, lambdas=settings.lambdas
    )
    tell(report, settings.folder)


def placement(settings: PlacementSettings) -> None:
    """Compares places and prints the scores."""
    from elmokit.analysis.placement import compare_places

    task, base = read_run(settings)
    tell(compare_places(task, base, settings.folder, seeds=settings.seeds), settings.folder)


def efficiency(settings: EfficiencySettings) -> None:
    """Measures scores by the size of the training set and prints them."""
    from elmokit.analysis.efficiency import measure_efficiency

    task, base = read_run(settings)
    report = measure_efficiency(
        task, base, settings.folder, seeds=settings.seeds, fractions=settings.fractions
    )
    tell(report, settings.folder)


def weights(settings: WeightsSettings) -> None:
    """Reads weights of layers and prints them."""
    from elmokit.analysis.output import check_folder
    from elmokit.analysis.weights import read_weights

    if settings.folder is not None:
        check_folder(settings.folder, "weights", overwrite=settings.overwrite)
    tell(read_weights(settings.models), settings.folder)
