"""Probes: how much of syntax and of word senses a simple classifier reads off each layer.

After sections 5.3 of Peters et al. 2018 (tables 5 and 6). Letters: K layers, N words, D projection.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.examples import (
    SENSES_SUFFIX,
    Array,
    Example,
    read_senses,
    read_tags,
    unit,
    vectors_of,
)
from elmokit.analysis.extra import needed
from elmokit.embedding.embedder import Embedder
from elmokit.errors import ConfigError, InputError
from elmokit.tasks.readers.conllu import Field
from elmokit.text.lines import read_lines

Labels = NDArray[np.object_]
"""Strings of any length."""

INVERSE_STRENGTH = 0.1
"""C of the logistic regression."""
SHARE = 0.8
"""Part of the training words that each of several seeds learns from."""
_MOST_SEEDS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Accuracy of a method, for each seed."""

    method: str
    """linear, nearest or majority."""
    layer: int | None
    """The layer that it reads; None for a control that reads none."""
    seeds: tuple[float, ...]
    """Share of right answers."""
    words: Mapping[str, float]
    """Word -> share of right answers, mean over the seeds; empty where words are many."""

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return float(np.mean(self.seeds))

    @property
    def spread(self) -> float:
        """Standard deviation over the seeds, 0 for one."""
        return float(np.std(self.seeds, ddof=1)) if len(self.seeds) > 1 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        return {
            "method": self.method,
            "layer": self.layer,
            "accuracy": self.mean,
            "standard_deviation": self.spread,
            "seeds": list(self.seeds),
            "words": dict(self.words),
        }


def linear_probe(learnt: Array, labels: Labels, tested: Array) -> Labels:
    """Classifies vectors by logistic regression (C = 0.1) on standardised features.

    Args:
        learnt: (N, D) to learn from.
        labels: Their N labels; where all are one, that is every answer.
        tested: (M, D) to classify.

    Returns:
        M labels.
    """
    with needed("sklearn"):
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import StandardScaler
    if len(set(labels)) == 1:
        return np.repeat(labels[:1], len(tested))
    scaler = StandardScaler().fit(learnt)
    probe = LogisticRegression(C=INVERSE_STRENGTH, max_iter=1_000)
    probe.fit(scaler.transform(learnt), labels)
    answers: Labels = probe.predict(scaler.transform(tested))
    return answers


def nearest_centroid(learnt: Array, labels: Labels, tested: Array) -> Labels:
    """Classifies vectors by the nearest mean of a label's vectors, by cosine.

    Args:
        learnt: (N, D) to learn from.
        labels: Their N labels.
        tested: (M, D) to classify.

    Returns:
        M labels; of equally near ones the first in the alphabet.
    """
    names = np.unique(labels)
    centroids = np.stack([learnt[labels == name].mean(axis=0) for name in names])
    answers: Labels = names[np.argmax(unit(tested) @ unit(centroids).T, axis=1)]
    return answers


def probe_tags(
    emb: Embedder,
    learnt: Sequence[Sequence[Example]],
    tested: Sequence[Sequence[Example]],
    *,
    layers: Sequence[int],
    seeds: int = 1,
) -> list[Scores]:
    """Probes each layer for the tags of words with one linear classifier for all.

    Args:
        emb: The model.
        learnt: Sentences to learn from; of several seeds each takes 80 % of them, drawn at random.
        tested: Sentences to be scored on.
        layers: K layers by number.
        seeds: How often the probe learns.

    Returns:
        The control, the most frequent tag of a form in training (of all forms, for an unseen one),
        then the layers.

    Raises:
        InputError: There is nothing to tell apart.
    """
    train, test = ([word for sentence in part for word in sentence] for part in (learnt, tested))
    labels, truth = labels_of(train), labels_of(test)
    _check(labels, truth, "tag")
    sentences = np.repeat(np.arange(len(learnt)), [len(sentence) for sentence in learnt])
    draws = [np.isin(sentences, drawn) for drawn in _draw(len(learnt), seeds)]
    common = [_majority(_chosen(train, np.flatnonzero(drawn)), test, None) for drawn in draws]
    scores = [_score("majority", None, common, truth)]
    vectors = [vectors_of(emb, part, layers) for part in (train, test)]
    for layer, train_vectors, test_vectors in zip(layers, *vectors, strict=True):
        answers = [
            linear_probe(train_vectors[drawn], labels[drawn], test_vectors) for drawn in draws
        ]
        scores.append(_score("linear", layer, answers, truth))
    return scores


