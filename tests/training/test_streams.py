import json
import logging
import math
from itertools import chain, islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import ConfigError, InputError, OutputError
from elmokit.training.corpus import prepare
from elmokit.training.streams import WindowStream, evaluation_windows
from elmokit.vocabulary import BEGIN, END, Vocabulary
from training.corpora import WORDS, numbered_corpus, write_text

LENGTHS = [3, 1, 7, 2, 5, 1, 4, 9, 2, 6, 3]

DIRECTIONS = ("forward", "backward")


@pytest.fixture
def corpus(tmp_path):
    return numbered_corpus(tmp_path, LENGTHS)


def pairs(corpus, reading):
    """B rows of (word read, word to predict)."""
    words = corpus.vocabulary.words
    return [
        [(corpus.types[t], words[target]) for t, target in zip(types, targets, strict=True)]
        for types, targets in zip(reading.types, reading.targets, strict=True)
    ]


def expected_pairs(corpus, sentence, direction):
    """What a direction reads and predicts of a sentence, from its definition."""
    words = [corpus.types[number] for number in corpus.sentence(sentence)]
    if direction == "forward":
        return list(zip([BEGIN, *words], [*words, END], strict=True))
    return list(zip([END, *words[::-1]], [*words[::-1], BEGIN], strict=True))


def joined(lists):
    return list(chain.from_iterable(lists))


def sentence_of(pair):
    """The number of the sentence that begins with this pair."""
    return int(pair[1].partition(".")[0])


def is_start(pair):
    return pair[0] in (BEGIN, END)


def begun(corpus, windows, direction):
    """The sentences in the order in which rows have taken them."""
    return [
        sentence_of(pair)
        for window in windows
        for row in pairs(corpus, getattr(window, direction))
        for pair in row
        if is_start(pair)
    ]


def rows_read(corpus, windows, direction):
    """What each row has read over all windows."""
    readings = [pairs(corpus, getattr(window, direction)) for window in windows]
    return [joined(rows) for rows in zip(*readings, strict=True)]


# What is read


def test_both_directions_read_as_bilm_tf_does(corpus):
    for direction in DIRECTIONS:
        stream = WindowStream(corpus, batch_size=1, window=60)
        (row,) = rows_read(corpus, [next(stream)], direction)
        read = [
            expected_pairs(corpus, sentence_of(pair), direction) for pair in row if is_start(pair)
        ]
        assert row == joined(read)[:60]


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.tuples(st.integers(1, 4), st.integers(1, 7), st.integers(1, 3), st.integers(0, 2**70)),
)
def test_every_prediction_of_an_epoch_is_made_once(tmp_path_factory, lengths, sizes):
    batch_size, window, world_size, seed = sizes
    world_size = min(world_size, len(lengths))
    corpus = numbered_corpus(tmp_path_factory.mktemp("corpus"), lengths)
    num_epochs = 2
    for direction in DIRECTIONS:
        epochs: list[list[int]] = [[] for _ in range(num_epochs)]
        for rank in range(world_size):
            stream = WindowStream(
                corpus,
                **{"batch_size": batch_size, "window": window, "seed": seed},
                **{"rank": rank, "world_size": world_size},
            )
            share = len(range(rank, len(lengths), world_size))
            windows = []
            while len(taken := begun(corpus, windows, direction)) < num_epochs * share:
                windows.append(next(stream))
            for epoch in range(num_epochs):
                epochs[epoch] += taken[epoch * share : (epoch + 1) * share]
            for row in rows_read(corpus, windows, direction):
                starts = [sentence_of(pair) for pair in row if is_start(pair)]
                whole = joined(expected_pairs(corpus, s, direction) for s in starts)
                assert row == whole[: len(row)]  # whole sentences, the last one under way
        assert [sorted(epoch) for epoch in epochs] == [list(range(len(lengths)))] * num_epochs


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_row_takes_the_next_unread_sentence_when_its_own_is_used_up(corpus, direction):
    stream = WindowStream(corpus, batch_size=1, window=200, seed=5)
    order = iter(begun(corpus, [next(stream)], direction))  # one row reads them one by one
    rows: list[list[tuple[str, str]]] = [[] for _ in range(3)]
    for window in islice(WindowStream(corpus, batch_size=3, window=4, seed=5), 10):
        for row, found in zip(rows, pairs(corpus, getattr(window, direction)), strict=True):
            expected = []
            while len(expected) < 4:
                if not row:
                    row += expected_pairs(corpus, next(order), direction)
                expected.append(row.pop(0))
            assert found == expected


