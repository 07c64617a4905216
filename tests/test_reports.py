"""What users of the old programs ran into, by number, each with a small input of its own.

What another test covers in full is here in short.
"""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from builders import char_bilm, sentences_of_lengths, word_bilm
from elmokit import BiLM, Elmo, Embedder, batch_to_ids, open_embeddings
from elmokit.characters import ByteAlphabet
from elmokit.checkpoints import manylangs
from elmokit.cli import main
from elmokit.config import BiLMConfig, CharCNNConfig, LSTMConfig
from elmokit.embedding import embedder as embedder_module
from elmokit.embedding.parts import PartedOutput
from elmokit.errors import CheckpointError, InputError
from elmokit.info import describe
from elmokit.nn import BiLMNetwork
from elmokit.text import count_html_escapes, read_rows
from elmokit.vocabulary import Vocabulary

ROOT = Path(__file__).parent.parent
PAIR = ("options.json", "weights.hdf5")


@pytest.fixture
def pair(fixtures, tmp_path):
    """The files of a model in the AllenNLP format, in a directory of their own."""
    (tmp_path / "pair").mkdir()
    for name in PAIR:
        shutil.copy(fixtures / "A2_bilm_skip" / name, tmp_path / "pair" / name)
    return tmp_path / "pair"


@pytest.fixture
def many(fixtures, tmp_path):
    """The files of an ELMoForManyLangs model of words and characters."""
    source = fixtures / "B_efml_word_char_cnn"
    (tmp_path / "many").mkdir()
    for name in ("config.json", "cnn_10_8_14_40.json", "char.dic", "word.dic"):
        shutil.copy(source / name, tmp_path / "many" / name)
    for name in ("encoder.pkl", "token_embedder.pkl"):
        shutil.copy(source / name, tmp_path / "many" / name)
    return tmp_path / "many"


@pytest.fixture(scope="module")
def emb():
    """A small model of two LSTM layers, 16 wide."""
    return Embedder(char_bilm())


@pytest.fixture
def embed(fixtures, tmp_path):
    """Embeds lines with the command; returns the output's path."""

    def run(lines, *options, output="out.h5", name="in.txt"):
        (tmp_path / name).write_bytes("".join(f"{line}\n" for line in lines).encode())
        model = [] if "--model" in options else ["--model", fixtures / "A2_bilm_skip"]
        arguments = ["embed", tmp_path / name, "-o", tmp_path / output, *model, *options]
        assert main([str(argument) for argument in arguments]) == 0
        return tmp_path / output

    return run


def vectors_of(path) -> list[np.ndarray]:
    with open_embeddings(path) as stored:
        return list(stored)


def edit_json(path, change) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def same(found, expected) -> None:
    """Checks rows of vectors for equality within the promised 1e-5."""
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


# Install


def test_row_01_no_other_framework():
    (vectors,) = Embedder.from_pretrained("default").embed([["tea", "is", "hot"]])
    assert vectors.shape[1] == 3
    assert np.isfinite(vectors).all()
    assert not {"allennlp", "tensorflow"} & set(sys.modules)


def test_row_02_few_dependencies_with_lower_bounds_only():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [re.match(r"[\w-]+", requirement)[0] for requirement in project["dependencies"]]
    assert set(named) == {"torch", "numpy", "safetensors", "h5py", "tyro", "tqdm", "regex"}
    for requirement in project["dependencies"]:
        assert re.fullmatch(r"[\w-]+>=[\d.]+", requirement), requirement