def probe_senses(
    emb: Embedder,
    learnt: Sequence[Example],
    tested: Sequence[Example],
    *,
    layers: Sequence[int],
    seeds: int = 1,
    first_senses: Mapping[str, str] | None = None,
) -> list[Scores]:
    """Probes each layer for the senses of words, each word by itself.

    Two probes: the nearest mean of a sense's vectors, as the paper has it, and a linear one.

    Args:
        emb: The model.
        learnt: Words to learn from; of several seeds each takes 80 % of them, drawn at random.
        tested: Words to be scored on.
        layers: K layers by number.
        seeds: How often the probes learn.
        first_senses: Word -> its sense if no training word is like it, such as the first one of a
            dictionary. Without one such a word counts as wrong.

    Returns:
        The control, the most frequent sense of the word in training, then both probes by layer.

    Raises:
        InputError: There is nothing to tell apart.
    """
    labels, truth = labels_of(learnt), labels_of(tested)
    _check(labels, truth, "sense")
    words, test_words = (
        np.array([example.word for example in part], dtype=object) for part in (learnt, tested)
    )
    draws = _draw(len(learnt), seeds)
    common = [_majority(_chosen(learnt, drawn), tested, first_senses or {}) for drawn in draws]
    scores = [_score("majority", None, common, truth, test_words)]
    vectors = [vectors_of(emb, part, layers) for part in (learnt, tested)]
    methods: dict[str, Callable[[Array, Labels, Array], Labels]] = {
        "nearest": nearest_centroid,
        "linear": linear_probe,
    }
    for method, classify in methods.items():
        for layer, train_vectors, test_vectors in zip(layers, *vectors, strict=True):
            answers = []
            for drawn, fallback in zip(draws, common, strict=True):
                answer = fallback.copy()
                for word in np.unique(test_words):
                    places = drawn[words[drawn] == word]
                    asked = test_words == word
                    if len(places):
                        answer[asked] = classify(
                            train_vectors[places], labels[places], test_vectors[asked]
                        )
                answers.append(answer)
            scores.append(_score(method, layer, answers, truth, test_words))
    return scores


