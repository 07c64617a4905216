"""Figures of what was trained: scores of set-ups, curves of learning, weights of layers."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from elmokit.analysis.drawing import COLORS, MARKERS, new_figure, shown, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GREY = "#666666"


def ranges(arms: Sequence[Mapping[str, Any]], *, title: str, axis: str) -> "Figure":
    """Draws the scores of set-ups: mean, lowest to highest, and each seed.

    Args:
        arms: `title`, `score` and `runs` of each; the first is the baseline.
        title: What stands above.
        axis: What the scores are.
    """
    with style():
        figure = new_figure(6.2, 0.42 * len(arms) + 1.1)
        axes = figure.add_subplot()
        for place, arm in enumerate(arms):
            score, color = arm["score"], COLORS[0] if place else _GREY
            axes.plot(
                [100 * score["lowest"], 100 * score["highest"]], [place, place], color=color, lw=2
            )
            seeds = [100 * run["score"] for run in arm["runs"]]
            axes.scatter(seeds, [place] * len(seeds), s=14, color=color, alpha=0.5, linewidths=0)
            mean = 100 * score["mean"]
            axes.scatter([mean], [place], s=46, color=color, zorder=3)
            axes.annotate(
                f"{mean:.1f}", (mean, place), (0, 6), textcoords="offset points", ha="center"
            )
        axes.axvline(100 * arms[0]["score"]["mean"], color=_GREY, linestyle="--", linewidth=1)
        axes.set_yticks(range(len(arms)), [arm["title"] for arm in arms])
        axes.set_ylim(len(arms) - 0.5, -0.7)
        axes.margins(x=0.08)
        axes.grid(axis="x", alpha=0.3)
        axes.set_xlabel(axis)
        axes.set_title(title, loc="left")
    return figure


def learning(
    arms: Sequence[Mapping[str, Any]], equal: Mapping[str, float | None], *, title: str, axis: str
) -> "Figure":
    """Draws scores by the size of the training set, and by the epoch on all of it.

    Args:
        arms: `title`, `sizes` and `epochs` of each; the first is the baseline.
        equal: The baseline's `score` in the end, and with how many `examples` and in which `epoch`
            the other reaches it, if it does.
        title: What stands above.
        axis: What the scores are.
    """
    with style():
        figure = new_figure(8.4, 3.4)
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        by_size, by_epoch = figure.subplots(1, 2, sharey=True)
        for place, arm in enumerate(arms):
            look = {"color": COLORS[0] if place else _GREY, "marker": MARKERS[place]}
            _curve(by_size, arm["sizes"], "examples", look, arm["title"])
            _curve(by_epoch, arm["epochs"], "epoch", look, arm["title"])
        by_size.set_xscale("log")
        by_size.minorticks_off()
        sizes = [size["examples"] for size in arms[0]["sizes"]]
        turned = 45 if len(sizes) > 6 else 0
        by_size.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=8, rotation=turned)
        by_epoch.locator_params(axis="x", integer=True)
        by_size.set_xlabel("examples to learn from")
        by_epoch.set_xlabel("epochs over all examples (best so far)")
        by_size.set_ylabel(axis)
        for axes, reached in ((by_size, equal["examples"]), (by_epoch, equal["epoch"])):
            axes.axhline(100 * (equal["score"] or 0), color=_GREY, linestyle="--", linewidth=1)
            axes.grid(alpha=0.3)
            if reached is not None:
                axes.axvline(reached, color=COLORS[0], linestyle=":", linewidth=1)
        figure.legend(*by_size.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def weights(rows: Sequence[Mapping[str, Any]], *, title: str) -> "Figure":
    """Draws the weights of layers as a heat map, a row for each place of a model.

    Args:
        rows: `label`, `layers`, `weights` and `gamma` of each.
        title: What stands above.
    """
    num_layers = 1 + max(layer for row in rows for layer in row["layers"])
    values = np.full((len(rows), num_layers), np.nan)
    for place, row in enumerate(rows):
        values[place, row["layers"]] = row["weights"]
    largest = np.nanmax(values)
    with style():
        figure = new_figure(0.8 * num_layers + 3.6, 0.42 * len(rows) + 1.1)
        axes = figure.add_subplot()
        image = axes.imshow(values, cmap="cividis", vmin=0, vmax=largest, aspect="auto")
        for (place, layer), value in np.ndenumerate(values):
            if not np.isnan(value):
                color = "white" if value < 0.55 * largest else "black"
                axes.text(layer, place, f"{value:.2f}", ha="center", va="center", color=color)
        axes.set_xticks(range(num_layers), [f"layer {layer}" for layer in range(num_layers)])
        names = [f"{shown(row['label'])} (gamma {row['gamma']:.2f})" for row in rows]
        axes.set_yticks(range(len(rows)), names)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_title(title, loc="left")
        figure.colorbar(image, ax=axes, label="weight")
    return figure


def _curve(
    axes: "Axes", points: Sequence[Mapping[str, Any]], x: str, look: Mapping[str, Any], label: str
) -> None:
    """Draws a mean, and what lies between the lowest and the highest score."""
    places = [point[x] for point in points]
    means, lowest, highest = (
        [100 * point["score"][name] for point in points] for name in ("mean", "lowest", "highest")
    )
    axes.plot(places, means, label=label, markersize=4, **look)
    axes.fill_between(places, lowest, highest, color=look["color"], alpha=0.15, linewidth=0)
