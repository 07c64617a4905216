from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.embedding.schedule import cut_parts, plan


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 100))
def test_a_plan_holds_every_sentence_once_within_its_budget(lengths, budget):
    batches = plan(lengths, budget)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    for batch in batches:
        tokens = sum(lengths[place] + 2 for place in batch)
        assert tokens <= budget or len(batch) == 1
    flat = [lengths[place] for batch in batches for place in batch]
    assert flat == sorted(flat, reverse=True)


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 5), st.integers(1, 20))
def test_parts_keep_order_and_limits(lengths, max_rows, max_tokens):
    rows = [[0] * length for length in lengths]
    parts = list(cut_parts(rows, max_rows=max_rows, max_tokens=max_tokens))
    assert [row for part in parts for row in part] == rows
    for part in parts:
        assert 1 <= len(part) <= max_rows
        assert sum(map(len, part[:-1])) < max_tokens


def test_parts_read_no_further_than_they_must():
    seen = []

    def rows():
        for number in range(10):
            seen.append(number)
            yield "abc"

    next(cut_parts(rows(), max_rows=3, max_tokens=100))
    assert seen == [0, 1, 2]
