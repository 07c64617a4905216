"""Training against the original program: bilm-tf's own steps, from its own checkpoint."""

import json
import math

import numpy as np
import pytest
import torch

from elmokit import BiLM
from elmokit.batch import Batch, Types
from elmokit.checkpoints import bilm_table, table
from elmokit.checkpoints.tensorflow import read_optimizer
from elmokit.nn import State
from elmokit.training.config import OptimizerSection
from elmokit.training.objective import Objective, Targets
from elmokit.training.optimizers import Optimizers

LEARNING_RATE, CLIP_NORM, UNROLL_STEPS, NUM_STEPS = 0.2, 2.0, 10, 4
_NETWORK = "network."
CLOSE = {"rtol": 0, "atol": 1e-5}


def archive(path):
    with np.load(path) as data:
        return {name: data[name] for name in data.files}


def read_step(batches, number):
    """The batch fed at a step, and its targets; the ids of the files start from 0."""
    fed = {
        name.removeprefix(f"step{number}_"): torch.from_numpy(array).long()
        for name, array in batches.items()
        if name.startswith(f"step{number}_")
    }
    kind = "tokens_characters" if "tokens_characters" in fed else "token_ids"
    read = torch.stack([fed[kind], fed[f"{kind}_reverse"]]) + 1  # (2, B, W), or (2, B, W, C)
    shape = read.shape[:3]
    distinct, places = torch.unique(read.flatten(0, 2), dim=0, return_inverse=True)
    types = Types(**{"char_ids" if read.dim() == 4 else "word_ids": distinct})
    targets = Targets(
        *(fed[name].t().reshape(-1) for name in ("next_token_id", "next_token_id_reverse"))
    )
    return Batch.from_windows(*places.reshape(shape), types), targets


def parameters(bilm):
    """Native name, as a checkpoint has it -> parameter."""
    return {name.removeprefix(_NETWORK): value for name, value in bilm.named_parameters()}


def load_accumulators(optimizers, bilm, accumulators):
    (state,) = optimizers.state_dict()
    for number, name in enumerate(parameters(bilm)):
        state["state"][number]["sum"] = accumulators[name]
    optimizers.load_state_dict([state])


def accumulators_of(optimizers, bilm):
    (state,) = optimizers.state_dict()
    return {name: state["state"][number]["sum"] for number, name in enumerate(parameters(bilm))}


def by_tensorflows_names(bilm, tensors):
    def cell(direction, index):
        group = f"lm/RNN_{direction}/rnn/multi_rnn_cell/cell_{index}/lstm_cell"
        return bilm_table.Cell(f"{group}/kernel", f"{group}/bias", f"{group}/projection/kernel")

    exported = table.export_tensors(bilm_table.rows(bilm.config, cell, prefix="lm/"), tensors)
    exported["lm/softmax/W"] = tensors["softmax.weight"].detach()
    exported["lm/softmax/b"] = tensors["softmax.bias"].detach()
    return exported


@pytest.mark.parametrize("kind", ["char", "word"])
def test_four_steps_equal_bilm_tfs(fixtures, kind):
    start, folder = fixtures / f"E_training_{kind}", fixtures / f"G_training_steps_{kind}"
    batches, after = archive(folder / "batches.npz"), archive(folder / "after.npz")
    info = json.loads((folder / "info.json").read_text())

    bilm = BiLM.from_pretrained(start)
    objective = Objective(bilm).train()
    section = OptimizerSection(learning_rate=LEARNING_RATE, clip_norm=CLIP_NORM)
    optimizers = Optimizers(section, bilm.parameters(), [])
    load_accumulators(optimizers, bilm, read_optimizer(start).accumulators)
    before = {name: tensor.detach().clone() for name, tensor in parameters(bilm).items()}
    state = State(*(torch.zeros_like(part) for part in bilm.initial_state)).expand(8)

    perplexities, norms = [], []
    for number in range(NUM_STEPS):
        batch, targets = read_step(batches, number)
        losses, state = objective(batch, targets, state)
        loss = (losses.forward + losses.backward) / 2
        (UNROLL_STEPS * loss).backward()
        norms.append(optimizers.clip())
        optimizers.step(number, NUM_STEPS)
        perplexities.append(math.exp(loss.item()))

    np.testing.assert_allclose(perplexities, info["step_perplexities"], rtol=1e-5)
    check = info["check"]
    np.testing.assert_allclose(norms, check["gradient_global_norms_before_clipping"], rtol=1e-5)
    assert any(norm > CLIP_NORM for norm in norms)
    assert any(norm < CLIP_NORM for norm in norms)
    trained = by_tensorflows_names(bilm, parameters(bilm))
    sums = by_tensorflows_names(bilm, accumulators_of(optimizers, bilm))
    assert {name for name in after if name.startswith("lm/")} == {
        *trained,
        *(f"{name}/Adagrad" for name in sums),
    }
    for name, tensor in trained.items():
        np.testing.assert_allclose(tensor.numpy(), after[name], **CLOSE, err_msg=name)
        # Accumulators are squares: the sign that the table changes for a highway is not theirs.
        np.testing.assert_allclose(
            sums[name].abs().numpy(), after[f"{name}/Adagrad"], **CLOSE, err_msg=name
        )
    moved = max((value - before[name]).abs().max() for name, value in parameters(bilm).items())
    assert moved.item() == pytest.approx(check["largest_parameter_movement"], abs=1e-5)
