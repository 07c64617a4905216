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
from elmokit.errors import CheckpointError, InputError, TrainingError
from elmokit.info import describe
from elmokit.nn import BiLMNetwork
from elmokit.text import count_html_escapes, read_rows
from elmokit.training.config import TrainConfig
from elmokit.training.pretrain import pretrain
from elmokit.training.trainer import Trainer
from elmokit.vocabulary import Vocabulary
from training.runs import assert_same_run, make_config, records, saved, write_corpus

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
    char_bilm().save_pretrained(pair / "new", format="allennlp")
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
    assert "1 HTML escape such as &amp; read as they stand" in caplog.text
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


# Training, and the language model


@pytest.fixture
def train(tmp_path, caplog):
    """Trains a small model; returns what was logged as lines, and as records."""
    caplog.set_level("INFO", "elmokit")

    def run(lines, *, heldout=(), words=None, model=None, objective=None, name="run", **schedule):
        for file, text in (("train.txt", lines), ("heldout.txt", heldout)):
            (tmp_path / file).write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
        words = words or sorted({word for line in (*lines, *heldout) for word in line.split()})
        listed = "".join(f"{word}\n" for word in ("<S>", "</S>", "<UNK>", *words))
        (tmp_path / "vocab.txt").write_text(listed, encoding="utf-8")
        small = {"filters": [[1, 4], [2, 4]], "character_dim": 4, "cell_dim": 16}
        config = TrainConfig.from_dict(
            {
                "run_dir": str(tmp_path / name),
                "data": {
                    "train": [str(tmp_path / "train.txt")],
                    "heldout": [str(tmp_path / "heldout.txt")] if heldout else [],
                    "vocabulary": str(tmp_path / "vocab.txt"),
                },
                "model": small | {"projection_dim": 8, "num_highway": 1} | (model or {}),
                "objective": {"num_negatives": None, "dropout": 0.0} | (objective or {}),
                "optimizer": {"name": "adamw", "learning_rate": 0.02},
                "schedule": {"window": 20, "batch_size": 4, "log_every": 1} | schedule,
                "threads": 1,
                "device": "cpu",
            }
        )
        caplog.clear()
        pretrain(config)
        records = (tmp_path / name / "log.jsonl").read_text().splitlines()
        return [record.getMessage() for record in caplog.records], list(map(json.loads, records))

    return run


def number_of(lines, pattern) -> int:
    """The number in the one line that fits a pattern."""
    (found,) = {match[1] for line in lines if (match := re.search(pattern, line))}
    return int(found.replace(",", ""))


def random_lines(count, length, words, seed) -> list[str]:
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(words, length)) for _ in range(count)]


