import gzip
import json

import numpy as np
import pytest
import torch
from checkpoint_samples import (
    assert_equal,
    edit_hdf5,
    edit_json,
    hdf5_arrays,
    one_line,
    write_hdf5,
)

from elmokit.checkpoints import layout, read, write


@pytest.fixture
def cached(skip, fixtures):
    """Loose files: the model of characters with token embeddings."""
    place = fixtures / "A3_cached_tokens"
    return {
        "options": skip / "options.json",
        "weights": skip / "weights.hdf5",
        "vocab": place / "vocab.txt",
        "token_embeddings": place / "token_embeddings.hdf5",
    }


# Models of word ids


def test_word_ids_are_those_of_the_original(words, fixtures):
    checkpoint = read(words)
    expected = np.load(fixtures / "A3_token_lm/token_ids_plus1.npz")
    sentences = json.loads((fixtures / "A2_sentences.json").read_text())
    for i, sentence in enumerate(sentences):
        ids = [checkpoint.words.encode(word) for word in ["<S>", *sentence, "</S>"]]
        assert ids == expected[f"s{i:02d}"].tolist()
    assert checkpoint.config.characters is None
    assert not checkpoint.config.token_projection
    table = checkpoint.tensors[layout.WORDS].numpy()
    np.testing.assert_array_equal(table[1:], hdf5_arrays(words / "weights.hdf5")["embedding"])


def test_model_of_word_ids_needs_its_words(words):
    (words / "vocab.txt").unlink()
    with one_line(words / "weights.hdf5", "word list", "vocab.txt", "107 rows"):
        read(words)


def test_number_of_words_must_be_that_of_the_rows(words):
    path = words / "vocab.txt"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:20]))
    with one_line(path, "20 words", words / "weights.hdf5", "107 rows"):
        read(words)


@pytest.mark.parametrize("special", ["<S>", "</S>", "<UNK>"])
def test_special_words_must_be_listed(words, special):
    path = words / "vocab.txt"
    path.write_text(path.read_text().replace(f"{special}\n", "other\n", 1))
    with one_line(path, repr(special)):
        read(words)


def test_word_list_is_read_as_bilm_tf_reads_it(words):
    lines = (words / "vocab.txt").read_text().split("\n")[:-1]
    lines[10], lines[11] = "  spaced out\t", lines[12]
    text = "\ufeff" + "\r\n".join([*lines[:50], "!!!MAXTERMID", *lines[50:]])
    (words / "vocab.txt").write_bytes(text.encode())
    input_words = read(words).words
    assert input_words.encode("<S>") == 1
    assert input_words.encode("spaced out") == 11
    assert input_words.encode(lines[12]) == 13
    assert input_words.encode("!!!MAXTERMID") == input_words.encode("<UNK>") == 3
    assert input_words.encode(lines[60]) == 61


def test_word_list_may_be_packed(words):
    expected = read(words)
    (words / "vocab.txt.gz").write_bytes(gzip.compress((words / "vocab.txt").read_bytes()))
    (words / "vocab.txt").unlink()
    assert_equal(expected, read(words))
    (words / "vocab.txt.gz").write_bytes(b"\x1f\x8bnot gzip")
    with one_line(words / "vocab.txt.gz"):
        read(words)


def test_lost_char_cnn_block_is_named(skip):
    edit_json(skip / "options.json", char_cnn=None)
    with one_line(skip / "weights.hdf5", "'char_embed'", "options.json has no block char_cnn"):
        read(skip)


def test_options_with_characters_for_a_model_of_words(words, skip):
    (skip / "options.json").rename(words / "options.json")
    with one_line(words / "weights.hdf5", "no 'char_embed'", "options.json"):
        read(words)


def test_neither_characters_nor_words(words):
    edit_hdf5(words / "weights.hdf5", embedding=None)
    with one_line(words / "weights.hdf5", "neither", "token_embeddings=", "vocab="):
        read(words)


# Token embeddings


def test_token_embeddings_take_the_place_of_the_characters(cached, skip):
    checkpoint, whole = read(**cached), read(skip)
    assert checkpoint.alphabet is None
    assert checkpoint.config.characters is None
    assert checkpoint.config.lstm == whole.config.lstm
    assert checkpoint.words.words[:4] == ("<S>", "</S>", "<UNK>", "The")
    table = checkpoint.tensors[layout.WORDS].numpy()
    np.testing.assert_array_equal(table[1:], hdf5_arrays(cached["token_embeddings"])["embedding"])
    for name, tensor in checkpoint.tensors.items():
        assert name == layout.WORDS or torch.equal(tensor, whole.tensors[name])


def test_token_embeddings_serve_a_model_without_any(words, fixtures, tmp_path):
    expected = read(words)
    table = hdf5_arrays(words / "weights.hdf5")["embedding"]
    write_hdf5(tmp_path / "tokens.hdf5", {"embedding": table})
    edit_hdf5(words / "weights.hdf5", embedding=None)
    files = {"options": words / "options.json", "weights": words / "weights.hdf5"}
    files |= {"vocab": words / "vocab.txt", "token_embeddings": tmp_path / "tokens.hdf5"}
    assert_equal(expected, read(**files))


def test_token_embeddings_need_their_words(cached, tmp_path):
    del cached["vocab"]
    with one_line(cached["token_embeddings"], "123 rows", "vocab="):
        read(**cached)


def test_token_embeddings_and_words_must_agree(cached, tmp_path):
    cached["vocab"] = tmp_path / "vocab.txt"
    cached["vocab"].write_text("<S>\n</S>\n<UNK>\n")
    with one_line(cached["vocab"], "3 words", cached["token_embeddings"], "123 rows"):
        read(**cached)


def test_token_embeddings_of_another_width_are_told(cached, tmp_path):
    cached["token_embeddings"] = tmp_path / "tokens.hdf5"
    write_hdf5(cached["token_embeddings"], {"embedding": np.zeros((123, 15), "f")})
    with one_line(cached["token_embeddings"], "(123, 15) instead of (123, 16)"):
        read(**cached)
    write_hdf5(cached["token_embeddings"], {"vectors": np.zeros((123, 16), "f")})
    with one_line(cached["token_embeddings"], "'embedding'"):
        read(**cached)


def test_cached_model_can_be_written(cached, tmp_path):
    checkpoint = read(**cached)
    for format in ("native", "allennlp"):
        write(checkpoint, tmp_path / format, format=format)
        assert_equal(checkpoint, read(tmp_path / format))
