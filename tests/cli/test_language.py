"""`elmo perplexity` and `elmo predict`."""

import gzip
import io
import json
import re
import sys

import pytest

from elmokit import Embedder

LINE = re.compile(
    r"perplexity ([\d.]+) forward, ([\d.]+) backward, ([\d.]+) mean; ([\d,]+) predictions per "
    r"direction, 200 words, ([\d.]+)% of the tokens unknown, state (.+)\n"
)


@pytest.fixture
def model(fixtures):
    return fixtures / "E_training_char"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("sh to 中lishél\n\nan nowhere .\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["char", "word"])
def test_running_text_has_the_perplexity_of_bilm_tfs_test(elmo, fixtures, kind):
    folder = fixtures / f"E_training_{kind}"
    ran = elmo("perplexity", folder, folder / "heldout.txt", "--state", "carry")
    assert (ran.code, ran.err) == (0, "")
    *numbers, count, _, state = LINE.fullmatch(ran.out).groups()
    expected = json.loads((folder / "info.json").read_text())["by_direction"]["batch_size_1"]
    names = ("forward_perplexity", "backward_perplexity", "combined")
    for number, name in zip(numbers, names, strict=True):
        assert float(number) == pytest.approx(expected[name], rel=1e-4)
    assert int(count) == expected["n_predictions_per_direction"]
    assert state == "carry"


def test_sentences_are_measured_from_the_initial_state_and_blank_lines_left_out(elmo, model, text):
    ran = elmo("perplexity", model, text)
    forward, backward, mean, count, unknown, state = LINE.fullmatch(ran.out).groups()
    emb = Embedder.from_pretrained(model)
    expected = emb.perplexity([["sh", "to", "中lishél"], ["an", "nowhere", "."]])
    found = (float(forward), float(backward), float(mean))
    assert found == pytest.approx(expected[:3], rel=1e-6)
    assert (int(count), float(unknown)) == (8, 33.33)
    assert state == "fresh (elmo train measures with --state carry)"


def test_compressed_text_standard_input_and_other_encodings(
    elmo, model, text, tmp_path, monkeypatch
):
    expected = elmo("perplexity", model, text).out
    (tmp_path / "in.txt.gz").write_bytes(gzip.compress(text.read_bytes()))
    assert elmo("perplexity", model, tmp_path / "in.txt.gz").out == expected
    (tmp_path / "wide.txt").write_text(text.read_text("utf-8"), encoding="utf-16")
    wide = elmo("perplexity", model, tmp_path / "wide.txt", "--encoding", "utf-16")
    assert wide.out == expected
    stream = io.TextIOWrapper(io.BytesIO(text.read_bytes()), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", stream)
    assert elmo("perplexity", model, "-").out == expected


def test_every_token_is_told_with_both_log_probabilities(elmo, model, text):
    plain, ran = elmo("perplexity", model, text), elmo("perplexity", model, text, "--per-token")
    *lines, last = ran.out.splitlines(keepends=True)
    assert last == plain.out
    rows = [line.rstrip("\n").split("\t") for line in lines]
    tokens = ["<S>", "sh", "to", "中lishél", "</S>", "<S>", "an", "nowhere", ".", "</S>"]
    assert [token for token, _, _ in rows] == tokens
    emb = Embedder.from_pretrained(model)
    for first, sentence in ((0, tokens[1:4]), (5, tokens[6:9])):
        forward, backward = emb.log_probs(sentence)
        told = rows[first : first + 5]
        assert (told[0][1], told[-1][2]) == ("", "")  # what is read first is not foretold
        assert [float(row[1]) for row in told[1:]] == pytest.approx(forward, abs=1e-4)
        assert [float(row[2]) for row in told[:-1]] == pytest.approx(backward, abs=1e-4)


def test_expected_words_are_a_table(elmo, model):
    ran = elmo("predict", model, "sh to nowhere", "-k", 3)
    assert (ran.code, ran.err) == (0, "")
    lines = iter(ran.out.splitlines())
    for prediction in Embedder.from_pretrained(model).predict(["sh", "to", "nowhere"], 3):
        assert next(lines) == prediction.token
        for name in ("forward", "backward", "both"):
            told, *pairs = next(lines).split()
            assert told == name
            words, values = pairs[::2], [float(value) for value in pairs[1::2]]
            assert words == [word for word, _ in getattr(prediction, name)]
            assert values == pytest.approx([v for _, v in getattr(prediction, name)], abs=0.006)
    assert next(lines, None) is None


def test_a_word_that_the_terminal_cannot_show_is_escaped(elmo, model):
    ran = elmo("predict", model, "a\ud800b", "--k", 1)
    assert ran.code == 0
    assert ran.out.startswith("a\\ud800b\n")


def test_text_without_spaces_is_cut_by_a_tokeniser(elmo, model, tmp_path):
    (tmp_path / "zh.txt").write_text("中文好\n", encoding="utf-8")
    (tmp_path / "cut.txt").write_text("中 文 好\n", encoding="utf-8")
    cut = ("--tokenizer", "characters")
    assert (
        elmo("perplexity", model, tmp_path / "zh.txt", *cut).out
        == elmo("perplexity", model, tmp_path / "cut.txt").out
    )
    told = elmo("predict", model, "中文 好", *cut)
    assert told.out == elmo("predict", model, "中 文 好").out
    assert told.out.splitlines()[::4] == ["中", "文", "好"]


@pytest.mark.parametrize("command", ["perplexity", "predict"])
def test_a_model_without_a_softmax_says_so_before_it_reads(refused, fixtures, command):
    message = refused(command, fixtures / "A2_bilm_skip", "no such file")
    assert message.startswith("this model has no LM softmax, so it can embed but neither score")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("perplexity", "MODEL", "nowhere.txt"), "nowhere.txt: cannot be read: No such file"),
        (("perplexity", "MODEL", "blank.txt"), "blank.txt: holds not a single token to measure"),
        (("perplexity", "MODEL", "latin.txt"), "latin.txt: line 2"),
        (("perplexity", "MODEL", "in.txt", "--state", "stale"), "invalid choice 'stale'"),
        (("perplexity", "MODEL", "in.txt", "--encoding", "utf-9"), "'utf-9' is no text encoding"),
        (("perplexity", "MODEL", "in.txt", "--device", "gpu"), "device: 'gpu' cannot be used"),
        (("perplexity", "MODEL", "in.txt", "--per-token", "--state", "carry"), "per_token: "),
        (("perplexity", "MODEL"), "TEXT"),
        (("predict", "MODEL", "sh", "-k", "0"), "k: 0 must lie in 1..200"),
        (("predict", "MODEL", "sh", "-k", "201"), "k: 201 must lie in 1..200"),
        (("predict", "MODEL", "  "), "sentence: holds not a single token"),
        (("predict", "MODEL"), "SENTENCE"),
    ],
)
def test_what_is_wrong_is_one_line(refused, model, text, monkeypatch, arguments, part):
    (text.parent / "blank.txt").write_text("\n  \n")
    (text.parent / "latin.txt").write_bytes(b"sh to\nan \xe9\n")
    monkeypatch.chdir(text.parent)
    assert part in refused(*(model.resolve() if a == "MODEL" else a for a in arguments))
