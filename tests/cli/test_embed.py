import gzip
import io
import json
import sys
import zipfile

import h5py
import numpy as np
import pytest
import torch

from elmokit import BiLM, Embedder, open_embeddings

# A token of a file may hold white space; in Python that gives a warning.
pytestmark = pytest.mark.filterwarnings("ignore:.*the token holds white space:UserWarning")

TEXT = "the cat sat on the mat\n\nна\u00efve 深い\nthe cat\n"
SENTENCES = [line.split() for line in TEXT.split("\n")[:-1]]


@pytest.fixture(scope="module")
def model(fixtures):
    return fixtures / "A2_bilm_skip"


@pytest.fixture(scope="module")
def emb(model):
    return Embedder.from_pretrained(model)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def embed(elmo, model, tmp_path):
    """Embeds a file and returns all rows as (tokens, vectors)."""

    def run(source, *options, output="out.h5", model=model):
        ran = elmo("embed", source, "-o", tmp_path / output, "--model", model, *options)
        assert (ran.code, ran.out) == (0, ""), ran
        assert not (tmp_path / f"{output}.parts").exists()
        with open_embeddings(tmp_path / output) as stored:
            return [(stored.tokens(row), stored[row]) for row in range(len(stored))]

    return run


def assert_rows(rows, sentences, vectors, **tolerance):
    assert [tokens for tokens, _ in rows] == [tuple(sentence) for sentence in sentences]
    for (_, found), expected in zip(rows, vectors, strict=True):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, **{"rtol": 1e-5, "atol": 1e-5} | tolerance)


@pytest.mark.parametrize("output", ["a.h5", "a.hdf5", "a.npz", "a.parquet", "a.jsonl", "A.H5"])
def test_every_format_of_output(embed, text, emb, output):
    assert_rows(embed(text, output=output), SENTENCES, emb.embed(SENTENCES))


def test_hdf5_is_laid_out_as_the_original_commands_do(embed, text, emb, tmp_path):
    embed(text)
    with h5py.File(tmp_path / "out.h5") as file:
        assert sorted(file) == ["0", "1", "2", "3", "lines", "sentence_to_index", "sentences"]
        assert file["0"].shape == (4, 6, 32)
        assert file["1"].shape == (4, 0, 32)
        index = json.loads(file["sentence_to_index"][0])
    assert index == {" ".join(sentence): str(row) for row, sentence in enumerate(SENTENCES)}


def test_a_ragged_file_has_all_vectors_in_one_dataset(embed, text, emb, tmp_path):
    assert_rows(embed(text, "--layout", "ragged"), SENTENCES, emb.embed(SENTENCES))
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["vectors"].shape == (10, 4, 32)
        assert file["offsets"][:].tolist() == [0, 6, 6, 8, 10]


CONLLU = "# text = a-b c\n1-2\ta-b{rest}\n1\ta{rest}\n2\tb{rest}\n2.1\te{rest}\n3\tc d{rest}\n\n"


@pytest.mark.parametrize(
    ("name", "content", "options", "sentences"),
    [
        ("a.txt", TEXT, (), SENTENCES),
        ("a.text", TEXT, ("--format", "text"), SENTENCES),
        (
            "a.txt",
            "One two. Three!\n\n",
            ("--format", "raw"),
            [["One", "two", "."], ["Three", "!"]],
        ),
        ("a.conllu", CONLLU.format(rest="\t_" * 8), (), [["a", "b", "c d"]]),
        (
            "a.jsonl",
            '{"tokens": ["New York", ""]}\n{"text": "a b"}\n',
            (),
            [["New York", ""], ["a", "b"]],
        ),
        ("a.fasta", ">x one\nMK\nv*\n>y\n", (), [["M", "K", "v", "*"], []]),
        ("a.txt", "ab c\n", ("--tokenizer", "characters"), [["a", "b", "c"]]),
        ("a.txt", "don't stop.\n", ("--tokenizer", "words"), [["don't", "stop", "."]]),
        ("a.txt", "", (), []),
    ],
)
def test_every_format_of_rows(embed, emb, tmp_path, name, content, options, sentences):
    source = tmp_path / name
    source.write_text(content, encoding="utf-8")
    assert_rows(embed(source, *options), sentences, emb.embed(sentences))