def test_row_03_old_calls_have_replacements(pair, tmp_path):
    assert (ROOT / "docs" / "migrate.md").exists()
    sentences = [["ships", "left"], ["rain"]]
    emb = Embedder.from_pretrained(pair)
    # ElmoEmbedder.embed_sentence, .embed_batch, .embed_file; Elmo with batch_to_ids; simple_elmo
    assert emb.embed([sentences[0]])[0].shape == (4, 2, 32)
    assert [vectors.shape for vectors in emb.embed(sentences)] == [(4, 2, 32), (4, 1, 32)]
    (tmp_path / "in.txt").write_text("ships left\nrain\n")
    arguments = ["embed", tmp_path / "in.txt", "-o", tmp_path / "out.h5", "--model", pair]
    assert main(list(map(str, arguments))) == 0
    assert [vectors.shape for vectors in vectors_of(tmp_path / "out.h5")] == [
        (4, 2, 32),
        (4, 1, 32),
    ]
    output = Elmo(emb.bilm, num_outputs=2)(batch_to_ids(sentences))
    assert [tuple(r.shape) for r in output.representations] == [(2, 2, 32)] * 2
    assert emb.embed_sentences(["ships left", "rain"]).shape == (2, 32)


# Loading models


def test_row_04_a_zip_without_a_word_list(pair, tmp_path):
    (pair / "weights.hdf5").rename(pair / "model.hdf5")
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as file:
        for path in pair.iterdir():
            file.write(path, path.name)
    loose = Embedder.from_pretrained(pair).embed([["the", "cat"]])
    zipped = Embedder.from_pretrained(tmp_path / "m.zip").embed([["the", "cat"]])
    np.testing.assert_array_equal(loose, zipped)


def test_row_05_the_other_family_is_known_by_its_files(many):
    assert Embedder.from_pretrained(many).embed([["the", "cat"]])[0].shape == (3, 2, 28)
    (many / "char.dic").unlink()
    with pytest.raises(CheckpointError) as caught:
        BiLM.from_pretrained(many)
    for part in ("native lacks", "manylangs lacks char.dic", "allennlp lacks options.json"):
        assert part in str(caught.value)


def test_row_06_a_config_path_of_another_computer(many, monkeypatch):
    expected = Embedder.from_pretrained(many).embed([["the", "cat"]])
    name = "cnn_50_100_512_4096_sample.json"
    edit_json(many / "config.json", lambda c: c.update(config_path=f"/nowhere/{name}"))
    (many / "cnn_10_8_14_40.json").rename(many / name)
    same(Embedder.from_pretrained(many).embed([["the", "cat"]]), expected)
    # Not even beside the model: the bundled copy, here with the numbers of the small model.
    network = json.loads((many / name).read_text())
    (many / name).unlink()
    assert manylangs.SHIPPED[name]["encoder"]["dim"] == 4096
    monkeypatch.setitem(manylangs.SHIPPED, name, network)
    same(Embedder.from_pretrained(many).embed([["the", "cat"]]), expected)


def test_row_07_word_list_and_table_of_different_lengths(many):
    lines = (many / "word.dic").read_text().splitlines(keepends=True)
    (many / "word.dic").write_text("".join(lines[:9]))
    tensors = torch.load(many / "token_embedder.pkl", weights_only=True)
    name = "word_emb_layer.embedding.weight"
    torch.save(tensors | {name: tensors[name][:12].clone()}, many / "token_embedder.pkl")
    with pytest.raises(CheckpointError) as caught:
        BiLM.from_pretrained(many)
    for part in ("word.dic has 9 entries", "token_embedder.pkl has 12 rows"):
        assert part in str(caught.value)


def test_row_08_files_under_their_long_names(pair):
    expected = Embedder.from_pretrained(pair).embed([["the", "cat"]])
    for name in PAIR:
        (pair / name).rename(pair / f"abc_{name}")
    same(Embedder.from_pretrained(pair).embed([["the", "cat"]]), expected)
    for name in PAIR:
        shutil.copy(pair / f"abc_{name}", pair / f"xyz_{name}")
    with pytest.raises(
        CheckpointError, match=r"several files .*abc_options.json, xyz_options.json"
    ):
        BiLM.from_pretrained(pair)
    chosen = BiLM.from_pretrained(
        options=pair / "xyz_options.json", weights=pair / "xyz_weights.hdf5"
    )
    same(Embedder(chosen).embed([["the", "cat"]]), expected)


