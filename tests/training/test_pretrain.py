import contextlib
import hashlib
import itertools
import json
import logging
import shutil

import pytest
import torch

from elmokit import BiLM, Embedder
from elmokit.checkpoints.tensorflow import read_optimizer
from elmokit.errors import CheckpointError, ConfigError, InputError, OutputError, TrainingError
from elmokit.training import pretrain
from elmokit.training.corpus import open_corpus
from elmokit.training.measure import measure
from elmokit.training.trainer import Trainer
from elmokit.training.vocabulary import SPECIAL
from elmokit.training.windows import TypeTable
from training.corpora import write_text
from training.runs import (
    assert_same,
    assert_same_run,
    limited_files,
    make_config,
    models,
    records,
    saved,
    write_corpus,
)

SHORT = {"schedule__steps": 3, "schedule__accumulate": 1}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def straight(text, tmp_path_factory):
    """A run that nothing went wrong with."""
    run_dir = tmp_path_factory.mktemp("straight") / "run"
    pretrain.pretrain(make_config(text, run_dir))
    return run_dir


@pytest.fixture
def at_step(monkeypatch):
    """Does something before a step is made, the plan's left out."""

    def at_step(step, action):
        advance = pretrain._Run.train

        def train(run, terminated):
            make = Trainer.advance

            def act(trainer):
                if trainer.step == step - 1:
                    action(trainer)
                return make(trainer)

            monkeypatch.setattr(Trainer, "advance", act)
            return advance(run, terminated)

        monkeypatch.setattr(pretrain._Run, "train", train)

    return at_step