def test_windows_have_the_shape_and_type_that_tensors_need(corpus):
    window = next(WindowStream(corpus, batch_size=3, window=4))
    assert window.mask is None
    for reading in (window.forward, window.backward):
        for array in (reading.types, reading.targets):
            assert (array.shape, array.dtype) == ((3, 4), np.int64)


def test_seeds_and_epochs_have_orders_of_their_own_which_directions_share(corpus):
    num = len(LENGTHS)
    orders = []
    for seed in (0, 1):
        windows = list(islice(WindowStream(corpus, batch_size=1, window=1, seed=seed), 120))
        taken = begun(corpus, windows, "forward")
        orders += [taken[:num], taken[num : 2 * num]]
        assert begun(corpus, windows, "backward") == taken
    assert all(sorted(order) == list(range(num)) for order in orders)
    assert len({tuple(order) for order in orders}) == len(orders)


def test_a_window_holds_the_same_sentences_in_both_directions(corpus):
    boundaries = [0, 1]
    for window in islice(WindowStream(corpus, batch_size=3, window=200), 3):
        forward, backward = (
            [sorted(set(row) - set(boundaries)) for row in reading.types.tolist()]
            for reading in (window.forward, window.backward)
        )
        for ahead, back in zip(forward, backward, strict=True):
            assert len(set(ahead) & set(back)) >= 0.8 * len(set(ahead) | set(back))


def test_the_order_depends_on_the_text(tmp_path):
    orders = []
    for i, lengths in enumerate((LENGTHS, [*LENGTHS[:-1], 4])):
        (tmp_path / str(i)).mkdir()
        corpus = numbered_corpus(tmp_path / str(i), lengths)
        window = next(WindowStream(corpus, batch_size=1, window=54))
        orders.append(begun(corpus, [window], "forward"))
    assert orders[0][:5] != orders[1][:5]


def test_unknown_words_are_read_as_they_are_and_predicted_as_unknown(tmp_path):
    text = write_text(tmp_path / "a.txt", ["the dog sat"])
    corpus = prepare([str(text)], WORDS, tmp_path / "made")
    window = next(WindowStream(corpus, batch_size=1, window=4))
    assert pairs(corpus, window.forward) == [
        [(BEGIN, "the"), ("the", "<UNK>"), ("dog", "sat"), ("sat", END)]
    ]
    assert pairs(corpus, window.backward) == [
        [(END, "sat"), ("sat", "<UNK>"), ("dog", "the"), ("the", BEGIN)]
    ]


def test_a_sentence_longer_than_many_windows_stays_in_its_row(tmp_path):
    text = write_text(tmp_path / "a.txt", ["the cat " * 5_000, "sat", "cat", "the"])
    corpus = prepare([str(text)], WORDS, tmp_path / "made")
    stream = WindowStream(corpus, batch_size=2, window=20, seed=1)
    assert stream.steps_per_epoch == math.ceil((10_001 + 3 * 2) / 40)
    whole = expected_pairs(corpus, 0, "forward")
    rows = rows_read(corpus, list(islice(stream, 540)), "forward")
    assert any(row[start : start + len(whole)] == whole for row in rows for start in range(20))


# How much there is


def test_the_plan_counts_predictions_of_all_processes(tmp_path):
    # 100 lines of 7 words: 800 predictions with the boundaries.
    text = write_text(tmp_path / "a.txt", ["the cat sat the cat sat the"] * 100)
    corpus = prepare([str(text)], WORDS, tmp_path / "made")
    assert corpus.num_predictions == 800
    for batch_size, world_size, steps in ((4, 1, 10), (4, 3, 4), (1, 1, 40), (40, 1, 1)):
        stream = WindowStream(corpus, batch_size=batch_size, window=20, world_size=world_size)
        assert stream.steps_per_epoch == steps
    windows = list(islice(WindowStream(corpus, batch_size=4, window=20), 10))
    for direction in DIRECTIONS:
        read = np.concatenate([getattr(window, direction).types for window in windows], axis=1)
        counts = np.bincount(read.ravel(), minlength=len(corpus.types))
        boundary = 0 if direction == "forward" else 1
        assert counts[2:].tolist() == corpus.type_counts[2:].tolist()
        assert (counts[boundary], counts[1 - boundary]) == (100, 0)


