import copy
import math

import pytest
import torch

from elmokit.errors import ConfigError, OutputError, TrainingError
from elmokit.nn import State
from elmokit.training.build import build
from elmokit.training.corpus import prepare
from elmokit.training.distributed import Processes
from elmokit.training.objective import Objective
from elmokit.training.trainer import Trainer
from elmokit.training.vocabulary import read_vocabulary
from elmokit.training.windows import as_step
from training.runs import assert_same, make_config, write_corpus

ALONE = Processes(0, 1, torch.device("cpu"))


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = write_corpus(tmp_path_factory.mktemp("text"))
    prepare([str(folder / "train.txt")], read_vocabulary(folder / "vocab.txt"), folder / "made")
    return folder


@pytest.fixture
def make(text):
    def make(**changes):
        config = make_config(text, text / "run", **changes)
        words = read_vocabulary(text / "vocab.txt")
        corpus = prepare([str(text / "train.txt")], words, text / "made")
        return Trainer(config, build(config, corpus, None), corpus, ALONE)

    return make


def snapshot(trainer):
    return copy.deepcopy((trainer.state(), trainer.own_state()))


def steps(trainer, number):
    return [trainer.advance() for _ in range(number)]


SETTINGS = [
    {},
    {"optimizer__name": "adamw"},
    {"objective__num_negatives": None, "model__input": "words"},
    {"precision": "bf16", "model__input": "characters"},
]


@pytest.mark.parametrize("changes", SETTINGS)
def test_a_restored_state_leads_to_the_same_steps(make, changes):
    trainer, other = make(**changes), make(**changes)
    steps(trainer, 3)
    kept = snapshot(trainer)
    results = steps(trainer, 9)  # across the edge of an epoch
    end = snapshot(trainer)
    for again in (trainer, other):
        again.restore(*copy.deepcopy(kept))
        assert again.step == 3
        assert steps(again, 9) == results
        assert_same(snapshot(again), end)


def test_the_seed_decides_everything(make):
    first, second, other = (steps(make(seed=seed), 2) for seed in (1, 1, 2))
    assert first == second != other


def test_a_step_follows_the_mean_of_its_windows(make):
    """The gradient of Adagrad's loss is that times the window, as in bilm-tf."""
    settings = {"objective__dropout": 0.0, "objective__num_negatives": None}
    trainer, other = make(**settings), make(**settings)
    result = trainer.advance()
    objective = Objective(other.bilm)
    state = State(torch.zeros(1, 2, 2, 8), torch.zeros(1, 2, 2, 16))
    total, losses = torch.zeros(()), []
    for _ in range(2):
        batch, targets, _ = as_step(next(other.stream), other.table, ALONE.device)
        loss, state = objective(batch, targets, state)
        total = total + (loss.forward + loss.backward) / 2 / 2
        losses.append((loss.forward.item(), loss.backward.item()))
    (4 * total).backward()
    gradients = [p.grad for p in other.bilm.parameters() if p.grad is not None]
    norm = float(torch.nn.utils.get_total_norm(gradients))
    assert result.gradient_norm == pytest.approx(norm, rel=1e-5)
    means = [sum(pair) / 2 for pair in zip(*losses, strict=True)]
    assert (result.forward, result.backward) == pytest.approx(means, rel=1e-6)


def test_the_learning_rate_is_that_of_the_step(make):
    trainer = make(
        optimizer__warmup_steps=2, optimizer__decay="linear", optimizer__learning_rate=1.0,
        schedule__steps=6,
    )  # fmt: skip
    assert [result.learning_rate for result in steps(trainer, 7)] == [
        *(0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0)
    ]


def test_epochs_are_counted_in_steps(make):
    trainer = make(schedule__steps=None, schedule__epochs=1.5)
    assert (trainer.steps_per_epoch, trainer.num_steps) == (10, 15)
    steps(trainer, 5)
    assert (trainer.step, trainer.epoch) == (5, 0.5)
    assert trainer.step_predictions == 16


@pytest.mark.parametrize(("negatives", "sampled"), [(None, False), (32, True), (33, False)])
def test_as_many_negatives_as_words_are_the_whole_vocabulary(make, negatives, sampled):
    trainer = make(objective__num_negatives=negatives)
    assert trainer.is_sampled == sampled
    trainer.advance()


def test_a_frozen_bilm_keeps_its_weights(make, text):
    trainer = make(start={"model": "any", "softmax": "new", "train_bilm": False})
    before = copy.deepcopy(trainer.bilm.state_dict())
    steps(trainer, 2)
    for name, tensor in trainer.bilm.state_dict().items():
        assert torch.equal(tensor, before[name]) == name.startswith("network."), name


@pytest.mark.parametrize("factor", [math.inf, math.nan])
def test_a_gradient_that_is_not_finite_moves_nothing(make, factor):
    trainer = make()
    steps(trainer, 2)
    before = copy.deepcopy(trainer.state())
    trainer.bilm.softmax.bias.register_hook(lambda gradient: torch.full_like(gradient, factor))
    with pytest.raises(TrainingError) as caught:
        trainer.advance()
    assert str(caught.value).startswith("step 3, epoch 0.20: loss ")
    assert str(caught.value).endswith(f"gradient norm {factor}: no longer finite")
    assert_same(trainer.state(), before)


def test_weights_that_are_not_finite_are_no_state(make):
    trainer = make()
    trainer.bilm.softmax.bias.data[3] = math.nan
    with pytest.raises(TrainingError) as caught:
        trainer.state()
    assert str(caught.value) == "step 0, epoch 0.00: softmax.bias is no longer finite"


def test_accumulators_are_taken_over(make):
    trainer = make()
    trained = dict(trainer.bilm.named_parameters())
    names = sorted(trained, key=lambda name: name == "softmax.weight")  # sparse ones come last
    wanted = {
        name.removeprefix("network."): torch.full_like(trained[name], number + 2.0).detach()
        for number, name in enumerate(names)
    }
    trainer.set_accumulators(wanted)
    (state,) = trainer.state()["optimizer"]
    sums = [state["state"][number]["sum"] for number in range(len(trained))]
    assert_same(sums, list(wanted.values()))
    before = trainer.bilm.softmax.bias.detach().clone()
    huge = {name: torch.full_like(tensor, 1e12) for name, tensor in wanted.items()}
    trainer.set_accumulators(huge)
    trainer.advance()
    assert float((trainer.bilm.softmax.bias.detach() - before).abs().max()) < 1e-4


def test_a_state_of_another_text_is_refused(make):
    trainer, other = make(), make(seed=1)
    with pytest.raises(OutputError, match="seed 0 -> 1"):
        other.restore(*snapshot(trainer))


def test_a_damaged_place_in_the_text_is_refused(make):
    trainer = make()
    shared, own = snapshot(trainer)
    own["stream"]["forward"]["cursor"] = -1
    with pytest.raises(ConfigError, match="place in the data: damaged"):
        trainer.restore(shared, own)
