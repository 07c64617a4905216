"""Makes a trained model ready to ship: half-size weights, initial state, measurements and card.

    python recipes/ship.py english .bench/english -o src/elmokit/pretrained/default

The folder holds `text` and `words.txt`, made as the recipe's YAML files say, and the runs `run`
and, if there was one, `finish`; the model is that of the last. Written are the model, its card
(README.md and, for programs, in config.json), the curve of its training and NOTICE.
"""

import argparse
import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

import measures
import trigram
from elmokit import BiLM, Embedder
from elmokit.analysis.drift import with_zero_state
from elmokit.embedding.scoring import Perplexity

HERE = Path(__file__).parent
CALIBRATION_SENTENCES = 2_000
FIRST_TOKENS_SENTENCES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What is particular to a model that ships."""

    name: str
    language: str
    tokenizer: str
    case: str
    notes: str
    folders: tuple[str, ...]
    """Folders of the corpus, whose whole text the trigram learns from."""
    heldout: Mapping[str, str]
    """Name of a held-out text -> its file in `text`."""
    treebank: tuple[str, str] | None
    """Training and development part of a CoNLL-U treebank in the data, for a probe."""
    processes: int
    """How many trained it together."""


RECIPES = {
    "english": Recipe(
        name="elmokit English, 3 million parameters",
        language="English",
        tokenizer="spacy:en",
        case="cased",
        notes="Text is cut as spaCy's rules for English cut it: do n't, well - known, can not.",
        folders=("en", "en-modern"),
        heldout={"en": "heldout-en.txt.gz", "en-modern": "heldout-en-modern.txt.gz"},
        treebank=(
            "probing/ud_english_ewt/en_ewt-ud-train.conllu",
            "probing/ud_english_ewt/en_ewt-ud-dev.conllu",
        ),
        processes=2,
    ),
    "zh-hant": Recipe(
        name="elmokit Traditional Chinese, characters",
        language="Traditional Chinese",
        tokenizer="characters",
        case="cased",
        notes="A token is one character, or a run of Latin letters or digits.",
        folders=("zh-Hant",),
        heldout={"zh-Hant": "heldout-zh-Hant.txt.gz"},
        treebank=None,
        processes=1,
    ),
}


def read_run(directory: Path, processes: int) -> dict[str, Any]:
    """Reads a run's settings and log; adds its steps, predictions, hours and held-out points."""
    config = json.loads((directory / "run.json").read_text(encoding="utf-8"))
    lines = (directory / "log.jsonl").read_text(encoding="utf-8").splitlines()
    log = [json.loads(line) for line in lines]
    per_step = config["schedule"]["batch_size"] * config["schedule"]["window"] * processes
    seconds, before = 0.0, 0
    for record in log:
        if record["kind"] == "train":
            seconds += (record["step"] - before) * per_step / record["tokens_per_second"]
            before = record["step"]
    points = [
        (record["step"] * per_step / 1e6, record["mean"])
        for record in log
        if record["kind"] == "heldout"
    ]
    return {
        "config": config,
        "steps": log[-1]["step"],
        "millions": log[-1]["step"] * per_step / 1e6,
        "hours": seconds / 3600,
        "points": points,
    }


def draw_curve(runs: Sequence[Mapping[str, Any]], floor: float, path: Path) -> None:
    """Draws held-out perplexity against predictions made, and the trigram's beside it."""
    figure, axes = plt.subplots(figsize=(7, 3.6), dpi=110, layout="constrained")
    begin = 0.0
    for run in runs:
        is_constant = run["config"]["optimizer"]["decay"] == "constant"
        label = f"{'constant' if is_constant else 'falling'} learning rate"
        points = [(begin + millions, mean) for millions, mean in run["points"]]
        axes.plot(*zip(*points, strict=True), marker=".", label=label)
        begin += run["millions"]
    axes.axhline(floor, color="grey", linestyle="--", label="trigram (Kneser-Ney)")
    axes.set_yscale("log")
    ticks = [tick for tick in (50, 75, 100, 125, 150, 200, 250, 300, 400) if tick > 0.7 * floor]
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("millions of predictions per direction")
    axes.set_ylabel("held-out perplexity")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)
    plt.close(figure)


