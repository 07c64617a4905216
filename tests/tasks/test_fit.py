"""The loop, with a model of one tensor and scores that are given."""

import pytest
import torch

from elmokit.errors import CheckpointError, TrainingError
from elmokit.tasks import fit as fit_module
from elmokit.tasks.config import DataSection, FitSection, TaskConfig
from elmokit.tasks.fit import Fit, predict
from elmokit.tasks.saved import Trained
from elmokit.tasks.task import TaskModel
from elmokit.training import checkpoint
from elmokit.training.record import Record
from tasks.contract import Cut, records

ITEMS = [3.0, 1.0, 2.0, 5.0, 4.0]


class Numbers(TaskModel):
    """Examples are numbers, and each is its own loss and prediction."""

    def __init__(self, slope=0.0):
        super().__init__()
        self.elmo = None
        self.weights = torch.nn.Parameter(torch.ones(3))
        self.slope = slope

    def loss(self, items):
        return (
            torch.tensor(items).mean() + self.slope * (self.weights - self.weights.detach()).sum()
        )

    def predict(self, items):
        assert not self.training
        return items


class NumberTask:
    """What the loop asks of a task."""

    def metric(self, lists):
        return "score"

    def length(self, item):
        return int(item)


def trained(model=None, **settings):
    config = TaskConfig(
        run_dir="r",
        data=DataSection(train="a", dev="a"),
        fit=FitSection(**{"batch_size": 2, **settings}),
    )
    return Trained(task=NumberTask(), config=config, lists={}, model=model or Numbers(), bilm=None)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Learns, with these scores on dev; returns how it stands, and whose epochs' model is kept."""

    def run(scores, *, resume=False, model=None, **settings):
        left = iter(scores)
        monkeypatch.setattr(
            fit_module, "evaluate", lambda *_: {"score": next(left), "labels": {"x": {}}}
        )
        fit, kept = Fit(trained(model, **settings), ITEMS, [], {}), []
        if resume:
            fit.resume(tmp_path)
        standing = fit.run(tmp_path, lambda: kept.append(fit.standing.epoch))
        assert next(left, None) is None  # it stopped no earlier
        return standing, kept

    return run


def test_the_best_epoch_is_kept_the_first_of_equal_ones_until_patience_ends(run):
    standing, kept = run([0.1, 0.5, 0.4, 0.5, 0.3], patience=3, epochs=9)
    assert kept == [1, 2]
    assert (standing.best_epoch, standing.best["score"], standing.epoch) == (2, 0.5, 5)


@pytest.mark.parametrize(("patience", "scores"), [(1, [0.3, 0.2]), (2, [0.1, 0.2, 0.2, 0.2])])
def test_patience_counts_epochs_without_a_better_score(run, patience, scores):
    assert run(scores, patience=patience, epochs=9)[0].epoch == len(scores)


def test_patience_waits_for_the_first_score_above_0(run):
    standing, kept = run([0.0, 0.0, 0.0, 0.1, 0.1, 0.0], patience=2, epochs=9)
    assert (standing.epoch, standing.best_epoch, kept) == (6, 4, [1, 4])
    assert run([0.0] * 5, patience=2, epochs=5)[0].epoch == 5


@pytest.mark.parametrize("settings", [{"patience": None}, {"patience": 4}])
def test_all_epochs_are_made_where_patience_does_not_end(run, settings):
    standing, kept = run([0.5, 0.4, 0.3, 0.2], epochs=4, **settings)
    assert (standing.epoch, standing.best_epoch, kept) == (4, 1, [1])


def test_a_run_that_is_over_goes_on_with_more_patience_or_epochs(run, tmp_path):
    run([0.5, 0.4], patience=1, epochs=3)
    assert run([], resume=True, patience=1, epochs=9)[0].epoch == 2
    standing, kept = run([0.6], resume=True, patience=2, epochs=3)
    assert (standing.best_epoch, kept) == (3, [3])
    assert run([], resume=True, patience=2, epochs=3) == (standing, [])
    assert [line["epoch"] for line in records(tmp_path)] == [1, 2, 3]


def test_an_epoch_is_a_line_of_the_log(run, tmp_path):
    standing, _ = run([0.1, 0.5], epochs=2)
    lines = records(tmp_path)
    assert [line.pop("seconds") for line in lines] == standing.seconds
    same = {"kind": "epoch", "loss": 3.0}  # the mean of examples, not of batches
    assert lines == [
        {**same, "step": 3, "epoch": 1, "score": 0.1},
        {**same, "step": 6, "epoch": 2, "score": 0.5},
    ]


@pytest.mark.parametrize(("place", "name"), [(Record, "write"), (checkpoint, "save")])
def test_no_line_is_lost_or_doubled_wherever_a_run_is_cut_off(
    run, tmp_path, monkeypatch, place, name
):
    work, calls = getattr(place, name), []

    def cut(*args, **values):
        calls.append(1)
        if len(calls) == 2:
            raise Cut
        return work(*args, **values)

    with monkeypatch.context() as patch:
        patch.setattr(place, name, cut)
        with pytest.raises(Cut):
            run([0.1, 0.2, 0.3], epochs=3)
    run([0.2, 0.3], resume=True, epochs=3)
    assert [(line["epoch"], line["score"]) for line in records(tmp_path)] == [
        (1, 0.1),
        (2, 0.2),
        (3, 0.3),
    ]


def test_weights_decay_as_set(run):
    for decay in (0.0, 0.5):
        model = Numbers()
        run([0.5, 0.5], model=model, epochs=2, learning_rate=0.1, weight_decay=decay)
        torch.testing.assert_close(model.weights.data, torch.full((3,), (1 - 0.1 * decay) ** 6))


def test_gradients_are_clipped(run):
    model = Numbers(slope=100.0)
    run([0.5], model=model, epochs=1, clip_norm=0.25)
    torch.testing.assert_close(model.weights.grad.norm(), torch.tensor(0.25))
    assert (model.weights < 1).all()


@pytest.mark.parametrize("slope", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_end_a_run(run, tmp_path, slope):
    run([0.5], epochs=1)
    before = (tmp_path / "checkpoint.pt").read_bytes()
    with pytest.raises(TrainingError, match=r"step 4, epoch 2: .* lower fit.learning_rate"):
        run([], resume=True, epochs=2, model=Numbers(slope=slope))
    assert (tmp_path / "checkpoint.pt").read_bytes() == before


@pytest.mark.parametrize(("size", "learns"), [(4, True), (3, False)])
def test_a_checkpoint_of_another_model_is_refused(run, size, learns):
    models = Numbers(), Numbers()
    models[0].other = torch.nn.Parameter(torch.ones(3))
    models[1].other = torch.nn.Parameter(torch.ones(size), requires_grad=learns)
    run([0.5], epochs=1, model=models[0])
    with pytest.raises(CheckpointError, match=r"checkpoint\.pt: its tensors do not fit the model"):
        run([], resume=True, epochs=2, model=models[1])


def test_predictions_have_the_order_of_the_examples():
    model = Numbers()
    assert predict(trained(model), ITEMS) == ITEMS
    assert model.training  # as before
    assert predict(trained(model.eval()), []) == []