def refusal(config, error, **settings):
    with pytest.raises(error) as caught:
        pretrain.pretrain(config, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def contents(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def perplexity(model, run_dir):
    bilm = BiLM.from_pretrained(model)
    corpus = open_corpus(run_dir / "heldout", bilm.vocabulary)
    return measure(bilm, corpus, TypeTable(corpus.types, bilm)).mean


# What a run leaves


def test_a_run_leaves_its_files(straight):
    assert {path.name for path in straight.iterdir()} == {
        *("run.json", "vocab.txt", "corpus", "heldout", "log.jsonl", "checkpoint.pt"),
        *("model", "last"),
    }


def test_the_log_has_losses_and_measurements(straight):
    lines = [json.loads(line) for line in (straight / "log.jsonl").read_text().splitlines()]
    steps = [(line["kind"], line["step"]) for line in lines]
    assert [step for kind, step in steps if kind == "train"] == list(range(1, 15))
    # Every 5 steps, at the end of the epoch, and at the end.
    assert [step for kind, step in steps if kind == "heldout"] == [5, 10, 14]
    assert lines[0].keys() == {
        *("kind", "step", "epoch", "loss_forward", "loss_backward", "sampled", "gradient_norm"),
        *("learning_rate", "tokens_per_second"),
    }
    assert lines[0]["sampled"] is True
    assert lines[0]["epoch"] == 0.1
    assert lines[0]["tokens_per_second"] > 0
    assert lines[5].keys() == {
        *("kind", "step", "forward", "backward", "mean", "num_predictions", "unknown_rate")
    }


def test_an_epochs_end_is_measured(text, tmp_path):
    config = make_config(text, tmp_path / "run", schedule__evaluate_every=1000, schedule__steps=12)
    pretrain.pretrain(config)
    lines = records(tmp_path / "run")
    assert [line["step"] for line in lines if line["kind"] == "heldout"] == [10, 12]


def test_a_line_for_people_has_what_they_want_to_know(text, tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        pretrain.pretrain(make_config(text, tmp_path / "run", **SHORT))
    line = next(m for m in caplog.messages if m.startswith("step 1 of 3, epoch 0.05: "))
    for part in (
        "sampled perplexity",
        " forward, ",
        " backward; ",
        " tokens per second, ",
        " left",
    ):
        assert part in line
    assert "held-out perplexity after step 3: " in caplog.text
    assert f"finished after 3 steps: the model is in {tmp_path / 'run' / 'model'}" in caplog.text


def test_the_whole_vocabulary_is_not_called_sampled(text, tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        pretrain.pretrain(
            make_config(text, tmp_path / "run", objective__num_negatives=None, **SHORT)
        )
    assert "sampled" not in caplog.text
    assert records(tmp_path / "run")[0]["sampled"] is False


def test_the_best_and_the_last_model_are_what_the_log_says(straight):
    measured = [line["mean"] for line in records(straight) if line["kind"] == "heldout"]
    assert perplexity(straight / "model", straight) == pytest.approx(min(measured), rel=1e-6)
    assert perplexity(straight / "last", straight) == pytest.approx(measured[-1], rel=1e-6)
    tensors = saved(straight)["model"]
    for name, tensor in models(straight).items():
        folder, _, rest = name.partition("/")
        if folder == "last":
            key = rest if rest.startswith("softmax.") else f"network.{rest}"
            assert torch.equal(tensor, tensors[key])


def test_without_held_out_text_the_model_is_the_last_checkpoints(text, tmp_path, at_step):
    seen = []
    at_step(6, lambda trainer: seen.append(models(tmp_path / "run")))
    config = make_config(text, tmp_path / "run", data__heldout=[], schedule__steps=6)
    pretrain.pretrain(config)
    assert not (tmp_path / "run" / "last").exists()
    found = models(tmp_path / "run")
    tensors = saved(tmp_path / "run")["model"]
    assert torch.equal(found["model/softmax.weight"], tensors["softmax.weight"])
    assert not torch.equal(seen[0]["model/softmax.weight"], tensors["softmax.weight"])


def overfit(text, run_dir, **changes):
    """A run that learns by heart: held-out perplexity falls at first and rises then."""
    settings = {
        "data__heldout": [str(text / "vocab.txt")],
        "optimizer__name": "adamw",
        "optimizer__learning_rate": 0.1,
        "objective__num_negatives": None,
        "objective__dropout": 0.0,
        "schedule__steps": 40,
        "schedule__accumulate": 1,
        "schedule__evaluate_every": 4,
    }
    return make_config(text, run_dir, **{**settings, **changes})


def test_a_run_that_learns_by_heart_is_warned_of(text, tmp_path, caplog):
    pretrain.pretrain(overfit(text, tmp_path / "run"))
    lines = records(tmp_path / "run")
    measured = [line["mean"] for line in lines if line["kind"] == "heldout"]
    rises = [m for m in caplog.messages if m.startswith("held-out perplexity rises (")]
    assert len(rises) == sum(b > a for a, b in itertools.pairwise(measured)) > 2
    assert measured[-1] > min(measured)
    assert perplexity(tmp_path / "run" / "model", tmp_path / "run") == pytest.approx(min(measured))


def test_patience_ends_a_run_early_for_good(text, tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        pretrain.pretrain(overfit(text, tmp_path / "run", schedule__patience=2))
    step = saved(tmp_path / "run")["step"]
    assert step < 40
    assert "no better for 2 measurements: stopping early" in caplog.messages
    assert caplog.messages[-1].startswith(f"finished after {step} steps")
    before = records(tmp_path / "run")
    pretrain.pretrain(overfit(text, tmp_path / "run", schedule__patience=2), resume=True)
    assert records(tmp_path / "run") == before
    pretrain.pretrain(overfit(text, tmp_path / "run", schedule__patience=3), resume=True)
    assert saved(tmp_path / "run")["step"] > step


# Numbers that are no longer finite


def test_an_infinite_gradient_stops_the_run_and_overwrites_nothing(text, tmp_path, at_step):
    def break_gradient(trainer):
        before.update(contents(tmp_path / "run"))
        trainer.bilm.softmax.bias.register_hook(lambda g: torch.full_like(g, torch.inf))

    before: dict[str, str] = {}
    at_step(7, break_gradient)
    found = refusal(make_config(text, tmp_path / "run"), TrainingError)
    assert found.startswith("step 7, epoch 0.60: loss ")
    assert "gradient norm inf: no longer finite; nothing is overwritten" in found
    assert f"{tmp_path / 'run' / 'checkpoint.pt'} of step 4 is good" in found
    assert found.endswith(f"perhaps with start.model: {tmp_path / 'run' / 'model'}")
    assert contents(tmp_path / "run") == before
    assert saved(tmp_path / "run")["step"] == 4


@pytest.mark.parametrize("rate", [1e30, 1e38])
@pytest.mark.parametrize("every", [1, 1000])
def test_a_learning_rate_far_too_high_leaves_a_good_checkpoint(text, tmp_path, rate, every):
    config = make_config(
        text, tmp_path / "run", optimizer__learning_rate=rate, schedule__checkpoint_every=every
    )
    found = refusal(config, TrainingError)
    assert "no longer finite; nothing is overwritten" in found
    assert "checkpoint.pt of step 0 is good" in found
    assert not (tmp_path / "run" / "model").exists()
    for tensor in saved(tmp_path / "run")["model"].values():
        assert tensor.isfinite().all()


def test_weights_that_are_not_finite_are_not_kept(text, tmp_path, at_step):
    at_step(4, lambda trainer: trainer.bilm.softmax.bias.data.fill_(torch.nan))
    found = refusal(make_config(text, tmp_path / "run"), TrainingError)
    assert found.startswith("step 4, epoch 0.30: loss nan")


def test_a_last_step_into_the_void_is_not_kept(text, tmp_path, monkeypatch):
    advance = Trainer.advance

    def spoil(trainer):
        result = advance(trainer)
        if trainer.step == trainer.num_steps:
            trainer.bilm.softmax.bias.data[0] = torch.inf
        return result

    monkeypatch.setattr(Trainer, "advance", spoil)
    config = make_config(text, tmp_path / "run", data__heldout=[], schedule__steps=6)
    found = refusal(config, TrainingError)
    assert found.startswith("step 6, epoch 0.60: softmax.bias is no longer finite; nothing is")
    assert saved(tmp_path / "run")["step"] == 4


# A disk that is full


@pytest.mark.parametrize(
    ("step", "size", "name"),
    [
        (8, 10_000, "checkpoint.pt"),
        (5, 10_000, "model"),
        (6, 100, "log.jsonl"),
    ],
)
def test_a_full_disk_is_told_and_the_run_goes_on_later(
    text, straight, tmp_path, monkeypatch, at_step, step, size, name
):
    with contextlib.ExitStack() as stack:
        at_step(step, lambda _: stack.enter_context(limited_files(size)))
        found = refusal(make_config(text, tmp_path / "run"), OutputError)
    assert found.startswith(f"{tmp_path / 'run' / name}: cannot be written (")
    assert "File too large" in found
    assert found.endswith("free some space, then go on with --resume")
    monkeypatch.undo()
    pretrain.pretrain(make_config(text, tmp_path / "run"), resume=True)
    assert_same_run(tmp_path / "run", straight)


# Alphabets and words


@pytest.mark.parametrize("kind", ["bytes", "characters", "words"])
def test_every_kind_of_input_is_trained_saved_and_read(tmp_path, kind):
    lines = ["深い 海 は 青い", "بحر عميق", "глубокое море", "👩🏽‍🔬 the deep sea 🏳️‍🌈"] * 3
    words = dict.fromkeys(word for line in lines for word in line.split())
    write_text(tmp_path / "train.txt", lines)
    write_text(tmp_path / "heldout.txt", lines[:3])
    write_text(tmp_path / "vocab.txt", (*SPECIAL, *words))
    config = make_config(
        tmp_path,
        tmp_path / "run",
        model__input=kind,
        model__max_characters=7,
        objective__num_negatives=None,
        schedule__steps=4,
        schedule__evaluate_every=2,
    )
    model = pretrain.pretrain(config)
    bilm = BiLM.from_pretrained(model)
    if kind != "words":
        assert bilm.alphabet.max_characters == bilm.config.characters.max_characters == 7
        assert bilm.batch_to_ids([["aaaaaaaaaaaa"]]).size(2) == 7 if kind == "bytes" else True
        long, cut = Embedder(bilm).embed([["abcdefgh"], ["abcde"]])
        assert (long == cut).all()  # cut to five characters between the marks
    (vectors,) = Embedder(bilm).embed([lines[0].split()])
    assert vectors.shape == (2, 4, 16)
    assert not (vectors[0, 0] == vectors[0, 1]).all()


# From a trained model


@pytest.fixture
def source(fixtures, tmp_path):
    """A copy of a training checkpoint of bilm-tf."""
    return shutil.copytree(fixtures / "E_training_char", tmp_path / "source")


@pytest.fixture
def its_text(source, tmp_path):
    """Text in the words of that model."""
    words = (source / "vocab.txt").read_text().split()[3:]
    folder = tmp_path / "text"
    folder.mkdir()
    for name, first in (("train", 0), ("heldout", 40)):
        write_text(
            folder / f"{name}.txt", (" ".join(words[i : i + 6]) for i in range(first, 100, 4))
        )
    write_text(folder / "vocab.txt", (*SPECIAL, *words[:50]))
    return folder


def tuned(text, run_dir, source, **changes):
    start = {"model": str(source), **changes.pop("start", {})}
    settings = {"objective__num_negatives": 20, "schedule__steps": 6, **changes}
    return make_config(text, run_dir, start=start, **settings)


def test_a_trained_model_learns_on_and_is_left_as_it_is(source, its_text, tmp_path, caplog):
    before = contents(source)
    config = tuned(its_text, tmp_path / "run", source)
    with caplog.at_level(logging.INFO):
        pretrain.pretrain(config)
    assert contents(source) == before
    measured = [line for line in records(tmp_path / "run") if line["kind"] == "heldout"]
    assert [line["step"] for line in measured] == [0, 5, 6]
    assert measured[0]["mean"] == pytest.approx(perplexity(source, tmp_path / "run"))
    first, best = measured[0]["mean"], min(line["mean"] for line in measured)
    assert best < first
    assert (
        f"held-out perplexity: {first:.5g} before, {measured[-1]['mean']:.5g} after, {best:.5g} at "
        "its best"
    ) in caplog.messages
    assert (tmp_path / "run" / "vocab.txt").read_text() == (source / "vocab.txt").read_text()
    assert (
        "data.vocabulary: is not used, since start.softmax is keep: the words are those of "
        f"{source}"
    ) in caplog.messages
    assert f"model: is not used, the run starts from {source}" in caplog.messages


def test_bilm_tfs_training_goes_on_with_its_accumulators(
    source, its_text, tmp_path, caplog, at_step
):
    seen = []
    at_step(1, lambda trainer: seen.append(saved(tmp_path / "run")))
    with caplog.at_level(logging.INFO):
        pretrain.pretrain(tuned(its_text, tmp_path / "run", source, schedule__steps=1))
    assert (
        "going on with bilm-tf's training after update 80, with its accumulators of Adagrad"
    ) in caplog.messages
    wanted = read_optimizer(source).accumulators
    names = [name for name in seen[0]["model"] if "initial_" not in name]
    names.sort(key=lambda name: name == "softmax.weight")  # sparse ones come last
    state = seen[0]["optimizer"][0]["state"]
    assert len(names) == len(state) == len(wanted)
    for number, name in enumerate(names):
        assert torch.equal(state[number]["sum"], wanted[name.removeprefix("network.")])


@pytest.mark.parametrize("changes", [{"start": {"softmax": "new"}}, {"optimizer__name": "adamw"}])
def test_accumulators_are_of_no_use_otherwise(source, its_text, tmp_path, caplog, changes):
    with caplog.at_level(logging.INFO):
        pretrain.pretrain(tuned(its_text, tmp_path / "run", source, schedule__steps=1, **changes))
    assert "of Adagrad" not in caplog.text


def test_a_run_goes_on_without_the_model_it_started_from(
    source, its_text, tmp_path, at_step, monkeypatch
):
    pretrain.pretrain(tuned(its_text, tmp_path / "straight", source))
    at_step(5, lambda _: shutil.rmtree(tmp_path / "none"))
    with pytest.raises(FileNotFoundError):
        pretrain.pretrain(tuned(its_text, tmp_path / "run", source))
    monkeypatch.undo()
    shutil.rmtree(source)
    shutil.rmtree(its_text)
    pretrain.pretrain(tuned(its_text, tmp_path / "run", source), resume=True)
    assert_same_run(tmp_path / "run", tmp_path / "straight")


def test_a_new_softmax_over_a_frozen_bilm(source, its_text, tmp_path):
    start = {"softmax": "new", "train_bilm": False}
    model = pretrain.pretrain(tuned(its_text, tmp_path / "run", source, start=start))
    found, origin = BiLM.from_pretrained(model), BiLM.from_pretrained(source)
    assert_same(dict(found.network.state_dict()), dict(origin.network.state_dict()))
    assert len(found.vocabulary.words) == 53
    measured = [line["mean"] for line in records(tmp_path / "run") if line["kind"] == "heldout"]
    assert measured[-1] < measured[0]


@pytest.mark.parametrize("name", ["A2_bilm_skip", "A3_token_lm", "B_efml_word_char_cnn"])
def test_any_loadable_model_is_a_start(fixtures, text, tmp_path, name):
    source = fixtures / name
    if name == "A3_token_lm":
        source = shutil.copytree(source, tmp_path / "source")
    start = {"softmax": "new"}
    model = pretrain.pretrain(tuned(text, tmp_path / "run", source, start=start, schedule__steps=1))
    found, origin = BiLM.from_pretrained(model), BiLM.from_pretrained(source)
    assert found.boundaries == origin.boundaries
    assert found.alphabet == origin.alphabet
    assert found.words == origin.words
    assert len(found.vocabulary.words) == 33
    assert Embedder(found).embed([["w1", "w2"]])[0].shape[1] == 2


def test_a_finished_run_is_a_start(straight, text, tmp_path):
    pretrain.pretrain(tuned(text, tmp_path / "run", straight / "model", objective__num_negatives=8))
    assert records(tmp_path / "run")[0]["mean"] == pytest.approx(
        perplexity(straight / "model", straight)
    )


def test_a_stacked_lstm_is_refused(fixtures, text, tmp_path):
    config = tuned(
        text, tmp_path / "run", fixtures / "B_efml_lstm_encoder", start={"softmax": "new"}
    )
    assert "neither learn, score nor predict words" in refusal(config, ConfigError)


def test_a_model_without_softmax_must_get_one(fixtures, text, tmp_path):
    config = tuned(text, tmp_path / "run", fixtures / "A2_bilm_skip")
    assert "has no softmax to keep; set it to new" in refusal(config, ConfigError)


# Bad input


def test_a_run_that_explodes_but_stays_finite_leaves_its_model(text, tmp_path, caplog):
    settings = {"optimizer__name": "adamw", "optimizer__learning_rate": 1e5, "schedule__steps": 3}
    model = pretrain.pretrain(make_config(text, tmp_path / "run", **settings))
    assert records(tmp_path / "run")[-1]["mean"] is None
    assert "held-out perplexity is no finite number" in caplog.text
    tensors = models(tmp_path / "run")
    assert torch.equal(tensors["model/softmax.bias"], tensors["last/softmax.bias"])
    assert BiLM.from_pretrained(model).softmax is not None


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory.")])
def test_short_memory_is_told_with_what_to_make_smaller(text, tmp_path, monkeypatch, error):
    def fail(trainer):
        raise error

    monkeypatch.setattr(Trainer, "advance", fail)
    found = refusal(make_config(text, tmp_path / "run"), TrainingError)
    assert found.startswith("memory is short: make schedule.batch_size, schedule.window, ")


def test_memory_that_no_machine_has_is_told_likewise(text, tmp_path):
    config = make_config(text, tmp_path / "run", model__character_dim=10**15)
    assert "memory is short: " in refusal(config, TrainingError)


def test_other_errors_are_not_taken_for_it(text, tmp_path, monkeypatch):
    def fail(trainer):
        raise RuntimeError("something else")

    monkeypatch.setattr(Trainer, "advance", fail)
    with pytest.raises(RuntimeError, match="something else"):
        pretrain.pretrain(make_config(text, tmp_path / "run"))


@pytest.mark.parametrize(
    ("name", "data", "error", "message"),
    [
        ("train", b"", InputError, "train.txt: not a single sentence to train on"),
        ("heldout", b" \n\n", InputError, "heldout.txt: not a single sentence"),
        ("heldout", b"nothing known\n", InputError, "none of the 2 tokens is in the vocabulary"),
        ("train", b"w1 w2\nw\xe9\n", InputError, "data.encoding of a run"),
        ("vocab", b"<S>\n</S>\nw1\n", InputError, "vocab.txt: the word <UNK> is missing"),
        ("vocab", None, InputError, "vocab.txt: cannot be read: No such file or directory"),
        ("train", None, InputError, "train.txt: matches no file; the folder"),
    ],
)
def test_bad_text_is_told_in_one_line(tmp_path, name, data, error, message):
    write_corpus(tmp_path / "text")
    path = tmp_path / "text" / f"{name}.txt"
    path.unlink()
    if data is not None:
        path.write_bytes(data)
    config = make_config(tmp_path / "text", tmp_path / "run", **SHORT)
    assert message in refusal(config, error)
    assert not (tmp_path / "run" / "checkpoint.pt").exists()
    write_corpus(tmp_path / "text")
    pretrain.pretrain(config)  # the same run begins once the text is mended
    assert saved(tmp_path / "run")["step"] == 3


def test_text_of_another_encoding_is_read_as_that(tmp_path):
    write_corpus(tmp_path)
    for name in ("train", "heldout"):
        path = tmp_path / f"{name}.txt"
        path.write_text(path.read_text(), encoding="utf-16")
    pretrain.pretrain(make_config(tmp_path, tmp_path / "run", data__encoding="utf-16", **SHORT))


def test_a_corpus_smaller_than_a_batch_is_read_again_and_again(text, tmp_path, caplog):
    write_text(tmp_path / "train.txt", ["w1 w2 w3"])
    config = make_config(
        text,
        tmp_path / "run",
        data__train=[str(tmp_path / "train.txt")],
        schedule__batch_size=4,
        schedule__steps=None,
        schedule__epochs=2,
    )
    pretrain.pretrain(config)
    assert saved(tmp_path / "run")["step"] == 2
    assert "make batch_size or window smaller" in caplog.text


def test_a_line_of_two_million_words_is_one_sentence(text, tmp_path):
    write_text(tmp_path / "train.txt", ["w1 w2 " * 1_000_000, "w3"])
    config = make_config(text, tmp_path / "run", data__train=[str(tmp_path / "train.txt")], **SHORT)
    pretrain.pretrain(config)
    assert saved(tmp_path / "run")["step"] == 3


def test_a_missing_model_is_told_before_anything_is_made(text, tmp_path):
    config = tuned(text, tmp_path / "run", tmp_path / "none")
    assert "none: no such file or directory" in refusal(config, CheckpointError)
    assert not (tmp_path / "run").exists()
