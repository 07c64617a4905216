import dataclasses

import pytest

from elmokit.text.row import Row


def test_a_row_is_frozen_and_has_no_more_than_it_was_given():
    row = Row(("a",), 3)
    assert (row.id, row.text, row.offsets) == (None, None, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.line = 4
    assert not hasattr(row, "__dict__")