def test_row_28_tokens_are_counted_and_the_plan_comes_first(train):
    lines, records = train([f"line {number} of fifty" for number in range(50)], epochs=2)
    predictions = 50 * (4 + 1)  # a boundary is foretold too
    steps_per_epoch = -(-predictions // (4 * 20))
    planned = number_of(lines, r"^length +([\d,]+) steps")
    assert planned == 2 * steps_per_epoch
    assert number_of(lines, r"^length .* ([\d,]+) per epoch") == steps_per_epoch
    assert [record["step"] for record in records] == list(range(1, planned + 1))
    (time,) = (place for place, line in enumerate(lines) if re.match("time .* to go$", line))
    assert time < next(place for place, line in enumerate(lines) if line.startswith("step 1 of"))


def test_row_29_sampled_and_full_perplexity_are_told_apart(train):
    words = [f"w{number}" for number in range(30)]
    text, heldout = random_lines(200, 6, words, seed=0), random_lines(20, 6, words, seed=1)
    lines, records = train(
        text,
        heldout=heldout,
        objective={"num_negatives": 24, "dropout": 0.0},
        model={"input": "words", "cell_dim": 64, "projection_dim": 32},
        epochs=10,
        batch_size=8,
    )
    sampled = [record for record in records if record["kind"] == "train"]
    measured = [record for record in records if record["kind"] == "heldout"]
    assert all(record["sampled"] for record in sampled)
    assert any(re.search(r"^step .*: sampled perplexity [\d.]+ forward", line) for line in lines)
    assert any(re.search(r"^held-out perplexity .*\(all 33 words", line) for line in lines)
    per_epoch = number_of(lines, r"^length .* ([\d,]+) per epoch")
    assert [record["step"] for record in measured] == [per_epoch * n for n in range(1, 11)]
    # Words were drawn by chance: all that can be learnt of them is the training text by heart.
    assert measured[-1]["mean"] > 1.1 * min(record["mean"] for record in measured)
    assert any(line.startswith("held-out perplexity rises") for line in lines)


def test_row_32_every_line_and_token_is_accounted_for(train):
    text = random_lines(100, 7, [f"w{number}" for number in range(9)], seed=0)
    lines, records = train([*text[:60], "", *text[60:]], epochs=1)
    (told,) = {line for line in lines if line.startswith("text ")}
    assert "101 lines (1 blank), 100 sentences, 700 tokens (0.00% unknown, 0 dropped)" in told
    # <S> w1 .. w7 foretells w1 .. w7 </S>: 8 predictions a line, in windows of 20, four at a time.
    assert number_of(lines, r"^step .* = ([\d,]+) predictions per direction") == 4 * 20
    assert number_of(lines, r"^length +([\d,]+) steps") == 100 * 8 / (4 * 20)
    assert len(records) == 10


def test_row_34_the_softmax_is_kept_where_it_can_be(fixtures, tmp_path, capsys):
    source, native, pair = fixtures / "E_training_char", tmp_path / "native", tmp_path / "pair"
    sentence = "The ship left the"
    assert main(["predict", str(source), sentence]) == 0
    expected = capsys.readouterr().out
    assert len(expected.splitlines()) == 4 * 4  # each word, before, after, both
    assert main(["convert", str(source), str(native), "--to", "native"]) == 0
    capsys.readouterr()
    assert main(["predict", str(native), sentence]) == 0
    assert capsys.readouterr().out == expected
    assert main(["convert", str(source), str(pair), "--to", "allennlp"]) == 0
    capsys.readouterr()
    for arguments in (["predict", str(pair), sentence], ["perplexity", str(pair), "-"]):
        assert main(arguments) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert "has no LM softmax, so it can embed but neither score nor predict words" in err


@pytest.mark.parametrize("kind", ["bytes", "characters"])
def test_row_43_any_script_can_be_trained_on(train, tmp_path, kind):
    text = ["深い 海", "بحر عميق", "глубокое море", "\U0001f44d\U0001f3fd\u200d\u2764\ufe0f 海"]
    model = {"input": kind, "min_character_count": 1}
    _, records = train(text * 3, model=model, steps=10, batch_size=2, window=5)
    losses = [record["loss_forward"] + record["loss_backward"] for record in records]
    assert len(losses) == 10
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]
    bilm = BiLM.from_pretrained(tmp_path / "run" / "model")
    words = [word for line in text for word in line.split()]
    ids = bilm.encode_words(words).char_ids
    assert 1 <= ids.min() <= ids.max() <= bilm.config.characters.num_characters
    assert sum(map(bilm.count_unknown, words)) == 0
    forward, _ = Embedder(bilm).log_probs(["深い", "海"])
    assert np.isfinite(forward).all()


# Training: what is wrong, and what was cut off


@pytest.fixture
def small_run(tmp_path):
    """Settings of a small run over text of its own, with changes such as `schedule__steps=3`."""
    write_corpus(tmp_path)

    def settings(name="run", **changes):
        return make_config(tmp_path, tmp_path / name, **changes)

    return settings


BAD_LISTS = {
    "<S>\n</S>\n<UNK>\n\nsea\n": "line 4: is empty",
    "<S>\n</S>\n<UNK>\nsea\nsea\n": "line 5: 'sea' is on line 4 already",
    "<S>\n</S>\n<UNK>\nthe sea\n": "line 4: 'the sea' holds white space",
    "<S>\n</S>\nsea\n": "the word <UNK> is missing; insert it as line 3",
}