def test_a_corpus_smaller_than_a_step_is_read_more_than_once_with_a_warning(tmp_path, caplog):
    corpus = numbered_corpus(tmp_path, [2, 1])
    with caplog.at_level(logging.WARNING):
        stream = WindowStream(corpus, batch_size=3, window=4)
    (message,) = caplog.messages
    assert "5 predictions do not fill a step of 12" in message
    assert stream.steps_per_epoch == 1
    taken = begun(corpus, islice(stream, 5), "forward")  # 60 predictions are 12 epochs
    assert len(taken) >= 24
    assert all(sorted(taken[i : i + 2]) == [0, 1] for i in range(0, 24, 2))


def test_more_processes_than_sentences_are_refused(tmp_path):
    corpus = numbered_corpus(tmp_path, [2, 1])
    with pytest.raises(InputError, match="2 sentences cannot be shared among 3 processes"):
        WindowStream(corpus, batch_size=1, rank=0, world_size=3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "batch_size: 0 must be 1 or more"),
        ({"window": 0}, "window: 0 must be 1 or more"),
        ({"seed": -1}, "seed: -1 must be 0 or more"),
        ({"rank": 2, "world_size": 2}, r"rank: 2 must be 0 or more and below world_size \(2\)"),
        ({"rank": -1}, "rank: -1 must be 0 or more"),
    ],
)
def test_numbers_out_of_range_are_refused(corpus, settings, message):
    with pytest.raises(ConfigError, match=message):
        WindowStream(corpus, **{"batch_size": 1, **settings})


# Going on where it was


SETTINGS = {"batch_size": 3, "window": 4, "seed": 9, "rank": 1, "world_size": 2}


def assert_same(found, expected):
    for direction in DIRECTIONS:
        for name in ("types", "targets"):
            arrays = [getattr(getattr(window, direction), name) for window in (found, expected)]
            np.testing.assert_array_equal(*arrays)


@pytest.mark.parametrize("steps", [0, 1, 7, 40])
def test_a_restored_stream_goes_on_exactly_across_epochs_and_twice(corpus, steps):
    straight = WindowStream(corpus, **SETTINGS)
    for _ in range(steps):
        next(straight)
    for _ in range(2):
        state = straight.state()
        resumed = WindowStream(corpus, **SETTINGS)
        next(resumed)  # what was read before does not matter
        resumed.restore(json.loads(json.dumps(state)))
        assert resumed.state() == state
        for _ in range(8):
            assert_same(next(resumed), next(straight))
        for direction in DIRECTIONS:
            assert straight.state()[direction]["epoch"] > state[direction]["epoch"]


def test_a_place_is_a_few_integers(corpus):
    stream = WindowStream(corpus, **SETTINGS)
    next(stream)
    state = stream.state()
    assert state.pop("fingerprint") == corpus.fingerprint
    readings = [state.pop(direction) for direction in DIRECTIONS]
    assert state == SETTINGS
    for reading in readings:
        assert {name: np.size(value) for name, value in reading.items()} == {
            **{"epoch": 1, "cursor": 1, "places": 3, "left": 3},
        }


@pytest.mark.parametrize("name", SETTINGS)
def test_another_layout_is_refused(corpus, name):
    state = WindowStream(corpus, **SETTINGS).state()
    other = WindowStream(corpus, **{**SETTINGS, name: SETTINGS[name] + 1, "world_size": 3})
    with pytest.raises(OutputError, match=rf"{name} {SETTINGS[name]} -> {SETTINGS[name] + 1}"):
        other.restore(state)


