"""`elmo analyze`: every command's table and files, and what a user can get wrong."""

import dataclasses
import inspect
import json
import re
import sys
from typing import get_args
from xml.etree import ElementTree

import pytest

from builders import char_bilm
from elmokit.analysis.efficiency import measure_efficiency
from elmokit.analysis.layers import compare_layers
from elmokit.cli.analyze_tasks import EfficiencySettings, LayersSettings
from elmokit.embedding.settings import RowFormat
from elmokit.text.reading import FORMATS

PNG = b"\x89PNG\r\n\x1a\n"
TEXT = "the bank of the river\nshe went to the bank\nno bank at all\n價錢 $5 & $6\n"
SENSES = (
    "bank-n.1\triver\t1\tthe bank of the river\n"
    "bank-n.2\tmoney\t4\tshe went to the bank\n"
    "bank-n.3\tmoney\t1\tno bank at all\n"
)
TAGS = "".join(
    f"1\t{noun}\t_\tNOUN\tNN\t_\t_\t_\t_\t_\n2\t{verb}\t_\tVERB\tVB\t_\t_\t_\t_\t_\n\n"
    for noun, verb in (("cats", "sleep"), ("dogs", "run"), ("rain", "falls"))
)


@pytest.fixture
def model(tmp_path):
    char_bilm().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def place(tmp_path):
    for name, text in (("a.txt", TEXT), ("s.tsv", SENSES), ("t.conllu", TAGS)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def analyze(elmo, model, monkeypatch):
    """Runs an analysis where no display is, and a display is asked for."""
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setenv("MPLBACKEND", "TkAgg")

    def run(*arguments):
        ran = elmo("analyze", *arguments, "--model", model)
        assert ran.code == 0, ran.err
        return ran

    return run


def check_files(folder, name, *others):
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        (f"{name}.json", f"{name}.png", f"{name}.svg", *others)
    )
    assert (folder / f"{name}.png").read_bytes().startswith(PNG)
    assert "<svg" in (folder / f"{name}.svg").read_text(encoding="utf-8")
    found = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    assert found["analysis"] == name
    assert found["model"]["sha256"]
    assert found["environment"]["elmokit"]
    return found


def test_probe_of_tags_and_of_senses(analyze, place):
    tags, senses, out = place / "t.conllu", place / "s.tsv", place / "out"
    ran = analyze("probe", "--train", tags, "--dev", tags, "-o", out, "--field", "xpos")
    assert ran.out.splitlines()[0].split() == ["probe", "layer", "accuracy", "%"]
    assert ran.out.splitlines()[1].split() == ["majority", "100.0"]
    found = check_files(out, "probe")
    assert [(x["method"], x["layer"], x["accuracy"]) for x in found["scores"]][:2] == [
        *(("majority", None, 1), ("linear", 0, 1))
    ]
    assert found["settings"]["field"] == "xpos"
    ran = analyze("probe", "--train", senses, "--dev", senses, "--seeds", 2, "--layers", "1,2")
    assert "bank-n" in ran.out.splitlines()[0]
    assert "written" not in ran.out


def test_index_and_neighbors(analyze, place):
    ran = analyze("index", place / "a.txt", place / "index")
    assert ran.out == f"{place / 'index'}: 18 tokens of 14 types in 4 sentences\n"
    sentence = "she went to the bank"
    ran = analyze("neighbors", place / "index", sentence, "bank", "-k", 2, "-o", place / "out/")
    assert "layer 2  1.000   she went to the [bank]" in ran.out.splitlines()
    assert "layer 0  1.000   bank" in ran.out.splitlines()
    found = check_files(place / "out", "neighbors")
    assert found["layers"]["1"][0]["cosine"] == pytest.approx(1, abs=1e-6)


def test_similarity_shows_any_characters(analyze, place):
    ran = analyze("similarity", "a bank $5", "價錢 $5 & $6", "--layers", "0", "-o", place / "out")
    assert "0      $5     $5       1.000" in ran.out.splitlines()
    check_files(place / "out", "similarity")
    assert "$5" in (place / "out" / "similarity.svg").read_text(encoding="utf-8")


