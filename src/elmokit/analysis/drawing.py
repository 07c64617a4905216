"""Figures of analyses, drawn without a display and the same in every run.

matplotlib is used through its objects alone; its settings hold for the figure being made.
"""

import io
import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.extra import needed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666", "#000000")
"""Okabe and Ito's palette, told apart by colour-blind people too."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_FONTS = (
    *("DejaVu Sans", "Noto Sans CJK TC", "Noto Sans CJK SC", "Noto Sans CJK JP"),
    *("Source Han Sans", "WenQuanYi Zen Hei", "PingFang TC", "Microsoft JhengHei", "Arial"),
)
"""Those that are installed are tried in this order, for each character."""
_DPI = 120
_UNDRAWN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that are not allowed in XML, and so in SVG; fonts have none of them, and matplotlib
does not take surrogates."""


@contextmanager
def style() -> Iterator[None]:
    """Sets what figures look like; nothing stays set."""
    with needed("matplotlib"):
        import matplotlib as mpl
        from matplotlib import font_manager
    installed = {font.name for font in font_manager.fontManager.ttflist}
    settings: Any = {
        "font.family": [name for name in _FONTS if name in installed],
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        "figure.constrained_layout.use": True,
        "svg.fonttype": "none",
        "svg.hashsalt": "elmokit",
        "text.parse_math": False,
    }
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(settings)
        yield


def new_figure(width: float, height: float) -> "Figure":
    """Makes an empty figure, sizes in inches."""
    with needed("matplotlib"):
        from matplotlib.figure import Figure
    return Figure(figsize=(width, height))


def shown(text: str) -> str:
    """Returns text as figures can show it: characters that they cannot become escapes."""
    return _UNDRAWN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def render(figure: "Figure") -> dict[str, bytes]:
    """Returns a figure as `png` and `svg`; characters without a font are told of in the log."""
    files = {}
    with style(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, dpi=_DPI, metadata=metadata, bbox_inches="tight")
            files[kind] = buffer.getvalue()
    missing = {found[1] for x in told if (found := re.match(r"Glyph (\d+)", str(x.message)))}
    if missing:
        shown = "".join(chr(int(number)) for number in sorted(missing, key=int)[:10])
        logger.warning(
            "figure: no font here has %s; install one such as Noto Sans CJK (the SVG file shows "
            "them where its reader has one)",
            shown,
        )
    return files


def bars(scores: Sequence[Mapping[str, Any]], *, title: str) -> "Figure":
    """Draws accuracies as bars with their standard deviation, a group for each method.

    Args:
        scores: `method`, `layer` (or None), `accuracy`, `standard_deviation` of each bar.
        title: What stands above.
    """
    methods = list(dict.fromkeys(x["method"] for x in scores if x["layer"] is not None))
    layers = sorted({x["layer"] for x in scores if x["layer"] is not None})
    controls = [x for x in scores if x["layer"] is None]
    with style():
        figure = new_figure(1.6 + 1.3 * len(methods) * max(1.5, len(layers) / 2), 3.2)
        axes = figure.add_subplot()
        width = 0.8 / len(methods)
        for number, method in enumerate(methods):
            found = {x["layer"]: x for x in scores if x["method"] == method}
            heights = [100 * found[layer]["accuracy"] for layer in layers]
            places = np.arange(len(layers)) + (number - (len(methods) - 1) / 2) * width
            errors = [100 * found[layer]["standard_deviation"] for layer in layers]
            drawn = axes.bar(
                *(places, heights, 0.92 * width),
                yerr=errors if any(errors) else None,
                color=COLORS[number],
                label=method,
                capsize=3,
                error_kw={"linewidth": 1, "alpha": 0.7},
            )
            axes.bar_label(drawn, fmt="%.1f", padding=3, fontsize=8)
        for control in controls:
            axes.axhline(100 * control["accuracy"], color="#555555", linestyle="--", linewidth=1)
            axes.plot([], [], color="#555555", linestyle="--", linewidth=1, label=control["method"])
        lowest = min(x["accuracy"] for x in scores)
        axes.set_ylim(max(0, 100 * lowest - 15), 106)
        axes.set_yticks([tick for tick in axes.get_yticks() if tick <= 100])
        axes.set_xticks(range(len(layers)), [f"layer {layer}" for layer in layers])
        axes.set_ylabel("accuracy, %")
        axes.set_title(title, loc="left")
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def panels(lists: Sequence[tuple[str, Sequence[tuple[str, float]]]], *, title: str) -> "Figure":
    """Draws ranked lists with a bar for each value, one list above another.

    Args:
        lists: Title and (text, cosine) entries of each.
        title: What stands above all.
    """
    with style():
        most = max(len(entries) for _, entries in lists)
        figure = new_figure(9, (0.24 * most + 0.5) * len(lists) + 0.5)
        figure.suptitle(shown(title), x=0.01, ha="left", fontsize=11)
        for number, (name, entries) in enumerate(lists):
            axes = figure.add_subplot(len(lists), 1, number + 1)
            values = [value for _, value in entries]
            axes.barh(range(len(values)), values, color=COLORS[number % len(COLORS)], alpha=0.35)
            for place, (text, value) in enumerate(entries):
                axes.text(0.01, place, shown(text), va="center", fontsize=8.5, clip_on=False)
                axes.text(1.01, place, f"{value:.3f}", va="center", fontsize=8.5)
            axes.set_xlim(0, 1)
            axes.set_ylim(most - 0.5, -0.5)
            axes.set_yticks([])
            axes.set_xticks([])
            axes.spines[["left", "bottom"]].set_visible(False)
            axes.set_title(name, loc="left")
    return figure


