import json

import h5py
import numpy as np
import pytest
import torch

from builders import char_bilm
from elmokit import BiLM
from elmokit.vocabulary import Vocabulary


def datasets(path):
    found = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: found.update({name: item[()]} if hasattr(item, "shape") else {})
        )
    return found


def test_info_prints_a_fact_a_line(elmo, fixtures):
    ran = elmo("info", fixtures / "A2_bilm_skip")
    assert (ran.code, ran.err) == (0, "")
    facts = dict(line.split(maxsplit=1) for line in ran.out.splitlines())
    assert facts["format"] == "allennlp"
    assert facts["vectors"].startswith("(4, T, 32)")
    assert len({line.index(line.split("  ")[-1].strip()) for line in ran.out.splitlines()}) == 1


def test_convert_halves_the_weights_on_demand(elmo, fixtures, tmp_path):
    source = fixtures / "A2_bilm_skip"
    assert elmo("convert", source, tmp_path / "m", "--to", "native", "--dtype", "float16").code == 0
    assert (tmp_path / "m/model.safetensors").stat().st_size < 250_000
    ran = elmo("convert", source, tmp_path / "p", "--to", "allennlp", "--dtype", "float16")
    assert ran.code == 2
    assert "float32 only" in ran.err


def test_info_prints_a_card_on_lines_of_its_own(elmo, tmp_path):
    char_bilm().with_card(name="a\ud800b", notes="one\ntwo").save_pretrained(tmp_path / "m")
    ran = elmo("info", tmp_path / "m")
    assert ran.code == 0
    assert "model         a\\ud800b\n" in ran.out
    assert "notes         one two\n" in ran.out


@pytest.mark.parametrize("name", ["A2_bilm_skip", "A2_bilm_noskip", "A3_token_lm"])
def test_convert_there_and_back_changes_no_bit(elmo, fixtures, tmp_path, name):
    there, back = tmp_path / "there", tmp_path / "back"
    ran = elmo("convert", fixtures / name, there, "--to", "native")
    assert (ran.code, ran.out, ran.err) == (0, f"{there}: written as native\n", "")
    assert elmo("convert", there, back, "--to", "allennlp").code == 0
    original, again = datasets(fixtures / name / "weights.hdf5"), datasets(back / "weights.hdf5")
    assert original.keys() == again.keys()
    for key, array in original.items():
        assert array.dtype == again[key].dtype == np.float32
        assert array.tobytes() == again[key].tobytes(), key
    first, second = (BiLM.from_pretrained(folder) for folder in (fixtures / name, back))
    assert first.config == second.config


def test_convert_writes_what_the_option_says(elmo, tmp_path):
    bilm = char_bilm()
    bilm.vocabulary = Vocabulary(("<S>", "</S>", "<UNK>", "tea"))
    bilm.save_pretrained(tmp_path / "a")
    assert elmo("convert", tmp_path / "a", tmp_path / "b", "--to", "allennlp").code == 0
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == [
        "options.json",
        "vocab.txt",
        "weights.hdf5",
    ]
    assert json.loads((tmp_path / "b" / "options.json").read_text())["lstm"]["dim"] == 24


def test_convert_reads_what_it_cannot_write(elmo, refused, fixtures, tmp_path):
    source = fixtures / "B_efml_char_cnn"
    assert elmo("convert", source, tmp_path / "native", "--to", "native").code == 0
    first, second = BiLM.from_pretrained(source), BiLM.from_pretrained(tmp_path / "native")
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name])
    message = refused("convert", source, tmp_path / "allennlp", "--to", "allennlp")
    assert message.startswith("the AllenNLP format cannot express this model: ")


def test_a_calibrated_state_is_dropped_with_a_warning(elmo, tmp_path):
    bilm = char_bilm()
    bilm.initial_state.h.fill_(0.5)
    bilm.save_pretrained(tmp_path / "a")
    ran = elmo("convert", tmp_path / "a", tmp_path / "b", "--to", "allennlp")
    assert ran.code == 0
    assert ran.err.startswith("warning: the AllenNLP format has no place for a calibrated")
    assert ran.err.count("\n") == 1
