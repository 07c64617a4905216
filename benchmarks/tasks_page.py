"""The page that `tasks.py` writes: a table of what ELMo adds, and how it was measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

import numpy as np

METRICS = {"f1": "F1", "accuracy": "accuracy", "conll": "CoNLL F1"}

NUMBERS = ("trained on", "gain", "spread", "error reduction", "in the paper")
COLUMNS = (
    "data set",
    "task",
    "metric",
    "trained on",
    "ELMo at",
    "baseline",
    "+ ELMo",
    *NUMBERS[1:],
)

HOW = """
## How it was measured

- **Arms**: the same task model with the same settings and seeds, without ELMo (`elmo.at: none`),
  and with it, frozen, at the places that the paper has it for the task; tasks that are not in the
  paper take it at the input. In both arms a word has a learnt vector and a character CNN; no other
  pretrained vectors are read.
- **Scores** are those of the best epoch on the development part; test parts are not used. Both arms
  choose their epoch so, and what counts is their difference. A cell has the mean over seeds in
  percent, and the lowest and the highest score.
- **Gain** is the difference of the means, **spread** the larger of both ranges (highest minus
  lowest). A gain below the spread says nothing.
- **Error reduction** is the gain as a share of what the baseline leaves to 100. The paper's figure
  (table 1) is for its own data set and biLM: CoNLL-2003 for names, SST-5 for sentiment, the whole
  of SNLI for entailment, OntoNotes for roles and coreference, the whole of SQuAD 1.1 for questions.
- **Training sizes**: a capped row learns from so many examples of the training file, drawn once and
  the same for all seeds and both arms. A label that occurs in no training example counts as an
  error.
- **SST-5** learns from phrases, as in the paper: from 2,000 whole sentences the network stayed at
  the most frequent class in five of six runs. From phrases ELMo adds nothing that shows. What we
  make of it, and did not test: phrases, often of a word or two, say most about words, which the
  model learns by itself, and the biLM reads each phrase as if it were a sentence. The model turns
  ELMo down, to a gamma of 0.25 to 0.49 in its three runs; but that of roles, which gain much, is
  0.45 to 0.47.
- **SQuAD** without ELMo and without pretrained vectors learns its 1,500 questions by heart: its
  loss falls to less than half in eight epochs, while dev stays where it was after two. With ELMo it
  falls as fast, and dev rises with it.
- Settings are in `benchmarks/tasks/`, one file a data set. `python benchmarks/tasks.py` trains what
  is missing and writes this page.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The results of one data set and size, one of each arm and seed."""

    title: str
    task: str
    paper: float | None
    """The relative error reduction in the paper."""
    baseline: Sequence[dict[str, Any]]
    elmo: Sequence[dict[str, Any]]
    """Empty for the baseline alone."""
    num_seeds: int
    """What was asked for; fewer mean that time was up."""

    @property
    def is_paired(self) -> bool:
        """Tell whether there is something to compare."""
        return bool(self.baseline and self.elmo)

    @property
    def gain(self) -> float:
        """Difference of the means."""
        return mean(_scores(self.elmo)) - mean(_scores(self.baseline))

    @property
    def spread(self) -> float | None:
        """The larger of both ranges; None if a seed stands alone."""
        if min(len(self.baseline), len(self.elmo)) < 2:
            return None
        return float(max(np.ptp(_scores(self.baseline)), np.ptp(_scores(self.elmo))))

    @property
    def is_clear(self) -> bool:
        """Tell whether the gain is more than chance."""
        return self.spread is not None and self.gain > self.spread

    def to_markdown(self) -> str:
        """Return its line of the table."""
        some = (*self.baseline, *self.elmo)[0]
        gain = spread = reduction = "-"
        if self.is_paired:
            gain = f"{100 * self.gain:+.1f}"
            spread = "-" if self.spread is None else f"{100 * self.spread:.1f}"
            reduction = f"{100 * self.gain / (1 - mean(_scores(self.baseline))):.0f} %"
        cells = [
            self.title,
            self.task,
            METRICS[some["metric"]],
            f"{some['train']['examples']:,}",
            (*self.elmo, some)[0]["asked"]["config"]["elmo"]["at"],
            self._scores_cell(self.baseline),
            self._scores_cell(self.elmo),
            gain,
            spread,
            reduction,
            "-" if self.paper is None else f"{100 * self.paper:.1f} %",
        ]
        return f"| {' | '.join(cells)} |"

    def _scores_cell(self, results: Sequence[dict[str, Any]]) -> str:
        if not results:
            return "-"
        scores = [100 * score for score in _scores(results)]
        seeds = (
            "" if len(scores) == self.num_seeds else f", {len(scores)} of {self.num_seeds} seeds"
        )
        return f"{mean(scores):.1f} ({min(scores):.1f} to {max(scores):.1f}{seeds})"


def make_page(rows: Sequence[Row], model: str) -> str:
    """Return the page for rows that have a result."""
    results = [found for row in rows for found in (*row.baseline, *row.elmo)]
    repeated = [row for row in rows if row.is_paired and row.spread is not None]
    clear = sum(row.is_clear for row in repeated)
    lines = [
        "# Results of the task models",
        "",
        "<!-- written by benchmarks/tasks.py -->",
        "",
        "What ELMo adds to the models of `elmo task`, by data set and number of training examples.",
        f"The gain is larger than the spread in {clear} of the {len(repeated)} rows that have "
        f"several seeds of both. biLM: `{model}`.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"|{'|'.join('---:' if column in NUMBERS else '---' for column in COLUMNS)}|",
        *(row.to_markdown() for row in rows),
        "",
        _heading(results),
        HOW.rstrip(),
    ]
    return "\n".join(lines) + "\n"


def _heading(results: Sequence[dict[str, Any]]) -> str:
    """Return the lines about when and where."""
    dates = sorted({found["date"] for found in results})
    environment = max(results, key=lambda found: found["date"])["environment"]
    machines = dict.fromkeys(
        f"{machine['processor']} ({machine['cores']} cores, {machine['memory_gib']} GiB)"
        for machine in (found["machine"] for found in results)
    )
    hours = sum(sum(found["seconds"]) for found in results) / 3600
    return (
        f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))}; {', '.join(machines)}; python "
        f"{environment['python']}, torch {environment['torch']}, elmokit {environment['elmokit']}. "
        f"{len(results)} runs of one thread, {hours:.1f} hours of training in all, beside other "
        "work."
    )


def _scores(results: Sequence[dict[str, Any]]) -> list[float]:
    return [found["score"] for found in results]