def calibrated(bilm: BiLM, text: Path, place: Path) -> Path:
    """Writes the model as it ships, with an initial state from running text."""
    emb = Embedder(bilm)
    files = sorted(text.glob("train-*-000.txt.gz"))
    share = CALIBRATION_SENTENCES // len(files)
    emb.calibrate([sentence for file in files for sentence in measures.read_text(file)[:share]])
    emb.bilm.save_pretrained(place, dtype="float16")
    return place


def measure(
    recipe: Recipe, stem: str, emb: Embedder, folder: Path, corpus: Path, data: Path
) -> dict[str, Any]:
    """Measures everything that the card tells, by name."""
    text, found = folder / "text", dict[str, Any]()
    sentences: list[Sequence[str]] = []
    for name, file in recipe.heldout.items():
        heldout = measures.read_text(text / file)
        sentences += heldout[:FIRST_TOKENS_SENTENCES]
        found[f"perplexity {name} fresh"] = emb.perplexity(heldout)
        found[f"perplexity {name} carry"] = emb.perplexity(heldout, state="carry")
    zero = with_zero_state(emb)
    found["first tokens, calibrated"] = measures.first_tokens(emb, sentences)
    found["first tokens, zero"] = measures.first_tokens(zero, sentences)
    assert emb.bilm.vocabulary is not None
    train = [path for name in recipe.folders for path in (corpus / name).glob("train-*.gz")]
    files = [text / file for file in (*recipe.heldout.values(), "heldout-mixed.txt.gz")]
    floors = trigram.measure(emb.bilm.vocabulary, sorted(train), files)
    for name, floor in zip((*recipe.heldout, "mixed"), floors, strict=True):
        found[f"trigram {name}"] = floor
    if recipe.treebank is not None:
        parts = [data / part for part in recipe.treebank]
        found["probe"] = measures.probe_tags(emb, *parts)
    found["senses"] = measures.nearest_senses(emb, HERE / "senses" / f"{stem}.tsv")
    return found


def speeds(model: Path, text: Path, place: Path) -> dict[str, float]:
    """Tokens per second of `elmo embed`, with this model and with shapes of published ones."""
    found = {"speed": measures.words_per_second(model, text, place, 300_000)}
    for name, shape in {"small": (1024, 128, 1), "original": (4096, 512, 2)}.items():
        other = measures.write_published_size(*shape, place / name)
        found[f"speed {name}"] = measures.words_per_second(other, text, place, 30_000)
    return found


def flat(found: Mapping[str, Any]) -> dict[str, str | float]:
    """Names with one number each, as the machine-readable card has them."""
    numbers: dict[str, str | float] = {}
    for name, value in found.items():
        if isinstance(value, Perplexity):
            for part, number in value._asdict().items():
                numbers[f"{name}, {part.replace('_', ' ')}"] = round(float(number), 4)
        elif isinstance(value, list):
            for layer, number in enumerate(value):
                numbers[f"{name}, layer {layer}"] = round(number, 4)
        elif isinstance(value, dict):
            numbers |= flat({f"{name} {word}": layers for word, layers in value.items()})
        else:
            numbers[name] = round(float(value), 4)
    return numbers


def table_of_senses(senses: Mapping[str, Sequence[float]]) -> str:
    """A row a word: the share told apart in each layer."""
    rows = ["| word | layer 0 | layer 1 | layer 2 |", "|---|---|---|---|"]
    for word, shares in senses.items():
        cells = " | ".join(f"{share:.0%}" for share in shares)
        rows.append(f"| {word} | {cells} |")
    return "\n".join(rows)


