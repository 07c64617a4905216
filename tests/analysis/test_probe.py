"""Probes against planted and random labels, their controls, and what a user can get wrong."""

import numpy as np
import pytest

from builders import char_bilm
from elmokit import Embedder
from elmokit.analysis import probe
from elmokit.analysis.examples import Example, read_senses
from elmokit.errors import ConfigError, InputError


@pytest.fixture(scope="module")
def emb():
    return Embedder(char_bilm(), device="cpu")


def planted(number, seed, *, num_classes=4, spread=0.1, dim=16):
    """Vectors around a centre for each label."""
    order = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((num_classes, dim)).astype(np.float32)
    numbers = order.integers(num_classes, size=number)
    vectors = centres[numbers] + spread * order.standard_normal((number, dim), dtype=np.float32)
    return vectors, np.array([f"label {i}" for i in numbers], dtype=object)


@pytest.mark.parametrize("classify", [probe.linear_probe, probe.nearest_centroid])
def test_planted_labels_are_read_and_random_ones_are_not(classify):
    learnt, labels = planted(400, 1)
    tested, truth = planted(300, 2)
    assert np.mean(classify(learnt, labels, tested) == truth) == 1
    shuffled = np.random.default_rng(3).permutation(labels)
    others = np.random.default_rng(4).permutation(truth)
    assert abs(np.mean(classify(learnt, shuffled, tested) == others) - 1 / 4) < 0.08


def test_nearest_centroid_goes_by_direction_not_by_length():
    learnt = np.array([[1, 0], [3, 0], [0, 10]], dtype=np.float32)
    labels = np.array(["a", "a", "b"], dtype=object)
    tested = np.array([[50, 1], [0.01, 0.1]], dtype=np.float32)
    assert probe.nearest_centroid(learnt, labels, tested).tolist() == ["a", "b"]


def test_linear_probe_is_logistic_regression_on_standardised_features():
    """The scale and the place of a feature do not matter."""
    learnt, labels = planted(80, 1, spread=1.5)
    tested, _ = planted(80, 2, spread=1.5)
    scale = np.logspace(-2, 2, learnt.shape[1]).astype(np.float32)
    answers = probe.linear_probe(learnt, labels, tested)
    assert (answers == probe.linear_probe(learnt * scale + 7, labels, tested * scale + 7)).all()


def tagged(*sentences):
    """Sentences of form/tag pairs."""
    return [
        [
            Example(
                word=pair.split("/")[0],
                tokens=tuple(p.split("/")[0] for p in sentence.split()),
                place=place,
                label=pair.split("/")[1],
            )
            for place, pair in enumerate(sentence.split())
        ]
        for sentence in sentences
    ]


def test_control_of_tags_is_the_most_frequent_one_of_the_form(emb):
    learnt = tagged("a/X b/Y", "a/X a/Y c/X")
    tested = tagged("a/X a/Y b/Y new/X new/Y")  # unseen forms get X, the most frequent of all
    majority, *layers = probe.probe_tags(emb, learnt, tested, layers=[0, 2])
    assert (majority.method, majority.layer) == ("majority", None)
    assert majority.mean == pytest.approx(3 / 5)
    assert [found.layer for found in layers] == [0, 2]


def test_tags_of_forms_are_read_off_layer_0(emb):
    learnt = tagged(*["cat/N runs/V", "dog/N sits/V", "sun/N sets/V"] * 9)
    scores = probe.probe_tags(emb, learnt, learnt, layers=[0], seeds=2)
    assert scores[1].seeds == (1, 1)
    assert scores[1].spread == 0


def sense(word, label, text, place):
    return Example(word=word, tokens=tuple(text.split()), place=place, label=label)


LEARNT = [
    sense("bank-n", "money", "the bank", 1),
    sense("bank-n", "money", "a bank", 1),
    sense("bank-n", "river", "bank water", 0),
    sense("row-n", "line", "a row of trees", 1),
]


def test_senses_are_compared_within_a_word_and_unseen_words_get_their_first(emb):
    tested = [
        sense("bank-n", "money", "the bank", 1),
        sense("bank-n", "river", "bank water", 0),
        sense("row-n", "line", "bank water", 0),  # the vector of river, yet another word
        sense("light-n", "lamp of a very long name", "the light", 1),
    ]
    known = {"light-n": "lamp of a very long name", "bank-n": "never used"}
    scores = probe.probe_senses(emb, LEARNT, tested, layers=[2], first_senses=known)
    majority, nearest, linear = scores
    assert majority.words == {"bank-n": 0.5, "light-n": 1, "row-n": 1}
    assert nearest.mean == 1
    assert linear.words["row-n"] == 1
    assert probe.probe_senses(emb, LEARNT, tested, layers=[2])[1].words["light-n"] == 0