def run_probe(
    emb: Embedder,
    train: Sequence[str],
    dev: Sequence[str],
    *,
    layers: Sequence[int],
    field: Field | None = None,
    limits: tuple[int | None, int | None] = (None, None),
    seeds: int = 1,
    first_senses: str | None = None,
    encoding: str = "utf-8",
) -> tuple[list[Scores], str]:
    """Probes for what files hold: tags in CoNLL-U, or senses in `.tsv` files.

    Args:
        emb: The model.
        train: Files to learn from.
        dev: Files to be scored on.
        layers: K layers by number.
        field: Column of the tags (CoNLL-U); `upos` if None.
        limits: Sentences of each file that are taken, in training and for scoring.
        seeds: How often to learn.
        first_senses: File of words and their senses, between tabs, for those not in training.
        encoding: Encoding of the files.

    Returns:
        The scores, and what they are scores of.

    Raises:
        InputError: A file cannot be read, or there is nothing to tell apart.
        ConfigError: A setting is out of range or belongs to files of the other kind, or files of
            both kinds are given.
    """
    if not 1 <= seeds <= _MOST_SEEDS:
        raise ConfigError(f"seeds: {seeds} must be 1 to {_MOST_SEEDS}")
    for name, limit in zip(("max_train", "max_dev"), limits, strict=True):
        if limit is not None and limit < 1:
            raise ConfigError(f"{name}: {limit} must be 1 or more")
    parts = list(zip((train, dev), limits, strict=True))
    kinds = {name.endswith(SENSES_SUFFIX) for name in (*train, *dev)}
    if len(kinds) > 1:
        raise ConfigError("train, dev: give CoNLL-U files or .tsv files of senses, not both")
    if kinds == {True}:
        if field is not None:
            raise ConfigError("field: belongs to CoNLL-U files; leave it out")
        examples = [
            [x for name in names for x in read_senses(name, encoding)[:limit]]
            for names, limit in parts
        ]
        known = None if first_senses is None else _read_first_senses(first_senses, encoding)
        scores = probe_senses(emb, *examples, layers=layers, seeds=seeds, first_senses=known)
        return scores, "Word senses"
    if first_senses is not None:
        raise ConfigError("first_senses: belongs to .tsv files of senses; leave it out")
    field = field or "upos"
    sentences = [
        [sentence for name in names for sentence in read_tags(name, field, limit, encoding)]
        for names, limit in parts
    ]
    return probe_tags(emb, *sentences, layers=layers, seeds=seeds), f"Tags ({field})"


def labels_of(examples: Sequence[Example]) -> Labels:
    """Returns the labels of words as an array."""
    return np.array([example.label for example in examples], dtype=object)


def _read_first_senses(source: str, encoding: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in read_lines(source, encoding):
        if line.strip():
            word, _, sense = line.partition("\t")
            if not (word.strip() and sense.strip()):
                raise InputError(f"{source}: line {number}: expected a word, a tab and a sense")
            found.setdefault(word.strip(), sense.strip())
    return found


def _check(labels: Labels, truth: Labels, kind: str) -> None:
    for words, use in ((labels, "learn from"), (truth, "be scored on")):
        if not len(words):
            raise InputError(f"probe: not a single word to {use}; give words with their {kind}s")
    if len(set(labels)) < 2:
        raise InputError(
            f"probe: all training words have the {kind} {labels[0]!r}; a probe needs two {kind}s "
            "or more to tell apart"
        )


def _draw(number: int, seeds: int) -> list[NDArray[np.int64]]:
    """Returns for each seed which examples are learnt from, in order; all for a single seed."""
    if seeds == 1:
        return [np.arange(number)]
    size = max(1, round(SHARE * number))
    return [
        np.sort(np.random.default_rng(seed).choice(number, size, replace=False))
        for seed in range(seeds)
    ]


def _chosen(examples: Sequence[Example], numbers: NDArray[np.int64]) -> list[Example]:
    return [examples[number] for number in numbers]


def _majority(
    learnt: Sequence[Example], tested: Sequence[Example], first: Mapping[str, str] | None
) -> Labels:
    """Answers with the word's most frequent label; for an unseen word with its first, or of all."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for example in learnt:
        counts[example.word][example.label] += 1
    common = {word: seen.most_common(1)[0][0] for word, seen in counts.items()}
    [(most, _)] = Counter(example.label for example in learnt).most_common(1)
    others = {x.word: most if first is None else first.get(x.word, "") for x in tested}
    answers = others | common
    return np.array([answers[example.word] for example in tested], dtype=object)


def _score(
    method: str,
    layer: int | None,
    answers: Sequence[Labels],
    truth: Labels,
    words: Labels | None = None,
) -> Scores:
    right = np.stack([answer == truth for answer in answers])  # (seeds, N)
    by_word = {}
    if words is not None:
        by_word = {str(w): float(right[:, words == w].mean()) for w in np.unique(words)}
    return Scores(
        method=method, layer=layer, seeds=tuple(right.mean(axis=1).tolist()), words=by_word
    )
