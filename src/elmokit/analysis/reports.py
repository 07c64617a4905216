"""What the analyses found, as tables, sentences, JSON values and figures."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from elmokit.analysis import drawing
from elmokit.analysis.drift import CALIBRATED, CONTEXT, FRESH, POSITIONS, Drift
from elmokit.analysis.examples import Array, Example
from elmokit.analysis.neighbors import Neighbors
from elmokit.analysis.output import Report
from elmokit.analysis.page import sense_page
from elmokit.analysis.probe import Scores
from elmokit.analysis.senses import SenseMap, majority_share

_NUM_AROUND = 6
"""Tokens shown before and after a neighbour."""


def probe_report(scores: Sequence[Scores], settings: dict[str, Any], *, title: str) -> Report:
    """Reports accuracies of probes."""
    words = sorted({word for found in scores for word in found.words})
    best = max((found for found in scores if found.layer is not None), key=lambda x: x.mean)
    control = next(found for found in scores if found.layer is None)
    data = [found.to_dict() for found in scores]
    summary = (
        f"Best: {best.method} on layer {best.layer}, {best.mean:.1%}; "
        f"the {control.method} label has {control.mean:.1%}."
    )
    rows = []
    for found in scores:
        spread = f" ± {100 * found.spread:.1f}" if len(found.seeds) > 1 else ""
        rows.append(
            (
                found.method,
                "" if found.layer is None else str(found.layer),
                f"{100 * found.mean:.1f}{spread}",
                *(f"{100 * found.words[word]:.1f}" for word in words),
            )
        )
    return Report(
        name="probe",
        summary=summary,
        header=("probe", "layer", "accuracy %", *words),
        rows=tuple(rows),
        data={"settings": settings, "scores": data},
        draw=partial(drawing.bars, data, title=title),
    )


def neighbors_report(found: Neighbors, settings: dict[str, Any]) -> Report:
    """Reports neighbours."""
    word = found.tokens[found.place]
    near = {
        f"layer {layer}, in this sentence": [(x.shown(_NUM_AROUND), x.cosine) for x in tokens]
        for layer, tokens in found.layers.items()
    }
    lists = {"layer 0, the word alone": list(found.static), **near}
    rows = [
        (name.partition(",")[0], f"{cosine:.3f}", text)
        for name, entries in lists.items()
        for text, cosine in entries
    ]
    sentence = " ".join(f"[{t}]" if i == found.place else t for i, t in enumerate(found.tokens))
    return Report(
        name="neighbors",
        summary=sentence,
        header=("layer", "cosine", f"nearest to {word}"),
        rows=tuple(rows),
        data={"settings": settings, **found.to_dict()},
        draw=partial(drawing.panels, list(lists.items()), title=f"Nearest to: {sentence}"),
    )


def similarity_report(
    first: Sequence[str], second: Sequence[str], layers: Sequence[int], cosines: Array
) -> Report:
    """Reports cosines (K, A, B): the nearest token of the second sentence to each of the first."""
    rows = []
    for layer, values in zip(layers, cosines, strict=True):
        for token, line in zip(first, values, strict=True):
            place = int(line.argmax())
            rows.append((str(layer), token, second[place], f"{line[place]:.3f}"))
    means = ", ".join(
        f"{values.mean():.3f} in layer {layer}"
        for layer, values in zip(layers, cosines, strict=True)
    )
    return Report(
        name="similarity",
        summary=f"Mean cosine of all pairs of tokens: {means}.",
        header=("layer", "token", "nearest", "cosine"),
        rows=tuple(rows),
        data={
            "first": list(first),
            "second": list(second),
            "layers": {
                str(layer): np.round(values.astype(float), 6).tolist()
                for layer, values in zip(layers, cosines, strict=True)
            },
        },
        draw=partial(drawing.heat_maps, cosines, layers, first, second),
    )


def senses_report(
    word: str,
    examples: Sequence[Example],
    maps: Sequence[SenseMap],
    settings: dict[str, Any],
    *,
    model: str,
) -> Report:
    """Reports the occurrences of a word; where senses are known, the figure has their colours."""
    labels = [example.label for example in examples]
    groups = sorted(set(labels))
    has_senses = all(labels)
    if has_senses:
        drawn = [(_title(x), x.points, [groups.index(label) for label in labels]) for x in maps]
    else:
        groups = [f"cluster {i + 1}" for i in range(max(x.num_clusters for x in maps))]
        drawn = [(_title(x), x.points, x.clusters.tolist()) for x in maps]
    rows = []
    for found in maps:
        silhouette = "" if found.silhouette is None else f"{found.silhouette:.2f}"
        purity = () if found.purity is None else (f"{100 * found.purity:.1f}",)
        rows.append((str(found.layer), str(found.num_clusters), silhouette, *purity))
    summary = f"{word}: {len(examples)} occurrences"
    if has_senses:
        share = f"{majority_share(labels):.1%}"
        summary += f" of {len(groups)} senses, the most frequent one {share} of them"
    about = f"{summary}; model {model}"
    return Report(
        name="senses",
        summary=f"{summary}.",
        header=("layer", "clusters", "silhouette", *(("purity %",) if has_senses else ())),
        rows=tuple(rows),
        data={
            "settings": settings,
            "occurrences": [
                {"tokens": list(x.tokens), "place": x.place, "sense": x.label or None}
                for x in examples
            ],
            "majority": majority_share(labels) if has_senses else None,
            "layers": [found.to_dict() for found in maps],
        },
        draw=partial(drawing.scatter, drawn, groups, title=f"Occurrences of {word}"),
        pages={"senses.html": sense_page(word, examples, maps, about)},
    )


def drift_report(found: Drift, settings: dict[str, Any]) -> Report:
    """Reports relative distances by position."""
    rows = []
    for place, layer in enumerate(found.layers):
        for name in (FRESH, CALIBRATED, CONTEXT):
            distance = found.distances[name]
            values = [*distance.relative[place], distance.first[place]]
            shown = ("" if np.isnan(value) else f"{100 * value:.1f}" for value in values)
            rows.append((str(layer), name, *shown))
    curves = {name: 100 * distance.relative for name, distance in found.distances.items()}
    return Report(
        name="drift",
        summary=found.advice,
        header=("layer", "distance, %", *POSITIONS, "1-5"),
        rows=tuple(rows),
        data={"settings": settings, **found.to_dict()},
        draw=partial(
            drawing.lines,
            curves,
            found.layers,
            POSITIONS,
            title="How far vectors move",
            axis=("token, from where the direction begins", "relative distance, %"),
        ),
    )


def _title(found: SenseMap) -> str:
    clusters = f"{found.num_clusters} cluster{'' if found.num_clusters == 1 else 's'}"
    return f"layer {found.layer}: {clusters}"