def heat_maps(
    cosines: NDArray[np.float32],
    layers: Sequence[int],
    rows: Sequence[str],
    columns: Sequence[str],
) -> "Figure":
    """Draws token-by-token cosines (K, A, B), a map for each layer."""
    rows, columns = ([shown(token) for token in tokens] for tokens in (rows, columns))
    with style():
        cell = 0.42
        figure = new_figure(len(layers) * (cell * len(columns) + 0.9) + 0.8, cell * len(rows) + 1.3)
        low = min(0.0, float(cosines.min()))
        maps = figure.subplots(1, len(layers), squeeze=False)[0]
        for axes, layer, values in zip(maps, layers, cosines, strict=True):
            image = axes.imshow(values, cmap="cividis", vmin=low, vmax=1, aspect="equal")
            axes.set_xticks(
                range(len(columns)), columns, rotation=60, ha="right", rotation_mode="anchor"
            )
            axes.set_yticks(range(len(rows)), rows)
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
            axes.set_title(f"layer {layer}")
            for (row, column), value in np.ndenumerate(values):
                light = value < low + 0.55 * (1 - low)
                axes.text(
                    *(
                        column,
                        row,
                        f"{round(float(value), 2) + 0:.2f}".replace("0.", ".").replace("1.00", "1"),
                    ),
                    **{"ha": "center", "va": "center", "fontsize": 7},
                    color="white" if light else "black",
                )
        figure.colorbar(image, ax=maps, label="cosine", shrink=0.8)
    return figure


def scatter(
    maps: Sequence[tuple[str, NDArray[np.float32], Sequence[int]]],
    groups: Sequence[str],
    *,
    title: str,
) -> "Figure":
    """Draws points of several groups, a map beside another.

    Args:
        maps: Title, points (N, 2) and the group of each.
        groups: Names of the groups.
        title: What stands above all.
    """
    with style():
        figure = new_figure(3.2 * len(maps) + 1.2, 3.7)
        figure.suptitle(shown(title), x=0.01, ha="left", fontsize=11)
        for axes, (name, points, numbers) in zip(
            figure.subplots(1, len(maps), squeeze=False)[0], maps, strict=True
        ):
            for number in range(len(groups)):
                chosen = points[np.asarray(numbers) == number]
                axes.scatter(
                    *(chosen[:, 0], chosen[:, 1]),
                    color=COLORS[number % len(COLORS)],
                    marker=MARKERS[number % len(MARKERS)],
                    **{"s": 26, "alpha": 0.75, "linewidths": 0},
                    label=shown(groups[number]),
                )
            axes.set_title(name, loc="left")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_visible(True)
            axes.spines[:].set_color("#bbbbbb")
            axes.margins(0.08)
        handles, names = axes.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside right upper")
    return figure


def lines(
    curves: Mapping[str, NDArray[np.float64]],
    layers: Sequence[int],
    ticks: Sequence[str],
    *,
    title: str,
    axis: tuple[str, str],
) -> "Figure":
    """Draws curves (K, positions) of several names, a panel for each layer.

    Args:
        curves: Name -> values; NaN is left out.
        layers: K layers by number.
        ticks: Names of the positions.
        title: What stands above all.
        axis: What the horizontal and the vertical axis show.
    """
    with style():
        figure = new_figure(3.1 * len(layers) + 1.6, 3.1)
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        every = figure.subplots(1, len(layers), squeeze=False, sharey=True)[0]
        for place, (axes, layer) in enumerate(zip(every, layers, strict=True)):
            for number, (name, values) in enumerate(curves.items()):
                axes.plot(
                    *(range(len(ticks)), values[place]),
                    color=COLORS[number],
                    marker=MARKERS[number],
                    markersize=4,
                    label=name,
                )
            axes.set_xticks(range(len(ticks)), ticks, rotation=45)
            axes.set_xlabel(axis[0])
            axes.set_title(f"layer {layer}", loc="left")
            axes.grid(axis="y", alpha=0.3)
        highest = max(float(np.nanmax(values)) for values in curves.values())
        every[0].set_ylim(0, 1.08 * highest or 1)  # all panels share it
        every[0].set_ylabel(axis[1])
        figure.legend(*every[0].get_legend_handles_labels(), loc="outside right upper")
    return figure
