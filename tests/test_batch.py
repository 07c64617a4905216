import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.batch import Batch, Types, send
from elmokit.errors import InputError

SENTENCES = st.lists(st.lists(st.integers(0, 9), min_size=2, max_size=7), min_size=1, max_size=8)


def positions_of(batch: Batch, row: int) -> list[int]:
    """Packed positions of a packed row, in time order."""
    offset, found = 0, []
    for size in batch.batch_sizes:
        if row < size:
            found.append(offset + row)
        offset += size
    return found


@settings(deadline=None, derandomize=True)
@given(SENTENCES)
def test_both_readings_unpack_to_the_sentences(sentences):
    batch = Batch.from_sentences(sentences, Types())
    assert list(batch.batch_sizes) == sorted(batch.batch_sizes, reverse=True)
    assert sum(batch.batch_sizes) == batch.num_positions
    flipped = batch.flipped()
    for row, caller in enumerate(batch.rows.tolist()):
        where = positions_of(batch, row)
        assert batch.forward[where].tolist() == sentences[caller]
        assert batch.backward[where].tolist() == sentences[caller][::-1]
        assert batch.backward[flipped[where]].tolist() == sentences[caller]
        assert batch.last_positions()[row] == where[-1]
    for boundaries in (False, True):
        positions, lengths = batch.unpacked(boundaries=boundaries)
        inner = slice(None) if boundaries else slice(1, -1)
        expected = [sentences[caller][inner] for caller in batch.rows.tolist()]
        pieces = batch.forward[positions].split(lengths.tolist())
        assert [piece.tolist() for piece in pieces] == expected


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=6))
def test_ids_and_sentences_give_the_same_layout(lengths):
    begin, end = torch.tensor([8, 9, 0]), torch.tensor([9, 8, 0])
    ids = torch.zeros(len(lengths), max(lengths) + 1, 3, dtype=torch.int64)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.randint(1, 5, (length, 3))
    batch = Batch.from_ids(ids, begin, end)
    chars = batch.types.char_ids
    assert len(torch.unique(chars, dim=0)) == len(chars)
    for row, caller in enumerate(batch.rows.tolist()):
        expected = torch.cat([begin[None], ids[caller, : lengths[caller]], end[None]])
        assert torch.equal(chars[batch.forward[positions_of(batch, row)]], expected)


def test_ids_of_a_wrong_width_are_refused():
    marks = torch.arange(1, 11)
    with pytest.raises(InputError, match=r"expected shape \(B, T, 10\).*max_characters=10"):
        Batch.from_ids(torch.ones(2, 3, 50, dtype=torch.int64), marks, marks)


def test_a_hole_in_a_row_is_refused():
    ids = torch.tensor([[[1, 1], [0, 0], [1, 1]]])
    with pytest.raises(InputError, match="zeros stands before the last token"):
        Batch.from_ids(ids, torch.tensor([1, 2]), torch.tensor([2, 1]))


@pytest.mark.parametrize("sentences", [[], [[0, 1], []]])
def test_an_empty_batch_is_refused(sentences):
    with pytest.raises(InputError, match="at least one sentence"):
        Batch.from_sentences(sentences, Types())


def test_what_goes_to_a_gpu_is_pinned_and_not_waited_for():
    log = []

    class Pageable:
        is_cuda = False

        def pin_memory(self):
            log.append("pinned")
            return self

        def to(self, device, non_blocking=False):
            log.append((str(device), non_blocking))

    send(Pageable(), torch.device("cuda:0"))
    assert log == ["pinned", ("cuda:0", True)]
    here = torch.zeros(2)
    assert send(here, torch.device("cpu")) is here
