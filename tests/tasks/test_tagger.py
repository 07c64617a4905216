import itertools

import pytest

from elmokit.metrics.spans import first_invalid
from elmokit.tasks.tagger import allowed_moves

TAGS = ["O", "B-X", "I-X", "B-Y", "I-Y"]


@pytest.mark.parametrize("scheme", ["IOB2", "IOB1", None])
def test_allowed_moves_are_those_of_valid_sequences(scheme):
    allowed = allowed_moves(TAGS, scheme)
    for path in itertools.product(range(len(TAGS)), repeat=3):
        steps = itertools.pairwise([-1, *path, -1])
        is_valid = scheme is None or first_invalid([TAGS[tag] for tag in path], scheme) is None
        assert all(allowed[step] for step in steps) == is_valid