def test_another_text_or_vocabulary_is_refused(corpus, tmp_path):
    state = WindowStream(corpus, **SETTINGS).state()
    text = str(tmp_path / "numbered.txt")
    words = Vocabulary((*corpus.vocabulary.words, "more"))
    for other in (
        prepare([text], words, tmp_path / "numbered"),
        numbered_corpus(tmp_path, [*LENGTHS, 1]),
    ):
        stream = WindowStream(other, **SETTINGS)
        before = next(stream), stream.state()
        with pytest.raises(OutputError, match="cannot resume with other text, words") as caught:
            stream.restore(state)
        assert f"fingerprint {corpus.fingerprint} -> {other.fingerprint}" in str(caught.value)
        assert stream.state() == before[1]


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": -1},
        {"cursor": 99},
        {"cursor": -1},
        {"places": [0, 0]},
        {"left": [0, 0, 0, 0]},
        {"places": [0, 0, 99]},
        {"left": [0, 0, 99]},
        {"left": [0, 0, -1]},
        {"epoch": "one"},
        {"nothing": 1},
    ],
)
def test_a_damaged_place_is_refused(corpus, change):
    stream = WindowStream(corpus, **SETTINGS)
    next(stream)
    before = stream.state()
    for direction in DIRECTIONS:
        with pytest.raises(ConfigError, match="place in the data"):
            stream.restore({**before, direction: {**before[direction], **change}})
    assert stream.state() == before
    with pytest.raises(ConfigError, match="field 'forward' is missing"):
        stream.restore({name: value for name, value in before.items() if name != "forward"})


# Evaluation


def evaluated(corpus, windows, direction):
    """Each row's predictions that count."""
    rows: list[list[tuple[str, str]]] = []
    for window in windows:
        found = pairs(corpus, getattr(window, direction))
        rows = rows or [[] for _ in found]
        for row, read, mask in zip(rows, found, window.mask, strict=True):
            assert (np.diff(mask.astype(int)) <= 0).all()  # padding is at the end
            row += [pair for pair, counts in zip(read, mask, strict=True) if counts]
    return rows


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 6), st.integers(1, 30))
def test_evaluation_makes_every_prediction_once_in_order(tmp_path_factory, lengths, rows, size):
    corpus = numbered_corpus(tmp_path_factory.mktemp("corpus"), lengths)
    windows = list(evaluation_windows(corpus, batch_size=rows, window=size))
    for direction in DIRECTIONS:
        expected = [expected_pairs(corpus, i, direction) for i in range(len(lengths))]
        found = evaluated(corpus, windows, direction)
        assert joined(found) == joined(expected)
        # A row begins with a sentence, and what it reads does not depend on the window.
        assert all(is_start(row[0]) for row in found if row)
        other = evaluation_windows(corpus, batch_size=rows, window=size + 3)
        assert evaluated(corpus, other, direction) == found
    assert all(window.mask.any() for window in windows)


def test_rows_of_an_evaluation_are_about_equal(tmp_path):
    corpus = numbered_corpus(tmp_path, [4, 5, 3, 6] * 25)
    windows = list(evaluation_windows(corpus, batch_size=5, window=11))
    assert len(windows) <= math.ceil((corpus.num_predictions / 5 + 7) / 11)
    assert sum(window.mask.sum() for window in windows) == corpus.num_predictions


def test_an_evaluation_checks_its_sizes_at_once(corpus):
    with pytest.raises(ConfigError, match="batch_size: 0 must be 1 or more"):
        evaluation_windows(corpus, batch_size=0, window=1)
    with pytest.raises(ConfigError, match="window: 0 must be 1 or more"):
        evaluation_windows(corpus, batch_size=1, window=0)


@pytest.mark.parametrize(("kind", "num_predictions"), [("char", 542), ("word", 538)])
def test_evaluation_reads_what_bilm_tf_tests_on(reference, tmp_path, kind, num_predictions):
    place = reference / f"E_training_{kind}"
    words = Vocabulary(tuple((place / "vocab.txt").read_text().split()))
    corpus = prepare([str(place / "heldout.txt")], words, tmp_path / "made")
    windows = list(evaluation_windows(corpus, batch_size=1, window=1))
    assert len(windows) == num_predictions
    assert all(window.mask.all() for window in windows)