def test_seeds_learn_from_different_parts_and_repeat(emb):
    learnt = [sense("w-n", "ab"[i % 2], f"{'ab'[i % 2]} w {i}", 1) for i in range(20)]
    first, again = (
        probe.probe_senses(emb, learnt, learnt, layers=[1], seeds=3)[1] for _ in range(2)
    )
    assert first == again
    assert len(first.seeds) == 3
    parts = [part.tolist() for part in probe._draw(20, 3)]
    assert [len(set(part)) for part in parts] == [16, 16, 16]
    assert all(part == sorted(part) and set(part) <= {*range(20)} for part in parts)
    assert parts[0] != parts[1] != parts[2] != parts[0]


def test_one_label_only(emb):
    with pytest.raises(InputError, match="all training words have the sense 'money'"):
        probe.probe_senses(emb, LEARNT[:2], LEARNT, layers=[0])
    with pytest.raises(InputError, match="all training words have the tag 'N'"):
        probe.probe_tags(emb, tagged("a/N b/N"), tagged("a/N"), layers=[0])


def test_no_word_at_all(emb):
    with pytest.raises(InputError, match="not a single word to learn from; give words with their"):
        probe.probe_tags(emb, [], tagged("a/N"), layers=[0])
    with pytest.raises(InputError, match="not a single word to be scored on"):
        probe.probe_tags(emb, tagged("a/N b/V"), [[]], layers=[0])
    with pytest.raises(InputError, match="not a single word to be scored on"):
        probe.probe_senses(emb, LEARNT, [], layers=[0])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a.1\tx\t2\tonly two", "line 2: the word's place is '2', the sentence has 2 tokens"),
        ("a.1\tx\t-1\tonly two", "the word's place is '-1'"),
        ("a.1\tx\t\t ", "the word's place is ''"),
        ("a.1\tx\t0", "line 2: found 3 columns, expected 4"),
        ("a.1\t \t0\tone", "line 2: the sense is missing"),
    ],
)
def test_a_bad_line_of_senses(tmp_path, line, message):
    path = tmp_path / "s.tsv"
    path.write_text(f"a.0\tx\t0\tone\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_senses(path)


def test_senses_are_read(tmp_path):
    path = tmp_path / "s.tsv"
    path.write_text("line-n.w7_034:\ttext\t2\tthe first line\n\n", encoding="utf-8")
    assert read_senses(path) == [sense("line-n", "text", "the first line", 2)]


def test_limits_hold_for_senses_too(emb, tmp_path):
    lines = [
        f"{x.word}.{i}\t{x.label}\t{x.place}\t{' '.join(x.tokens)}\n" for i, x in enumerate(LEARNT)
    ]
    path = tmp_path / "s.tsv"
    path.write_text("".join(lines), encoding="utf-8")
    limited, _ = probe.run_probe(emb, [str(path)], [str(path)], layers=[2], limits=(3, 2))
    assert limited == probe.probe_senses(emb, LEARNT[:3], LEARNT[:2], layers=[2])


def test_files_of_one_kind(emb, tmp_path):
    with pytest.raises(ConfigError, match="not both"):
        probe.run_probe(emb, ["a.tsv"], ["b.conllu"], layers=[0])
    with pytest.raises(ConfigError, match="first_senses: belongs"):
        probe.run_probe(emb, ["a.conllu"], ["b.conllu"], layers=[0], first_senses="x")
    with pytest.raises(ConfigError, match="field: belongs to CoNLL-U files; leave it out"):
        probe.run_probe(emb, ["a.tsv"], ["b.tsv"], layers=[0], field="upos")
    for limits, name in (((0, None), "max_train"), ((None, 0), "max_dev")):
        with pytest.raises(ConfigError, match=f"{name}: 0 must be 1 or more"):
            probe.run_probe(emb, ["a.tsv"], ["b.tsv"], layers=[0], limits=limits)
    for seeds in (0, 10**12):
        with pytest.raises(ConfigError, match=f"seeds: {seeds} must be 1 to 100"):
            probe.run_probe(emb, ["a.tsv"], ["b.tsv"], layers=[0], seeds=seeds)
    path = tmp_path / "first.txt"
    path.write_text("bank money\n", encoding="utf-8")
    data = tmp_path / "s.tsv"
    data.write_text("a.0\tx\t0\tone\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"first.txt: line 1: expected a word, a tab and a sense"):
        probe.run_probe(emb, [str(data)], [str(data)], layers=[0], first_senses=str(path))
