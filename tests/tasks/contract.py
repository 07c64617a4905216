"""What every task must do: a task declares its examples and inherits these tests.

Files have 20 examples; `text` has plain lines, one of them blank.
"""

import json
import shutil
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from safetensors.torch import load_file

from builders import char_bilm
from elmokit.cli import main
from elmokit.errors import CheckpointError, OutputError
from elmokit.tasks import fit, saved
from elmokit.tasks import run as run_module
from elmokit.tasks.elmo_at import FrozenLayers
from elmokit.tasks.fit import evaluate, predict
from elmokit.tasks.registry import get_task
from elmokit.tasks.run import train
from elmokit.tasks.saved import Trained

QUICK = {"epochs": 2, "batch_size": 8, "learning_rate": 0.01}
FITTED = {"epochs": 60, "patience": 60, "batch_size": 8, "learning_rate": 0.01}


class Cut(BaseException):
    """A run is cut off; nothing in the program expects it."""


class TaskContract(ABC):
    """Tests of a task; subclasses fill in the class attributes."""

    name: ClassVar[str]
    suffix: ClassVar[str]
    content: ClassVar[str]
    """A file of 20 examples."""
    text: ClassVar[str]
    """Lines to predict for."""
    model: ClassVar[dict[str, Any]]
    """Sizes of a small model."""
    perfect: ClassVar[float] = 1.0
    """The score that the model reaches on what it learns from."""

    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp(cls.name)
        (folder / f"train{cls.suffix}").write_text(cls.content, encoding="utf-8")
        char_bilm().save_pretrained(folder / "elmo")
        return folder

    @classmethod
    def config(cls, folder: Path, run: str, **changes: Any):
        """Returns a run; keys of changes are `section__name` or `name`."""
        place = str(folder / f"train{cls.suffix}")
        data: dict[str, Any] = {
            "run_dir": str(folder / run),
            "data": {"train": place, "dev": place},
            "model": cls.model,
            "elmo": {"model": str(folder / "elmo"), "dropout": 0.1},
            "fit": QUICK,
            "device": "cpu",
            "threads": 1,
        }
        data = json.loads(json.dumps(data))
        for key, value in changes.items():
            *sections, name = key.split("__")
            section = data
            for part in sections:
                section = section.setdefault(part, {})
            section[name] = value
        return get_task(cls.name).config.from_dict(data)

    @classmethod
    def train(cls, folder: Path, run: str, *, resume: bool = False, **changes: Any):
        config = cls.config(folder, run, **changes)
        return train(get_task(cls.name), config, resume=resume)

    def weight(self, item) -> int:
        """What an example counts in the loss of several."""
        return 1

    def items(self, folder: Path, trained: Trained):
        source = str(folder / f"train{self.suffix}")
        return trained.task.read(source, trained.config, "eval", trained.lists).items

    @pytest.fixture(scope="class")
    @classmethod
    def fitted(cls, folder):
        """The results of a run that learns its examples by heart."""
        return cls.train(folder, "fitted", elmo__at="both", fit=FITTED)

    def test_learns_its_examples_by_heart(self, folder, fitted):
        assert fitted["score"] >= self.perfect
        assert fitted["train"] == {"examples": 20, "skipped": 0}
        assert fitted["environment"]["torch"] == torch.__version__
        assert set(fitted["mixes"]) == {"input", "output"}
        on_disk = json.loads((folder / "fitted" / "results.json").read_text())
        assert on_disk == json.loads(json.dumps(fitted))
        trained = saved.load(folder / "fitted" / "model", device="cpu")
        scores = evaluate(trained, self.items(folder, trained))
        assert scores[fitted["metric"]] == pytest.approx(fitted["score"])

    @pytest.mark.parametrize("at", ["input", "output", "none"])
    def test_places_of_elmo(self, folder, at):
        results = self.train(folder, f"at-{at}", elmo__at=at)
        assert set(results["mixes"]) == {at} - {"none"}
        names = set(load_file(folder / f"at-{at}" / "model" / "model.safetensors"))
        assert any("mixes" in name for name in names) == (at != "none")
        assert not any("bilm" in name for name in names)

    @pytest.mark.parametrize("trainable", [False, True])
    def test_saved_and_loaded_it_predicts_the_same(self, folder, trainable):
        torch.manual_seed(0)
        run = f"saved-{trainable}"
        self.train(folder, run, elmo__trainable=trainable, elmo__at="both")
        trained = saved.load(folder / run / "model", device="cpu")
        items = self.items(folder, trained)
        predict(trained, items[7:])  # whatever was predicted before
        before = outputs(trained, items)
        shutil.rmtree(folder / "again", ignore_errors=True)
        saved.save(trained, folder / "again")
        loaded = saved.load(folder / "again", device="cpu")
        torch.testing.assert_close(outputs(loaded, items), before, rtol=0, atol=1e-5)
        assert predict(loaded, items) == predict(trained, items)
        assert (folder / "again" / "bilm").exists() == trainable
        if trainable:
            original = char_bilm().state_dict()
            learnt = trained.model.elmo.bilm.state_dict()
            assert any(not torch.equal(original[name], learnt[name]) for name in original)

    @pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("float16", 5e-2)])
    def test_the_cache_changes_nothing(self, folder, dtype, tolerance):
        kept = str(folder / "kept")
        self.train(folder, f"cached-{dtype}", cache__dtype=dtype, cache__directory=kept)
        self.train(folder, f"uncached-{dtype}", cache__use=False)
        # Of the first epoch only: from step to step training makes much of a last bit.
        losses = [
            records(folder / run)[0]["loss"] for run in (f"cached-{dtype}", f"uncached-{dtype}")
        ]
        assert losses[0] == pytest.approx(losses[1], rel=tolerance)
        trained = saved.load(folder / f"cached-{dtype}" / "model", device="cpu")
        items = self.items(folder, trained)
        without = outputs(trained, items)
        run_module._use_cache(trained, folder / f"cached-{dtype}", items)
        assert not isinstance(trained.model.elmo.source, FrozenLayers)
        torch.testing.assert_close(outputs(trained, items), without, rtol=tolerance, atol=tolerance)
        assert len(list((folder / "kept").glob("*.npy"))) >= 1

    def test_runs_and_seeds_share_what_is_kept(self, folder, monkeypatch):
        kept = str(folder / "shared")
        self.train(folder, "first", cache__directory=kept)
        calls = []
        compute = FrozenLayers.__call__
        monkeypatch.setattr(
            FrozenLayers, "__call__", lambda s, x: calls.append(len(x)) or compute(s, x)
        )
        self.train(folder, "second", seed=1, cache__directory=kept)
        assert calls == []
        self.train(folder, "third", elmo__layers="last", cache__directory=kept)
        assert sum(calls) > 0
        assert len(list((folder / "shared").iterdir())) == 2

    def test_goes_on_as_if_never_cut_off(self, folder, monkeypatch):
        changes = {"fit__epochs": 5, "elmo__trainable": True}
        self.train(folder, "straight", **changes)
        measured = []

        def cut(trained, items):
            measured.append(1)
            if len(measured) == 3:
                raise Cut
            return evaluate(trained, items)

        with monkeypatch.context() as patch:
            patch.setattr(fit, "evaluate", cut)
            with pytest.raises(Cut):
                self.train(folder, "cut", **changes)
        with pytest.raises(OutputError, match="cannot resume with other settings"):
            self.train(folder, "cut", resume=True, **changes, seed=1)
        self.train(folder, "cut", resume=True, **changes)
        for run in ("straight", "cut"):
            assert [line["epoch"] for line in records(folder / run)] == [1, 2, 3, 4, 5]
        states = [
            torch.load(folder / run / "checkpoint.pt", weights_only=True)
            for run in ("straight", "cut")
        ]
        for name, tensor in states[0]["model"].items():
            assert torch.equal(states[1]["model"][name], tensor), name
        with pytest.raises(OutputError, match="holds a run"):
            self.train(folder, "cut", **changes)

    def test_what_is_read_together_changes_nothing(self, folder, fitted):
        loaded = saved.load(folder / "fitted" / "model", device="cpu")
        items = self.items(folder, loaded)
        assert predict(loaded, items) == [predict(loaded, [item])[0] for item in items]
        # One with random weights, and large ones: what little is wrong grows.
        config = self.config(folder, "none", elmo__at="both")
        drawn = saved.new_model(loaded.task, config, loaded.lists)
        with torch.no_grad():
            for parameter in drawn.model.parameters():
                parameter.mul_(3)
            alone = outputs(drawn, items)
            together = drawn.model.loss(items)
        weights = torch.tensor([float(self.weight(item)) for item in items])
        mean = (alone * weights).sum() / weights.sum()
        torch.testing.assert_close(together, mean, rtol=1e-5, atol=1e-5)

    def test_elmo_may_be_all_that_is_known_of_a_word(self, folder):
        none = {"model__tokens__word_dim": 0, "model__tokens__character_filters": 0}
        results = self.train(folder, "elmo-alone", fit__epochs=1, **none)
        assert set(results["mixes"]) == {"input"}

    def test_seeds_decide(self, folder):
        losses = {}
        for run, seed in (("a", 3), ("b", 3), ("c", 4)):
            self.train(folder, f"seed-{run}", seed=seed, fit__epochs=1)
            [line] = records(folder / f"seed-{run}")
            losses[run] = line["loss"]
        assert losses["a"] == losses["b"] != losses["c"]

    def test_another_bilm_is_refused(self, folder, fitted):
        char_bilm(seed=1).save_pretrained(folder / "other")
        with pytest.raises(CheckpointError, match="trained with another biLM"):
            saved.load(folder / "fitted" / "model", device="cpu", elmo=str(folder / "other"))
        with pytest.raises(CheckpointError, match="is a model for"):
            saved.load(folder / "fitted" / "model", device="cpu", task="other")

    def test_commands(self, folder, fitted, capsys):
        model, source = folder / "fitted" / "model", folder / f"train{self.suffix}"
        device = ["--device", "cpu"]
        command = ["task", "eval", self.name, str(model), str(source), *device]
        written = [*command, "-o", str(folder / "scores.json")]
        assert main(written) == 0
        assert main(written) == 2
        assert "--overwrite" in capsys.readouterr().err
        assert main([*written, "--overwrite"]) == 0
        scores = json.loads((folder / "scores.json").read_text())
        assert scores["examples"] == 20
        assert scores[fitted["metric"]] == pytest.approx(fitted["score"])
        capsys.readouterr()
        assert main(command) == 0
        assert json.loads(capsys.readouterr().out)["task"] == self.name

        output = folder / f"predicted{self.suffix}"
        command = ["task", "predict", self.name, str(model), str(source), "-o", str(output)]
        assert main([*command, *device]) == 0
        assert "20 examples predicted" in capsys.readouterr().out
        self.check_written(output.read_text(encoding="utf-8"))
        assert main([*command, *device]) == 2
        assert "--overwrite" in capsys.readouterr().err

        (folder / "text").write_text(self.text, encoding="utf-8")
        command = ["task", "predict", self.name, str(model), str(folder / "text")]
        output = folder / "from-text"
        assert main([*command, "-o", str(output), "--format", "text", *device]) == 0
        self.check_written_from_text(output.read_text(encoding="utf-8"))

    @abstractmethod
    def check_written(self, written: str) -> None:
        """Checks what is predicted for `content`."""

    @abstractmethod
    def check_written_from_text(self, written: str) -> None:
        """Checks what is predicted for `text`."""


def records(run_dir: Path) -> list[dict[str, Any]]:
    """The lines of a run's log."""
    return [json.loads(line) for line in (run_dir / "log.jsonl").read_text().splitlines()]


def outputs(trained: Trained, items) -> torch.Tensor:
    """The model's loss of each example: what all its numbers lead to."""
    trained.model.eval()
    with torch.no_grad():
        return torch.stack([trained.model.loss([item]) for item in items])