def test_any_string_of_python_is_shown(analyze, place):
    """Halves of surrogate pairs come of JSON, and of arguments that are not UTF-8."""
    odd = ["\udcff", "a\x01b", "\uffff", "價"]
    rows = [json.dumps({"tokens": ["ba\udcffnk", token]}) for token in odd]
    (place / "odd.jsonl").write_text("\n".join(rows))
    analyze("index", place / "odd.jsonl", place / "index")
    for command in (
        ("similarity", " ".join(odd), " ".join(odd)),
        ("neighbors", place / "index", " ".join(odd), odd[0]),
        ("senses", place / "odd.jsonl", "ba\udcffnk"),
    ):
        analyze(*command, "-o", place / "out")
        shown = ElementTree.parse(place / "out" / f"{command[0]}.svg")
        assert r"\udcff" in " ".join(shown.getroot().itertext())
        assert (place / "out" / f"{command[0]}.png").exists()
    found = [
        json.loads((place / "out" / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("similarity", "neighbors", "senses")
    ]
    assert found[0]["first"] == found[1]["tokens"] == odd
    assert [x["tokens"][1] for x in found[2]["occurrences"]] == odd
    assert "價" in (place / "out" / "senses.json").read_text(encoding="utf-8")
    page = (place / "out" / "senses.html").read_text(encoding="utf-8")
    [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert [x["after"] for x in json.loads(data)["sentences"]] == odd


def test_senses(analyze, place):
    ran = analyze("senses", place / "s.tsv", "bank", "-o", place / "out")
    assert "purity" in ran.out.splitlines()[0]
    assert "bank: 3 occurrences of 2 senses, the most frequent one 66.7% of them." in ran.out
    found = check_files(place / "out", "senses", "senses.html")
    assert [layer["clusters"] for layer in found["layers"]] == [1, 2, 2]
    ran = analyze("senses", place / "a.txt", "BANK")
    assert "purity" not in ran.out


def test_drift(analyze, place):
    ran = analyze("drift", place / "a.txt", "-o", place / "out")
    found = check_files(place / "out", "drift")
    assert found["advice"] in ran.out
    assert found["distances"]["zero state"]["relative"][0][0] == 0


def test_results_are_not_replaced_unasked(analyze, refused, place, model):
    arguments = ("similarity", "a", "b", "-o", place / "out")
    analyze(*arguments)
    message = refused("analyze", *arguments, "--model", model)
    assert message.endswith(
        "similarity.json: exists; use --overwrite to replace it, or give another folder"
    )
    before = (place / "out" / "similarity.png").read_bytes()
    analyze(*arguments, "--overwrite")
    assert (place / "out" / "similarity.png").read_bytes() == before


def test_what_a_user_can_get_wrong(refused, place, model):
    text, tags, senses = place / "a.txt", place / "t.conllu", place / "s.tsv"
    one = place / "one.conllu"
    one.write_text("1\tcats\t_\tNOUN\tNN\t_\t_\t_\t_\t_\n", encoding="utf-8")
    outside = place / "outside.tsv"
    outside.write_text("a.1\tx\t7\tthree words here\n", encoding="utf-8")
    for arguments, message in (
        (("similarity", "a", "b", "--layers", "3"), "asks for a layer outside 0..2"),
        (("similarity", "a", "b", "--layers", "top"), "'top' is not all, a number such as 1"),
        (("similarity", "a", "b", "--layers", "1,1"), "names a layer twice"),
        (("similarity", "a", " "), "second: the sentence holds not a single token"),
        (("similarity", "a", "b", "-o", text), "is a file; give a folder with -o"),
        (("similarity", "a", "b", "-o", place / "no" / "out"), "there is no folder"),
        (("senses", text, "zebra"), "'zebra' occurs never in the corpus"),
        (("senses", senses, "zebra"), "'zebra' occurs never in the corpus"),
        (("senses", text, "bank", "--max-clusters", "1"), "max_clusters: 1 is too few"),
        (("probe", "--train", one, "--dev", tags), "all training words have the tag 'NOUN'"),
        (("probe", "--train", outside, "--dev", senses), "outside.tsv: line 1: the word's place"),
        (("probe", "--train", text, "--dev", tags), "a.txt: line 1: found 1 columns"),
        (("neighbors", place / "no", "a", "a"), "is no index; make one with elmo analyze index"),
        (("neighbors", place, "a b", "c"), "'c' is no token of the sentence"),
        (("index", place / "no", place / "index"), "no: cannot be read"),
        (("index", text, place), "is in the way, and is no index"),
        (("drift", tags), "the text has 3 sentences; give running text of 4 or more"),
        *(
            (("drift", text, "--max-sentences", number), f"max_sentences: {number} must be 4 or")
            for number in ("3", "0", "-1")
        ),
        (("senses", text, "bank", "--max-occurrences", "-1"), "max_occurrences: -1 is too few"),
        (("probe", "--train", tags, "--dev", tags, "--max-dev", "-1"), "max_dev: -1 must be 1"),
        (("probe", "--train", senses, "--dev", senses, "--field", "upos"), "field: belongs to"),
    ):
        assert message in refused("analyze", *arguments, "--model", model)


def test_an_index_of_another_model(analyze, refused, place):
    analyze("index", place / "a.txt", place / "index")
    char_bilm(seed=1).save_pretrained(place / "other")
    message = refused(
        *("analyze", "neighbors", place / "index", "a bank", "bank", "--model", place / "other")
    )
    assert "was made with another model" in message


def test_missing_libraries_are_named(refused, place, model, monkeypatch):
    class Missing:
        def find_spec(self, name, *_):
            if name == "sklearn":
                raise ModuleNotFoundError(f"No module named '{name}'", name=name)

    for name in ("sklearn", "sklearn.linear_model"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    tags = place / "t.conllu"
    message = refused("analyze", "probe", "--train", tags, "--dev", tags, "--model", model)
    assert message == 'this analysis needs sklearn; pip install "elmokit[analysis]"'


def test_a_choice_is_the_same_wherever_it_stands():
    assert get_args(RowFormat) == ("auto", *FORMATS)
    for function, kind, name in (
        (compare_layers, LayersSettings, "lambdas"),
        (measure_efficiency, EfficiencySettings, "fractions"),
    ):
        [field] = [field for field in dataclasses.fields(kind) if field.name == name]
        assert field.default == inspect.signature(function).parameters[name].default


def test_a_group_needs_a_command(refused, elmo):
    assert refused("analyze").startswith("analyze: give probe, index, neighbors, ")
    assert "unknown command 'prob' (did you mean 'probe'?)" in refused("analyze", "prob")
    assert "elmo analyze" in elmo("analyze", "senses", "--help").out