def test_row_09_the_character_limit_is_the_models():
    cnn = CharCNNConfig(
        num_characters=261, max_characters=10, embedding_dim=4, filters=((1, 4), (3, 4))
    )
    config = BiLMConfig(lstm=LSTMConfig(cell_dim=12, projection_dim=6), characters=cnn)
    bilm = BiLM(BiLMNetwork(config), alphabet=ByteAlphabet(max_characters=10))
    sentence = ["abcdefghijklmnop", "ok"]
    (vectors,) = Embedder(bilm).embed([sentence])
    same(Embedder(bilm).embed([["abcdefgh", "ok"]]), [vectors])
    elmo = Elmo(bilm, dropout=0.0).eval()
    for ids in (bilm.batch_to_ids([sentence]), batch_to_ids([sentence], max_characters=10)):
        assert ids.shape == (1, 2, 10)
        same(elmo(ids).representations[0].detach().numpy(), [vectors.mean(axis=0)])
    with pytest.raises(InputError, match=r"\(B, T, 10\), found \(1, 2, 50\).*max_characters=10"):
        elmo(batch_to_ids([sentence]))


def test_row_10_the_rows_of_the_file_decide(pair):
    found = []
    for number in (261, 262, None):
        edit_json(pair / "options.json", lambda o, n=number: o["char_cnn"].update(n_characters=n))
        if number is None:
            edit_json(pair / "options.json", lambda o: o["char_cnn"].pop("n_characters"))
        found.append(Embedder.from_pretrained(pair).embed([["the", "cat"]]))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    edit_json(pair / "options.json", lambda o: o["char_cnn"].update(n_characters=300))
    with pytest.raises(
        CheckpointError, match=r"n_characters: 300 does not fit .* 261 rows; set it to"
    ):
        BiLM.from_pretrained(pair)
    BiLM.from_pretrained("default").save_pretrained(pair / "new", format="allennlp")
    options = json.loads((pair / "new" / "options.json").read_text())
    assert options["char_cnn"]["n_characters"] == 262


def test_row_11_embeddings_given_as_weights(pair):
    with h5py.File(pair / "weights.hdf5", "w") as file:
        for name in ("0", "1"):
            file[name] = np.zeros((3, 5, 8), np.float32)
    with pytest.raises(CheckpointError, match=r"computed embeddings .*give the file of weights"):
        BiLM.from_pretrained(pair)
    (pair / "weights.hdf5").write_text("some text\n")
    with pytest.raises(CheckpointError, match=r"weights.hdf5: not an HDF5 file.*some text"):
        BiLM.from_pretrained(pair)


