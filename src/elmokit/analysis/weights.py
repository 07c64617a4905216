"""What task models learnt to take from each layer (paper, figure 2), read from saved models."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elmokit.analysis import task_drawing
from elmokit.analysis.output import Report
from elmokit.checkpoints.files import expanded
from elmokit.errors import CheckpointError, ConfigError
from elmokit.nn import ScalarMix
from elmokit.tasks import saved
from elmokit.tasks.elmo_at import mixed_layers
from elmokit.training.run_directory import MODEL


def read_weights(models: Sequence[str | os.PathLike[str]]) -> Report:
    """Reads the mixes of trained task models; no biLM is needed for it.

    Args:
        models: Their directories.

    Returns:
        The report. Its data have `mixes`, one for each place of each model: `model`, `label` (what
        tables and figures call it), `task`, `place`, `layers` (numbers, 0 is the token layer),
        `weights` (normalised, one a layer) and `gamma`.

    Raises:
        CheckpointError: A model is missing or damaged, or has no ELMo.
        ConfigError: There is no model, or a field of its configuration is not what it should be.
    """
    if not models:
        raise ConfigError("models: give at least one directory of a trained task model")
    mixes = [mix for model in models for mix in _mixes(os.fspath(model))]
    num_layers = 1 + max(layer for mix in mixes for layer in mix["layers"])
    heaviest = Counter(_heaviest(mix) for mix in mixes)
    layer, number = heaviest.most_common(1)[0]
    return Report(
        name="weights",
        summary=f"layer {layer} has the largest weight in {number} of {len(mixes)} mixes",
        header=("model", *(f"layer {layer}" for layer in range(num_layers)), "gamma"),
        rows=tuple(_row(mix, num_layers) for mix in mixes),
        data={"mixes": mixes},
        draw=lambda: task_drawing.weights(mixes, title="what is taken from each layer"),
    )


def _heaviest(mix: Mapping[str, Any]) -> int:
    """Returns the layer with the largest weight."""
    return int(mix["layers"][mix["weights"].index(max(mix["weights"]))])


def _row(mix: Mapping[str, Any], num_layers: int) -> tuple[str, ...]:
    weights = dict(zip(mix["layers"], mix["weights"], strict=True))
    cells = [f"{weights[layer]:.3f}" if layer in weights else "" for layer in range(num_layers)]
    return (mix["label"], *cells, f"{mix['gamma']:.3f}")


def _mixes(model: str) -> list[dict[str, Any]]:
    directory = expanded(model)
    task, config, bilm = saved.read_config(directory)
    if bilm is None:
        raise CheckpointError(
            f"{model}: has no weights of layers, for it reads no ELMo (elmo.at: none); give a "
            "model that was trained with ELMo"
        )
    layers = mixed_layers(config.elmo, bilm.num_outputs)
    tensors = saved.read_tensors(directory)
    mixes = []
    for place in config.elmo.places:
        mix = ScalarMix(len(layers))
        try:
            mix.load_state_dict(
                {name: tensors[f"elmo.mixes.{place}.{name}"] for name in mix.state_dict()}
            )
        except (KeyError, RuntimeError):
            raise CheckpointError(
                f"{directory / saved.TENSORS}: holds no mix of {len(layers)} layers for the {place}"
            ) from None
        mixes.append(
            {
                "model": model,
                "label": f"{_name(directory)}, {place}",
                "task": task.name,
                "place": place,
                "layers": list(layers),
                "weights": mix.normalized_weights.tolist(),
                "gamma": mix.gamma.item(),
            }
        )
    return mixes


def _name(directory: Path) -> str:
    """Returns what tells a model from others: the name of its run, if it lies in one."""
    place = directory.resolve()
    return place.parent.name if place.name == MODEL else place.name
