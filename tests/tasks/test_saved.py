"""A model on disk; that it predicts the same is tested with every task."""

import pytest
import torch

from builders import char_bilm
from elmokit.tasks import saved
from elmokit.tasks.registry import get_task


@pytest.fixture
def trained(tmp_path):
    """A model as its seed draws it."""
    char_bilm().save_pretrained(tmp_path / "elmo")
    config = get_task("tag").config.from_dict(
        {
            "run_dir": "r",
            "data": {"train": "a", "dev": "a"},
            "model": {"hidden_dim": 4, "num_layers": 1, "tokens": {"word_dim": 4}},
            "elmo": {"model": str(tmp_path / "elmo")},
            "seed": 7,
            "device": "cpu",
        }
    )
    lists = {"words": ["a"], "tags": ["X", "Y"], "scheme": []}
    return saved.new_model(get_task("tag"), config, lists)


def test_the_seed_draws_a_model_whatever_was_drawn_before(trained):
    first = trained.model.state_dict()
    torch.manual_seed(99)
    again = saved.new_model(trained.task, trained.config, trained.lists).model.state_dict()
    assert all(torch.equal(again[name], tensor) for name, tensor in first.items())
    assert torch.initial_seed() == 7


def test_loading_sets_no_seed(trained, tmp_path):
    saved.save(trained, tmp_path / "model")
    torch.manual_seed(99)
    saved.load(tmp_path / "model", device="cpu")
    assert torch.initial_seed() == 99