@pytest.mark.parametrize("listed", BAD_LISTS)
def test_row_30_a_bad_word_list_is_told_with_its_line(small_run, tmp_path, listed):
    (tmp_path / "vocab.txt").write_text(listed)
    with pytest.raises(InputError, match=re.escape(BAD_LISTS[listed])) as caught:
        pretrain(small_run())
    assert str(caught.value).startswith(str(tmp_path / "vocab.txt"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("ends", ["\r\n", "\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_row_30_line_ends_and_marks_are_mended(small_run, tmp_path, ends, mark):
    words = ["<S>", "</S>", "<UNK>", "w1", "w2"]
    (tmp_path / "vocab.txt").write_text(mark + ends.join(words) + ends, newline="")
    pretrain(small_run(schedule__steps=1, objective__num_negatives=None))
    assert (tmp_path / "run" / "vocab.txt").read_bytes().decode().splitlines() == words


def test_row_30_patterns_and_empty_files(small_run, tmp_path, caplog):
    for name, text in (("one.text", "w1 w2\n"), ("empty.text", "\n"), ("two.text", "w3\n")):
        (tmp_path / name).write_text(text)
    with caplog.at_level("INFO", "elmokit"):
        pretrain(small_run(data__train=[str(tmp_path / "*.text")], schedule__steps=1))
    assert f"{tmp_path / 'empty.text'}: holds no sentence" in caplog.messages
    assert "3 files, 3 lines (1 blank), 2 sentences, 3 tokens" in caplog.text
    with pytest.raises(InputError, match="there are quotes inside the pattern, leave them out"):
        pretrain(small_run("quoted", data__train=[f"'{tmp_path / '*.text'}'"]))
    with pytest.raises(InputError, match=r"matches no file; the folder .* holds empty\.text, "):
        pretrain(small_run("none", data__train=[str(tmp_path / "*.tex")]))


def test_row_31_a_run_goes_on_where_it_stopped(small_run, tmp_path, monkeypatch, caplog):
    changes = {"schedule__steps": 100, "schedule__evaluate_every": 30, "schedule__accumulate": 1}
    pretrain(small_run("straight", **changes))
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", _stop_at(37, Trainer.advance))
        with pytest.raises(KeyboardInterrupt):
            pretrain(small_run(**changes))
    with caplog.at_level("INFO", "elmokit"):
        pretrain(small_run(**changes), resume=True)
    # 19 steps an epoch, a checkpoint every 4 steps
    assert "going on after step 36, epoch 1.89" in caplog.messages
    assert_same_run(tmp_path / "run", tmp_path / "straight")


def _stop_at(step, advance):
    def stop(trainer):
        if trainer.step == step:
            raise KeyboardInterrupt
        return advance(trainer)

    return stop


def test_row_33_numbers_that_are_not_finite_stop_the_run(small_run, tmp_path, monkeypatch):
    # Cells and projections are limited in value, gradients in norm: a rate of 50 breaks no number.
    pretrain(small_run("fast", optimizer__learning_rate=50.0, schedule__accumulate=1))
    losses = [line["loss_forward"] for line in records(tmp_path / "fast") if "epoch" in line]
    assert np.isfinite(losses).all()
    assert max(losses) > 10
    advance = Trainer.advance

    def break_gradient(trainer):
        if trainer.step == 6:
            trainer.bilm.softmax.bias.register_hook(lambda g: torch.full_like(g, torch.inf))
        return advance(trainer)

    monkeypatch.setattr(Trainer, "advance", break_gradient)
    with pytest.raises(TrainingError) as caught:
        pretrain(small_run())
    assert re.match(r"step 7, epoch 0\.60: loss .* gradient norm inf: ", str(caught.value))
    assert "checkpoint.pt of step 4 is good" in str(caught.value)
    assert saved(tmp_path / "run")["step"] == 4
    assert all(tensor.isfinite().all() for tensor in saved(tmp_path / "run")["model"].values())
