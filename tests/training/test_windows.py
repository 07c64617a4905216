import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from builders import char_bilm, word_bilm
from elmokit import BiLM
from elmokit.training import windows
from elmokit.training.corpus import prepare
from elmokit.training.streams import WindowStream, evaluation_windows
from elmokit.training.windows import TypeTable, as_step
from training.corpora import WORDS, numbered_corpus, write_text

CPU = torch.device("cpu")
ROWS, WINDOW = 3, 4


@pytest.fixture
def corpus(tmp_path):
    return numbered_corpus(tmp_path, [3, 1, 5, 2, 7, 4])


def words_read(batch, ids_of_word):
    """(2, B, W) words, from the ids of the types that a batch reads."""
    ids = batch.types.char_ids if batch.types.word_ids is None else batch.types.word_ids
    found = [ids_of_word[tuple(np.atleast_1d(row).tolist())] for row in ids.numpy()]
    assert len(set(found)) == len(found)  # each distinct type once
    return [
        np.array([found[number] for number in reading.tolist()], object).reshape(WINDOW, ROWS).T
        for reading in (batch.forward, batch.backward)
    ]


@pytest.mark.parametrize("kind", ["char", "word"])
def test_a_step_reads_the_window_in_both_directions(corpus, kind):
    bilm = char_bilm() if kind == "char" else word_bilm(list(corpus.types[2:]))
    table = TypeTable(corpus.types, bilm)
    types = bilm.encode_words(corpus.types)
    ids = types.char_ids if kind == "char" else types.word_ids[:, None]
    names = dict(zip(map(tuple, ids.tolist()), corpus.types, strict=True))
    stream = WindowStream(corpus, batch_size=ROWS, window=WINDOW)
    for _ in range(5):
        window = next(stream)
        batch, targets, mask = as_step(window, table, CPU)
        assert mask is None
        assert batch.batch_sizes == (ROWS,) * WINDOW
        read = words_read(batch, names)
        for direction, reading in enumerate((window.forward, window.backward)):
            expected = np.array(corpus.types, object)[reading.types]
            np.testing.assert_array_equal(read[direction], expected)
            packed = targets[direction].reshape(WINDOW, ROWS).t()
            np.testing.assert_array_equal(packed, reading.targets)
        distinct = np.unique([window.forward.types, window.backward.types])
        assert len(batch.types) == len(distinct)


def test_what_is_read_forward_is_foretold_one_position_before(corpus):
    """In packed order too: row r of step t + 1 holds what row r of step t foretells."""
    table = TypeTable(corpus.types, char_bilm())
    stream = WindowStream(corpus, batch_size=ROWS, window=WINDOW)
    window = next(stream)
    batch, targets, _ = as_step(window, table, CPU)
    numbers = np.unique([window.forward.types, window.backward.types])
    for read, words in zip((batch.forward, batch.backward), targets, strict=True):
        rows = corpus.targets[numbers[read.numpy()]].reshape(WINDOW, ROWS)
        foretold = words.numpy().reshape(WINDOW, ROWS)[:-1]
        ends = np.isin(foretold, corpus.targets[:2])  # what comes next is another sentence
        np.testing.assert_array_equal(rows[1:][~ends], foretold[~ends])
        assert (~ends).any()


def test_a_mask_is_packed_as_the_predictions_are(corpus):
    table, num_predictions = TypeTable(corpus.types, char_bilm()), 0
    for window in evaluation_windows(corpus, batch_size=ROWS, window=WINDOW):
        _, _, mask = as_step(window, table, CPU)
        assert mask.dtype == torch.bool
        np.testing.assert_array_equal(mask.reshape(WINDOW, ROWS).t(), window.mask)
        num_predictions += int(mask.sum())
    assert num_predictions == corpus.num_predictions


def test_a_table_is_made_chunk_by_chunk(corpus, monkeypatch):
    bilm = char_bilm()
    whole = bilm.encode_words(corpus.types).char_ids
    monkeypatch.setattr(windows, "_CHUNK", 4)
    table = TypeTable(corpus.types, bilm)
    numbers = np.array([5, 0, len(corpus.types) - 1])
    selected = table.select(numbers)
    assert torch.equal(selected.char_ids, whole[numbers])
    assert selected.word_ids is None
    assert table._char_ids.dtype == np.int16


def test_a_large_alphabet_keeps_its_ids(fixtures, corpus):
    bilm = BiLM.from_pretrained(fixtures / "B_efml_char_cnn")
    alphabet = dataclasses.replace(
        bilm.alphabet,
        characters={**bilm.alphabet.characters, "0": 70_000},
        num_characters=70_000,
    )
    large = SimpleNamespace(
        alphabet=alphabet,
        boundaries=alphabet.sentence_marks,
        encode_words=lambda words: BiLM.encode_words(
            SimpleNamespace(alphabet=alphabet, words=None, device=CPU), words
        ),
    )
    table = TypeTable(corpus.types, large)
    number = list(corpus.types).index("0.0")
    assert table.select(np.array([number])).char_ids[0].tolist().count(70_000) == 2


@pytest.mark.parametrize("folder", ["B_efml_char_cnn", "B_efml_word_char_cnn", "B_efml_word_only"])
def test_boundaries_are_those_of_the_model(fixtures, tmp_path, folder):
    """A corpus names them <S> and </S>; ELMoForManyLangs reads <bos> and <eos>."""
    bilm = BiLM.from_pretrained(fixtures / folder)
    assert bilm.boundaries == ("<bos>", "<eos>")
    text = write_text(tmp_path / "in.txt", ["the cat", "sat"])
    corpus = prepare([str(text)], WORDS, tmp_path / "corpus")
    found = TypeTable(corpus.types, bilm).select(np.array([0, 1, 2]))
    expected = bilm.encode_words(["<bos>", "<eos>", corpus.types[2]])
    for one, other in zip(
        (found.char_ids, found.word_ids), (expected.char_ids, expected.word_ids), strict=True
    ):
        assert (one is None) == (other is None)
        assert one is None or torch.equal(one, other)