def test_a_row_keeps_its_id_line_and_offsets(embed, tmp_path):
    (tmp_path / "a.fa").write_text(">first rest\nMK\n\n>second\nV\n")
    embed(tmp_path / "a.fa", output="fasta.h5")
    with open_embeddings(tmp_path / "fasta.h5") as stored:
        assert stored.ids == ["first", "second"]
        assert [stored.row(row).line for row in (0, 1)] == [1, 4]
    (tmp_path / "a.txt").write_text("Rain. It  pours.\n")
    embed(tmp_path / "a.txt", "--format", "raw", output="raw.h5")
    with open_embeddings(tmp_path / "raw.h5") as stored:
        assert stored.row(1).offsets == ((6, 8), (10, 15), (15, 16))


def test_compressed_and_other_encodings(embed, emb, tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    assert_rows(embed(tmp_path / "a.txt.gz"), SENTENCES, emb.embed(SENTENCES))
    (tmp_path / "b.txt").write_bytes("né\n".encode("latin-1"))
    rows = embed(tmp_path / "b.txt", "--encoding", "latin-1", "--overwrite")
    assert_rows(rows, [["né"]], emb.embed([["né"]]))


def test_standard_input(embed, emb, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert_rows(embed("-"), SENTENCES, emb.embed(SENTENCES))


def test_standard_input_in_another_format(embed, emb, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"tokens": ["a b"]}\n')))
    assert_rows(embed("-", "--format", "jsonl"), [["a b"]], emb.embed([["a b"]]))


@pytest.mark.parametrize(
    ("choice", "layers"),
    [
        ("all", "all"),
        ("mean", "mean"),
        ("top", "top"),
        ("0", 0),
        ("3", 3),
        ("0,2", [0, 2]),
        ("1,1", [1, 1]),
    ],
)
def test_layers(embed, text, emb, choice, layers):
    assert_rows(embed(text, "--layers", choice), SENTENCES, emb.embed(SENTENCES, layers))


@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize("layers", ["all", "top"])
def test_pooling(embed, text, emb, pooling, layers):
    rows = embed(text, "--pooling", pooling, "--layers", layers)
    expected = emb.embed_sentences(SENTENCES, pooling=pooling, layers=layers)
    assert_rows(rows, SENTENCES, expected)
    assert not rows[1][1].any()  # the empty row


@pytest.mark.parametrize("output", ["a.h5", "a.npz", "a.parquet", "a.jsonl"])
def test_half_precision_of_the_numbers(embed, text, emb, output):
    rows = embed(text, "--dtype", "float16", output=output)
    assert {vectors.dtype for _, vectors in rows} == {np.dtype(np.float16)}
    assert_rows(rows, SENTENCES, emb.embed(SENTENCES), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_precision_of_the_weights(embed, text, model, precision):
    rounded = Embedder.from_pretrained(model, precision=precision)
    assert_rows(embed(text, "--precision", precision), SENTENCES, rounded.embed(SENTENCES))


def test_boundaries(embed, text, emb):
    rows = embed(text, "--boundaries")
    assert_rows(rows, SENTENCES, emb.embed(SENTENCES, boundaries=True))
    assert rows[1][1].shape == (4, 2, 32)


def test_small_batches_and_parts_change_nothing_but_rounding(embed, text, emb):
    rows = embed(text, "--batch-tokens", "1", "--part-rows", "1", "--device", "cpu")
    assert_rows(rows, SENTENCES, emb.embed(SENTENCES))


def test_threads_are_given_back(embed, text):
    before = torch.get_num_threads()
    embed(text, "--threads", "1")
    assert torch.get_num_threads() == before


def test_a_zip_is_a_model_too(elmo, text, model, emb, tmp_path):
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as file:
        for name in ("options.json", "weights.hdf5"):
            file.write(model / name, name)
    ran = elmo("embed", text, "-o", tmp_path / "out.npz", "--model", tmp_path / "m.zip")
    assert ran.code == 0
    with open_embeddings(tmp_path / "out.npz") as stored:
        assert_rows([(stored.tokens(0), stored[0])], SENTENCES[:1], emb.embed(SENTENCES[:1]))


@pytest.mark.parametrize(
    ("recorded", "options", "tokens"),
    [
        ("spacy:en", (), ("I", "ca", "n't", ".")),
        ("characters", (), tuple("Ican't.")),
        ("spacy:en", ("--tokenizer", "words"), ("I", "can't", ".")),
        ("cut before", (), ("I", "can't", ".")),
        (None, (), ("I", "can't", ".")),
    ],
)
def test_raw_text_is_cut_as_the_card_says(embed, model, tmp_path, recorded, options, tokens):
    bilm = BiLM.from_pretrained(model).with_card(tokenizer=recorded)
    bilm.save_pretrained(tmp_path / "carded")
    (tmp_path / "a.txt").write_text("I can't.\n")
    options = ("--format", "raw", *options)
    rows = embed(tmp_path / "a.txt", *options, model=tmp_path / "carded")
    assert [found for found, _ in rows] == [tokens]


def test_a_card_that_names_spacy_where_it_is_missing(elmo, model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    BiLM.from_pretrained(model).with_card(tokenizer="spacy:en").save_pretrained(tmp_path / "m")
    (tmp_path / "a.txt").write_text("I can't.\n")
    arguments = ("embed", tmp_path / "a.txt", "-o", tmp_path / "a.h5", "--model", tmp_path / "m")
    ran = elmo(*arguments, "--format", "raw")
    assert ran.code == 2
    assert "tokenizer spacy:en, as the model's card says" in ran.err
    assert 'pip install "elmokit[spacy]", or name another one' in ran.err
    assert elmo(*arguments).code == 0  # text that is cut already needs no tokeniser


def test_the_model_that_ships_is_the_default(elmo, text, tmp_path):
    assert elmo("embed", text, "-o", tmp_path / "out.npz").code == 0
    expected = Embedder.from_pretrained("default").embed(SENTENCES[:1])[0]
    with open_embeddings(tmp_path / "out.npz") as stored:
        np.testing.assert_allclose(stored[0], expected, rtol=1e-5, atol=1e-5)


def test_size_before_and_counts_after_are_told(elmo, model, tmp_path):
    source, output = tmp_path / "a.txt", tmp_path / "a.h5"
    source.write_text("the &amp; cat\n" + "x" * 60 + "\n")
    ran = elmo("embed", source, "-o", output, "--model", model)
    named, before, joining, after = ran.err.splitlines()
    assert named.startswith(f"model {model}: 3 layers, cell 96")
    assert joining == f"{output}: joining 1 part"
    assert before.startswith(f"{source}: 2 rows, 4 tokens; {output} will hold about ")
    assert after.startswith(
        f"{output}: 2 rows, 4 tokens (1 cut, unknown characters not told without "
    )


def test_an_old_output_is_replaced_on_demand(embed, text, emb, tmp_path):
    (tmp_path / "out.h5").write_bytes(b"old")
    assert_rows(embed(text, "--overwrite"), SENTENCES, emb.embed(SENTENCES))


# State carried from batch to batch


@pytest.fixture(scope="module")
def carried(fixtures):
    """Sentences, and AllenNLP's vectors for them in batches of 4 with state carried."""
    sentences = json.loads((fixtures / "A2_sentences.json").read_text())
    with np.load(fixtures / "A2_bilm_skip" / "stateful_b4.npz") as data:
        return sentences, [data[f"s{row:02d}"] for row in range(len(sentences))]


@pytest.fixture
def records(carried, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"tokens": tokens}) + "\n" for tokens in carried[0]))
    return path


@pytest.mark.parametrize("output", ["out.h5", "out.jsonl"])
def test_carry_equals_the_original_batch_by_batch(embed, records, carried, output):
    rows = embed(records, "--state", "carry", "--batch-size", "4", output=output)
    assert_rows(rows, *carried, atol=3e-5)


@pytest.mark.parametrize("size", [1, 7, 64])
def test_carry_equals_the_embedder(embed, records, carried, model, size):
    sentences = carried[0]
    emb = Embedder.from_pretrained(model, state="carry")
    expected = [
        vectors
        for start in range(0, len(sentences), size)
        for vectors in emb.embed(sentences[start : start + size])
    ]
    options = ("--batch-size", str(size)) if size != 64 else ()
    assert_rows(embed(records, "--state", "carry", *options), sentences, expected)


def test_fresh_rows_do_not_carry(embed, records, carried, emb):
    fresh = embed(records, "--batch-tokens", "64")
    assert_rows(fresh[:3], carried[0][:3], emb.embed(carried[0][:3]))
    assert not np.allclose(fresh[5][1], carried[1][5], atol=1e-2)