def facts(
    numbers: Mapping[str, Any],
    senses: Mapping[str, Sequence[float]],
    runs: Sequence[Mapping[str, Any]],
    bilm: BiLM,
) -> dict[str, Any]:
    """Everything that a card's template may name: a number's name has _ for what is no letter."""
    values = {re.sub(r"\W+", "_", name): number for name, number in numbers.items()}
    assert bilm.softmax is not None
    softmax = sum(parameter.numel() for parameter in bilm.softmax.parameters())
    return values | {
        "senses": table_of_senses(senses),
        "steps": sum(run["steps"] for run in runs),
        "millions": sum(run["millions"] for run in runs),
        "late": runs[0]["points"][-1][0] - runs[0]["points"][-3][0],
        "late_begin": runs[0]["points"][-3][1],
        "late_end": runs[0]["points"][-1][1],
        "hours": sum(run["hours"] for run in runs),
        "parameters": sum(parameter.numel() for parameter in bilm.parameters()) - softmax,
        "softmax_parameters": softmax,
        "words": bilm.config.softmax_words,
    }


def describe(config: Mapping[str, Any]) -> str:
    """What a run's settings say of how it learnt."""
    optimizer, negatives = config["optimizer"], config["objective"]["num_negatives"]
    softmax = f"{negatives:,} sampled words" if negatives else "all words"
    return (
        f"{optimizer['name']}, rate {optimizer['learning_rate']:g}, {optimizer['decay']}, {softmax}"
    )


def ship(stem: str, folder: Path, output: Path, corpus: Path, data: Path) -> None:
    """Writes the folder of a model that ships, anew."""
    recipe = RECIPES[stem]
    runs = [
        read_run(folder / name, recipe.processes)
        for name in ("run", "finish")
        if (folder / name).is_dir()
    ]
    last = folder / ("finish" if len(runs) > 1 else "run") / "model"
    with tempfile.TemporaryDirectory() as temporary:
        place = calibrated(BiLM.from_pretrained(last), folder / "text", Path(temporary) / "model")
        emb = Embedder.from_pretrained(place)
        found = measure(recipe, stem, emb, folder, corpus, data)
        if found["first tokens, zero"] < found["first tokens, calibrated"]:
            emb = with_zero_state(emb)
        longest = folder / "text" / next(iter(recipe.heldout.values()))
        found |= speeds(place, longest, Path(temporary))
    numbers = flat(found)
    values = facts(numbers, found["senses"], runs, emb.bilm)
    carded = emb.bilm.with_card(
        name=recipe.name,
        language=recipe.language,
        tokenizer=recipe.tokenizer,
        case=recipe.case,
        licence="Apache-2.0; NOTICE has the attributions of its text",
        provenance=f"elmokit, recipes/{stem}.yaml",
        notes=recipe.notes,
        training={
            "steps": values["steps"],
            "predictions per direction": round(values["millions"] * 1e6),
            "hours": round(values["hours"], 2),
            "learning": ", then ".join(describe(run["config"]) for run in runs),
        },
        results=numbers,
    )
    shutil.rmtree(output, ignore_errors=True)
    carded.save_pretrained(output, dtype="float16")
    shutil.copy(folder / "text" / "NOTICE", output / "NOTICE")
    draw_curve(runs, found["trigram mixed"], output / "curve.png")
    template = (HERE / "cards" / f"{stem}.md").read_text(encoding="utf-8")
    (output / "README.md").write_text(template.format_map(values), encoding="utf-8")


def main() -> None:
    """Reads the command line and ships."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("recipe", choices=RECIPES, help="which model")
    parser.add_argument("folder", type=Path, help="folder with text, words.txt and the runs")
    parser.add_argument("-o", "--output", required=True, type=Path, help="folder to write anew")
    parser.add_argument("--corpus", type=Path, default=Path("../shared/corpus"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments = parser.parse_args()
    ship(arguments.recipe, arguments.folder, arguments.output, arguments.corpus, arguments.data)


if __name__ == "__main__":
    main()