def test_row_12_a_local_path_opens_no_connection(pair, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a socket was made")

    monkeypatch.setattr("socket.socket.__init__", refuse)
    expected = Embedder.from_pretrained(pair).embed([["the", "cat"]])
    BiLM.from_pretrained(pair).save_pretrained(tmp_path / "saved")
    shutil.rmtree(pair)
    (tmp_path / "saved").rename(tmp_path / "moved")
    np.testing.assert_array_equal(
        Embedder.from_pretrained(tmp_path / "moved").embed([["the", "cat"]]), expected
    )


# Same text, same vector


def test_row_13_twice_and_in_another_process():
    sentence = ["the", "kettle", "boils"]
    emb = Embedder.from_pretrained("default")
    first, second = emb.embed([sentence])[0], emb.embed([sentence])[0]
    np.testing.assert_array_equal(first, second)
    program = (
        "import json, elmokit; emb = elmokit.Embedder.from_pretrained('default'); "
        f"print(json.dumps(emb.embed([{sentence}])[0].tolist()))"
    )
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    np.testing.assert_allclose(json.loads(ran.stdout), first, rtol=1e-5, atol=1e-5)


def test_row_14_no_state_leaks_between_batches(embed):
    lines = [" ".join(sentence) for sentence in sentences_of_lengths([3, 1, 5, 2, 8] * 26)]
    lines[99] = lines[2]
    whole = vectors_of(embed(lines, "--layers", "top", output="whole.npz"))
    same([whole[99]], [whole[2]])
    for budget in ("1", "400"):
        found = vectors_of(
            embed(lines, "--layers", "top", "--batch-tokens", budget, output=f"{budget}.npz")
        )
        same(found, whole)
    carried = vectors_of(embed(lines, "--layers", "top", "--state", "carry", output="carry.npz"))
    assert not np.allclose(carried[99], carried[2], atol=1e-3)


def test_row_15_neighbours_have_no_influence(emb):
    short, long = [["so", "be", "it"]], sentences_of_lengths([25])
    same(emb.embed(short + long)[:1], emb.embed(short))
    ids = batch_to_ids(short + long)
    elmo = Elmo(emb.bilm, dropout=0.0)
    together, alone = elmo(ids).representations[0], elmo(ids[:1]).representations[0]
    torch.testing.assert_close(together[0, :3], alone[0, :3], rtol=1e-5, atol=1e-5)
    assert not together[0, 3:].any()


def test_row_16_a_fine_tuned_model_does_not_drift(tmp_path):
    sentences = sentences_of_lengths([3, 4, 5, 2])
    elmo = Elmo(char_bilm(), trainable=True, state="carry")
    optimizer = torch.optim.SGD(elmo.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        elmo(elmo.bilm.encode(sentences)).representations[0].square().mean().backward()
        optimizer.step()
    elmo.bilm.save_pretrained(tmp_path / "tuned")
    emb = Embedder.from_pretrained(tmp_path / "tuned")
    first = emb.embed(sentences)
    for _ in range(4):
        for one, other in zip(emb.embed(sentences), first, strict=True):
            np.testing.assert_array_equal(one, other)
    assert emb.bilm.card.state == "carry"
    assert describe(tmp_path / "tuned")["state policy"].startswith("carry;")


# Odd input


def test_row_17_empty_sentences_stay_in_their_place(emb, embed):
    sentences = [["red", "hat"], [], ["ok"]]
    for found in (emb.embed(sentences), [emb.embed([sentence])[0] for sentence in sentences]):
        assert [vectors.shape for vectors in found] == [(3, 2, 16), (3, 0, 16), (3, 1, 16)]
    assert emb.embed([[]])[0].shape == (3, 0, 16)
    lines = ["red hat", "", "a\u00a0b\u3000c", ""]
    rows = vectors_of(embed(lines))
    assert [vectors.shape[1] for vectors in rows] == [2, 0, 3, 0]


def test_row_18_boundaries_are_added_and_stripped(emb):
    odd = [["<S>", "hello", "</S>"], ["<PAD>", "hello"]]
    plain, wide = emb.embed(odd), emb.embed(odd, boundaries=True)
    for sentence, inner, outer in zip(odd, plain, wide, strict=True):
        assert inner.shape[1] == len(sentence)
        assert outer.shape[1] == len(sentence) + 2
        np.testing.assert_array_equal(outer[:, 1:-1], inner)
    # A literal boundary word is the boundary; a padding word is a word like any other.
    np.testing.assert_array_equal(plain[0][0, 0], wide[1][0, 0])
    assert emb.bilm.alphabet.encode("<PAD>") != emb.bilm.alphabet.encode("")


def test_row_19_one_word_is_like_any_length(emb, embed):
    (vectors,) = emb.embed([["test"]])
    assert vectors.shape == (3, 1, 16)
    same(emb.stream(iter([["test"]])), [vectors])
    assert vectors_of(embed(["test"]))[0].shape == (4, 1, 32)
    assert vectors_of(embed(["test"], "--layers", "top", output="top.npz"))[0].shape == (1, 32)
    assert Elmo(emb.bilm)(batch_to_ids([["test"]])).representations[0].shape == (1, 1, 16)


def test_row_20_proteins(embed, caplog):
    records = [">a", "MKV", ">b", "M#@K", ">c", "mkv", ">d", "MK*", ">e", *["A" * 60] * 2, ">f"]
    path = embed(records, name="in.fasta")
    with open_embeddings(path) as stored:
        assert stored.ids == ["a", "b", "c", "d", "e", "f"]
        assert [len(stored.tokens(row)) for row in range(6)] == [3, 4, 3, 3, 120, 0]
        assert stored.tokens(2) == ("m", "k", "v")  # case is kept
        assert not np.allclose(stored[0], stored[2], atol=1e-3)
    warned = {record.getMessage() for record in caplog.records if record.levelname == "WARNING"}
    assert len(warned) == 1
    assert "record 'b' has symbols other than letters: '#' 1, '@' 1" in warned.pop()


# Memory and long input


def test_row_21_a_stream_reads_no_more_than_a_part_ahead(emb, monkeypatch):
    monkeypatch.setattr(embedder_module, "PART_BYTES", 4 * emb.dim * emb.num_outputs * 100)
    waiting = iter(sentences_of_lengths([10] * 60))
    for done, vectors in enumerate(emb.stream(waiting)):
        assert waiting.__length_hint__() >= 60 - done - 10
        assert vectors.shape == (3, 10, 16)
    documents = sentences_of_lengths([80] * 4)
    (first, *_) = Embedder(emb.bilm, batch_tokens=100).embed(documents, return_tensors="pt")
    assert not first.requires_grad
    same([first.numpy()], emb.embed(documents)[:1])


def test_row_22_a_run_that_was_cut_off_goes_on(embed, monkeypatch):
    lines = [" ".join(sentence) for sentence in sentences_of_lengths([3] * 50)]
    whole = vectors_of(embed(lines, "--part-rows", "10", output="whole.npz"))
    write = PartedOutput.write

    def until_sixty_percent(self, *args, **kwargs):
        if self.num_rows_done == 30:
            raise KeyboardInterrupt
        write(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(PartedOutput, "write", until_sixty_percent)
        with pytest.raises(AssertionError, match="130"):  # the exit code
            embed(lines, "--part-rows", "10", output="cut.npz")
    resumed = vectors_of(embed(lines, "--part-rows", "10", "--resume", output="cut.npz"))
    for one, other in zip(resumed, whole, strict=True):
        np.testing.assert_array_equal(one, other)


def test_row_23_the_cache_of_words_is_bounded():
    emb = Embedder(char_bilm(), cache_words=32)
    for call in range(20):
        emb.embed([[f"word{call}-{i}" for i in range(10)]])
        assert len(emb._cache) <= 32
    assert len(emb._cache) == 32
    emb.clear_cache()
    assert len(emb._cache) == 0


# Output files


def test_row_24_a_sentence_is_no_name_of_a_dataset(embed):
    lines = ["and/or / maybe", "and", ".", "boat/", "a\tb", "nul\0 c"]
    path = embed(lines)
    with h5py.File(path) as file:
        assert {name for name in file if name.isdecimal()} == set("012345")
    with open_embeddings(path) as stored:
        assert [stored.tokens(row) for row in range(6)] == [tuple(line.split()) for line in lines]


def test_row_25_repeated_sentences_have_rows_of_their_own(embed):
    path = embed(["the cat", "a dog", "the cat", "the cat"])
    with h5py.File(path) as file:
        assert {name for name in file if name.isdecimal()} == set("0123")
        assert json.loads(file["sentence_to_index"][0]) == {"the cat": "0", "a dog": "1"}
    with open_embeddings(path) as stored:
        assert stored.find("the cat") == [0, 2, 3]
        np.testing.assert_array_equal(stored[0], stored[3])


@pytest.mark.parametrize("suffix", ["h5", "npz", "parquet", "jsonl"])
def test_row_26_rows_are_found_by_number_and_by_text(embed, suffix):
    lines = [f"sentence number {number}" for number in range(12)]
    with open_embeddings(embed(lines, output=f"out.{suffix}")) as stored:
        assert stored.tokens(10) == ("sentence", "number", "10")
        assert stored.find("sentence number 2") == [2]
        assert stored.find(["sentence", "number", "11"]) == [11]
        assert [stored.tokens(row)[2] for row in range(12)] == [str(n) for n in range(12)]
        for row, vectors in enumerate(stored):  # in the order of the file, not 0, 1, 10, 11, 2
            np.testing.assert_array_equal(vectors, stored[row])


def test_row_27_the_size_is_known_before_and_can_be_cut(embed, caplog):
    lines = [" ".join(sentence) for sentence in sentences_of_lengths([4] * 1000)]
    sizes = []
    for number, options in enumerate(
        ([], ["--layers", "mean"], ["--layers", "mean", "--dtype", "float16"])
    ):
        caplog.clear()
        size = embed(lines, *options, output=f"{number}.h5").stat().st_size
        told, unit = re.search(r"will hold about ([\d.e+]+) (KB|MB)", caplog.text).groups()
        estimate = float(told) * {"KB": 1e3, "MB": 1e6}[unit]
        assert abs(estimate - size) <= 0.05 * size
        sizes.append(size)
    assert sizes[0] > 2 * sizes[1] > 2 * sizes[2]
    pooled = embed(lines, "--pooling", "mean", "--layers", "mean", output="pooled.h5")
    assert pooled.stat().st_size < sizes[2]


# Layers and pooling


def test_row_35_weights_are_final_or_logits_as_said(emb):
    sentence = sentences_of_lengths([6])
    (layers,) = emb.embed(sentence)
    np.testing.assert_array_equal(emb.embed(sentence, weights=(0, 0, 1))[0], layers[2])
    mixed = 0.2 * layers[0] + 0.3 * layers[1] + 0.5 * layers[2]
    same(emb.embed(sentence, weights=(0.2, 0.3, 0.5)), [mixed])
    (mix,) = Elmo(emb.bilm, mix_weights=[0.0, 1.0, 2.0]).scalar_mixes
    torch.testing.assert_close(
        mix.normalized_weights.detach(), torch.softmax(torch.tensor([0.0, 1.0, 2.0]), 0)
    )
    assert mix.gamma.item() == 1
    assert "logits" in Elmo.__init__.__doc__


def test_row_36_one_call_gives_all_layers(emb, tmp_path):
    sentence = sentences_of_lengths([17])
    (layers,) = emb.embed(sentence)
    assert layers.shape == (3, 17, 16)
    assert emb.embed(sentence, "mean")[0].shape == (17, 16)
    np.testing.assert_array_equal(emb.embed(sentence, 0)[0], layers[0])
    emb.bilm.save_pretrained(tmp_path / "m")
    assert describe(tmp_path / "m")["vectors"].startswith("(3, T, 16) for layers all, (T, 16) for")
    assert "(L+1, T, 2D)" in Embedder.embed.__doc__


# Saving and export


def test_row_40_back_to_the_published_pair_after_fine_tuning(pair, tmp_path):
    sentences = [["the", "cat"], ["深い"]]
    elmo = Elmo(BiLM.from_pretrained(pair), trainable=True)
    before = {name: tensor.clone() for name, tensor in elmo.bilm.network.state_dict().items()}
    optimizer = torch.optim.Adam(elmo.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        elmo(elmo.bilm.encode(sentences)).representations[0].square().mean().backward()
        optimizer.step()
    elmo.bilm.save_pretrained(tmp_path / "tuned", format="allennlp")
    assert sorted(path.name for path in (tmp_path / "tuned").iterdir()) == sorted(PAIR)
    loaded = BiLM.from_pretrained(tmp_path / "tuned")
    for name, tensor in loaded.network.state_dict().items():
        assert torch.equal(tensor, elmo.bilm.network.state_dict()[name]), name
        assert name.startswith("initial") or not torch.equal(tensor, before[name]), name
    found, expected = Embedder(loaded).embed(sentences), Embedder(elmo.bilm).embed(sentences)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def test_row_41_no_export_is_said_with_the_reason():
    text = " ".join((ROOT / "README.md").read_text().split())
    assert "No ONNX, no TorchScript" in text
    reason = text.partition("No ONNX, no TorchScript")[2][:400]
    assert "packed sentences" in reason
    assert "export" in reason


@pytest.mark.parametrize("name", ["small", "default"])
def test_row_42_half_precision_stays_close(name):
    sentences = sentences_of_lengths([1, 3, 8, 15] * 25)
    if (
        name == "small"
    ):  # the states of the other, of large random weights, drift apart in so long a run
        sentences += sentences_of_lengths([2000], seed=1)
    bilm = char_bilm() if name == "small" else BiLM.from_pretrained(name)
    full, half = (
        Embedder(bilm, precision=precision).embed(sentences) for precision in ("fp32", "bf16")
    )
    for one, other in zip(full, half, strict=True):
        assert np.isfinite(other).all()
        assert one.dtype == other.dtype == np.float32
        norms = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
        assert ((one * other).sum(axis=-1) / norms).min() >= 0.999
    assert not np.array_equal(full[0], half[0])


# Scripts and characters


def test_row_43_any_script_can_be_learnt_from():
    sentences = [["深い", "海"], ["بحر", "عميق"], ["глубокое", "море"], ["\U0001f44d\U0001f3fd"]]
    elmo = Elmo(char_bilm(), trainable=True, dropout=0.0)
    ids = elmo.bilm.batch_to_ids(sentences)
    assert ids.max() <= 261
    assert (ids[ids != 0] >= 1).all()
    optimizer = torch.optim.Adam(elmo.parameters(), lr=0.01)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = (elmo(ids).representations[0] - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]


def test_row_44_unknown_characters_are_counted(tmp_path, capsys):
    bilm = char_bilm()
    bilm.vocabulary = Vocabulary(("<S>", "</S>", "<UNK>", "the", "cat", "sat"))
    bilm.save_pretrained(tmp_path / "english")
    odd = ["გამარჯობა", "नमस्ते", "c\u200bat", "c\ud800at"]
    (vectors,) = Embedder(bilm).embed([odd])
    assert np.isfinite(vectors).all()
    assert [bilm.count_unknown(word) for word in odd] == [9, 6, 1, 1]
    (tmp_path / "in.jsonl").write_text(json.dumps({"tokens": ["cat", *odd]}) + "\n")
    arguments = ["embed", tmp_path / "in.jsonl", "-o", tmp_path / "out.npz", "--model"]
    assert main([*map(str, arguments), str(tmp_path / "english")]) == 0
    assert "17 unknown characters" in capsys.readouterr().err
    assert "of 256 byte ids occur in it" in describe(tmp_path / "english")["word list"]


def test_row_45_the_card_names_tokeniser_and_case(tmp_path, embed, caplog):
    char_bilm().with_card(tokenizer="spacy:en", case="cased").save_pretrained(tmp_path / "m")
    facts = describe(tmp_path / "m")
    assert (facts["tokenizer"], facts["case"]) == ("spacy:en", "cased")
    assert count_html_escapes(["fish", "&amp;", "chips"]) == 1
    embed(["fish &amp; chips", "do n't", "don't"], "--model", str(tmp_path / "m"))
    assert "1 HTML escapes such as &amp; read as they stand" in caplog.text
    _, apart, joined = (row.tokens for row in read_rows(tmp_path / "in.txt"))
    assert (apart, joined) == (("do", "n't"), ("don't",))


def test_row_47_a_model_of_word_ids_alone(tmp_path):
    words = [f"word{number}" for number in range(17)]
    bilm = word_bilm(words, forget_bias=1.0)
    bilm.vocabulary = Vocabulary(bilm.words.words)
    bilm.save_pretrained(tmp_path / "m", format="allennlp")
    assert "char_cnn" not in json.loads((tmp_path / "m" / "options.json").read_text())
    with h5py.File(tmp_path / "m" / "weights.hdf5") as file:
        assert file["embedding"].shape == (20, 8)
    emb = Embedder.from_pretrained(tmp_path / "m")
    known, unknown, empty = (emb.embed([[word]])[0] for word in ("word3", "coffee", ""))
    same([known], Embedder(bilm).embed([["word3"]]))
    same([unknown, empty], [emb.embed([["<UNK>"]])[0]] * 2)
    assert not np.allclose(known, unknown, atol=1e-3)
    (tmp_path / "m" / "vocab.txt").unlink()
    with pytest.raises(CheckpointError, match="reads word ids and needs its word list"):
        BiLM.from_pretrained(tmp_path / "m")
