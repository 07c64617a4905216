import shutil

import pytest
import torch

from elmokit import BiLM
from elmokit.checkpoints.tensorflow import read_optimizer
from elmokit.errors import CheckpointError, ConfigError, InputError
from elmokit.training import opening
from elmokit.training.build import structure
from elmokit.training.distributed import Processes
from elmokit.training.opening import open_again, open_new
from elmokit.training.vocabulary import SPECIAL
from training.corpora import write_text
from training.runs import assert_same, make_config, write_corpus

ALONE = Processes(0, 1, torch.device("cpu"))


@pytest.fixture
def run_dir(tmp_path):
    write_corpus(tmp_path)
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def config(run_dir, **changes):
    return make_config(run_dir.parent, run_dir, **changes)


def test_a_run_opens_its_text_and_makes_its_model(run_dir):
    opened = open_new(config(run_dir), run_dir, ALONE)
    assert (opened.corpus.num_sentences, opened.heldout.num_sentences) == (24, 8)
    assert opened.bilm.vocabulary == opened.corpus.vocabulary == opened.heldout.vocabulary
    assert opened.optimizer is None
    assert {path.name for path in run_dir.iterdir()} == {"vocab.txt", "corpus", "heldout"}


def test_held_out_text_may_be_missing(run_dir):
    assert open_new(config(run_dir, data__heldout=[]), run_dir, ALONE).heldout is None
    assert not (run_dir / "heldout").exists()


def test_what_was_opened_is_opened_again_without_text(run_dir):
    first = open_new(config(run_dir), run_dir, ALONE)
    for name in ("train", "heldout", "vocab"):
        (run_dir.parent / f"{name}.txt").unlink()
    saved = {"structure": structure(first.bilm), "model": first.bilm.state_dict()}
    again = open_again(config(run_dir), run_dir, saved)
    assert_same(dict(again.bilm.state_dict()), dict(first.bilm.state_dict()))
    assert again.corpus.fingerprint == first.corpus.fingerprint
    assert again.heldout.fingerprint == first.heldout.fingerprint


def test_prepared_text_that_is_lost_is_told(run_dir):
    first = open_new(config(run_dir), run_dir, ALONE)
    saved = {"structure": structure(first.bilm), "model": first.bilm.state_dict()}
    shutil.rmtree(run_dir / "corpus")
    with pytest.raises(InputError, match=r"corpus\.json: No such file"):
        open_again(config(run_dir), run_dir, saved)
    (run_dir / "vocab.txt").unlink()
    with pytest.raises(CheckpointError, match=r"vocab\.txt: cannot be read"):
        open_again(config(run_dir), run_dir, saved)


def test_held_out_text_is_not_learnt_from(run_dir):
    both = config(run_dir, data__train=[str(run_dir.parent / "*.txt")])
    with pytest.raises(InputError) as caught:
        open_new(both, run_dir, ALONE)
    assert str(caught.value) == (
        f"data.heldout: {run_dir.parent / 'heldout.txt'}: is in data.train too, and would measure "
        "what was learnt by heart; take it out of one of them"
    )
    assert not (run_dir / "corpus").exists()


@pytest.mark.parametrize(("negatives", "warned"), [(8, True), (None, False)])
def test_a_sampled_list_by_alphabet_is_warned_of(run_dir, caplog, negatives, warned):
    words = sorted((run_dir.parent / "vocab.txt").read_text().split()[3:])
    write_text(run_dir.parent / "sorted.txt", (*SPECIAL, *words))
    for name in ("vocab", "sorted"):
        vocabulary = str(run_dir.parent / f"{name}.txt")
        changes = {"data__vocabulary": vocabulary, "objective__num_negatives": negatives}
        open_new(config(run_dir, **changes), run_dir, ALONE)
    assert [f"{vocabulary} is in the order of the alphabet" in m for m in caplog.messages] == (
        [True] if warned else []
    )


def test_a_stacked_lstm_is_refused_before_the_text_is_read(fixtures, run_dir):
    start = {"model": str(fixtures / "B_efml_lstm_encoder"), "softmax": "new"}
    with pytest.raises(ConfigError, match="neither learn, score nor predict words"):
        open_new(config(run_dir, start=start), run_dir, ALONE)
    assert not any(run_dir.iterdir())


@pytest.fixture
def its_text(fixtures, run_dir):
    """Text in the words of bilm-tf's training checkpoint."""
    source = fixtures / "E_training_char"
    words = (source / "vocab.txt").read_text().split()[3:]
    for name in ("train", "heldout"):
        write_text(run_dir.parent / f"{name}.txt", [" ".join(words[:20])] * 5)
    return source


@pytest.mark.parametrize("packed", [False, True])
def test_the_optimizer_of_bilm_tf_comes_along(its_text, run_dir, tmp_path, packed):
    source = its_text
    if packed:
        source = shutil.make_archive(str(tmp_path / "packed"), "zip", its_text)
    found = open_new(config(run_dir, start={"model": str(source)}), run_dir, ALONE)
    wanted = read_optimizer(its_text)
    assert found.optimizer.step == wanted.step == 80
    assert_same(dict(found.optimizer.accumulators), dict(wanted.accumulators))
    assert found.corpus.vocabulary.words == BiLM.from_pretrained(its_text).vocabulary.words


def test_an_optimizer_that_cannot_be_read_is_done_without(its_text, run_dir, monkeypatch, caplog):
    def refuse(directory):
        raise CheckpointError("model: no tensor has an accumulator")

    monkeypatch.setattr(opening, "read_optimizer", refuse)
    made = config(run_dir, start={"model": str(its_text)})
    assert open_new(made, run_dir, ALONE).optimizer is None
    assert "model: no tensor has an accumulator; the accumulators start anew" in caplog.messages
