"""The same sentence has the same vectors, whatever runs beside it, before it, and where."""

import multiprocessing
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from builders import sentences_of_lengths
from elmokit import Embedder

SENTENCES = sentences_of_lengths(range(1, 41))
FORWARD = tuple(range(40))
ORDERS = {
    "forward": FORWARD,
    "reversed": FORWARD[::-1],
    "shuffled": tuple(random.Random(3).sample(FORWARD, 40)),
}


def load(fixtures, **settings):
    return Embedder.from_pretrained(fixtures / "A2_bilm_skip", device="cpu", **settings)


def groups(order, size):
    return [order[start : start + size] for start in range(0, len(order), size)]


def assert_same(found, expected):
    """|x - y| <= 1e-5 * max(1, |x|), element by element."""
    assert found.shape == expected.shape
    error = np.abs(found - expected) / np.maximum(1, np.abs(expected))
    assert error.max() <= 1e-5


@pytest.fixture(scope="module", params=["fp32", "bf16", "int8"])
def precision(request):
    return request.param


@pytest.fixture(scope="module")
def alone(fixtures, precision):
    """Each sentence on its own, every word type encoded for it anew."""
    embedder = load(fixtures, precision=precision, cache_words=0)
    return [embedder.embed([sentence])[0] for sentence in SENTENCES]


def check(embedder, group, expected):
    found = embedder.embed([SENTENCES[number] for number in group])
    for number, vectors in zip(group, found, strict=True):
        assert_same(vectors, expected[number])


@pytest.mark.parametrize("size", [1, 7, 35, 36, 40])
@pytest.mark.parametrize("order", ORDERS)
def test_groups_and_order(fixtures, precision, alone, order, size):
    embedder = load(fixtures, precision=precision)
    for group in groups(ORDERS[order], size):
        check(embedder, group, alone)


@pytest.mark.parametrize("batch_tokens", [1, 100, 1_000_000])
def test_batch_tokens(fixtures, precision, alone, batch_tokens):
    check(load(fixtures, precision=precision, batch_tokens=batch_tokens), FORWARD, alone)


@pytest.mark.parametrize("cache_words", [0, 20, 1000])
def test_cold_and_warm_cache(fixtures, precision, alone, cache_words):
    embedder = load(fixtures, precision=precision, cache_words=cache_words)
    check(embedder, FORWARD, alone)
    check(embedder, FORWARD, alone)
    embedder.clear_cache()
    embedder.warm(word for sentence in SENTENCES for word in sentence)
    check(embedder, FORWARD, alone)


def test_precisions_differ(fixtures):
    """Else the tests above would test one of them twice."""
    full, *others = (
        load(fixtures, precision=name).embed(SENTENCES[5:6]) for name in ("fp32", "bf16", "int8")
    )
    for rounded in others:
        assert np.abs(full[0] - rounded[0]).max() > 1e-3


def test_two_threads_with_one_embedder(fixtures, precision, alone):
    embedder = load(fixtures, precision=precision, cache_words=50)  # words are evicted on the way
    work = [group for order in ORDERS.values() for group in groups(order, 5)]
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(check, embedder, group, alone) for group in work]:
            done.result()


def embed_three(embedder):
    return embedder.embed(SENTENCES[10:13])


def test_spawned_process(fixtures):
    embedder = load(fixtures)
    expected = embed_three(embedder)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(embed_three, (embedder,))
    for vectors, numbers in zip(found, expected, strict=True):
        assert_same(vectors, numbers)
