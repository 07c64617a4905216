"""The objective's numbers and gradients, against its definition in float64."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from builders import char_bilm, word_bilm
from elmokit import BiLM
from elmokit.batch import Batch
from elmokit.errors import ConfigError
from elmokit.nn import LMSoftmax, State
from elmokit.nn.softmax import LogUniformSampler
from elmokit.training.objective import Objective, Targets
from elmokit.vocabulary import Vocabulary

ROWS, WINDOW, WORDS = 3, 5, 11
SMALL = {"cell_dim": 6, "projection_dim": 4, "cell_clip": 0.5, "projection_clip": 0.5}
VOCABULARY = Vocabulary(("<S>", "</S>", "<UNK>", *"abcdefgh"))


def with_softmax(bilm):
    """A small model that predicts, with weights large enough for its clips to act."""
    bilm.network.config = dataclasses.replace(bilm.config, softmax_words=WORDS)
    softmax = LMSoftmax(WORDS, bilm.config.lstm.projection_dim)
    nn.init.normal_(softmax.bias)
    with torch.no_grad():
        for name, parameter in bilm.network.named_parameters():
            if "lstm" in name:
                parameter.mul_(3)
    parts = {"alphabet": bilm.alphabet, "words": bilm.words, "vocabulary": VOCABULARY}
    return BiLM(bilm.network, softmax=softmax, **parts)


def small_model(kind):
    return with_softmax(char_bilm(**SMALL) if kind == "char" else word_bilm(list("pqrs"), **SMALL))


def window(bilm, seed=0):
    """A window of random types and targets, different sentences in each direction."""
    generator = torch.Generator().manual_seed(seed)
    words = ["<S>", "</S>", "a", "深い", "tea", "p", "q"]
    read = torch.randint(len(words), (2, ROWS, WINDOW), generator=generator)
    targets = torch.randint(WORDS, (2, ROWS * WINDOW), generator=generator)
    return Batch.from_windows(*read, bilm.encode_words(words)), Targets(*targets)


def random_state(bilm, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = (part.unsqueeze(2).expand(-1, -1, ROWS, -1).shape for part in bilm.initial_state)
    return State(*(torch.randn(shape, generator=generator) * 0.3 for shape in shapes))


class Definition:
    """The losses step by step in float64, by the paper and bilm-tf, from named parameters."""

    def __init__(self, bilm):
        self.config = bilm.config
        self.tensors = {
            name: parameter.detach().double().requires_grad_()
            for name, parameter in bilm.named_parameters()
        }

    def get(self, name):
        return self.tensors[f"network.{name}"]

    def token(self, types, number):
        if self.config.words:
            return self.get("token_encoder.words.weight")[types.word_ids[number]]
        place = "token_encoder.characters"
        characters = self.get(f"{place}.embedding.weight")[types.char_ids[number]]
        features = []
        for i, (width, _) in enumerate(self.config.characters.filters):
            kernel = self.get(f"{place}.convolutions.{i}.weight")  # (n, c, width)
            responses = [
                (kernel * characters[start : start + width].t()).sum(dim=(1, 2))
                for start in range(len(characters) - width + 1)
            ]
            bias = self.get(f"{place}.convolutions.{i}.bias")
            features.append(torch.stack(responses).amax(dim=0) + bias)
        x = torch.relu(torch.cat(features))
        for k in range(self.config.characters.num_highway):
            weight, bias = (self.get(f"{place}.highways.{k}.{n}") for n in ("weight", "bias"))
            nonlinear, gate = (weight @ x + bias).chunk(2)
            gate = torch.sigmoid(gate)
            x = gate * x + (1 - gate) * torch.relu(nonlinear)
        weight, bias = (self.get(f"token_encoder.projection.{n}") for n in ("weight", "bias"))
        return weight @ x + bias

    def step(self, lstm, x, h, c):
        """One position of one row through one layer."""
        config = self.config.lstm
        weights = (self.get(f"{lstm}.{part}_weight") for part in ("input", "recurrent"))
        i, f, g, o = sum(
            (weight @ value for weight, value in zip(weights, (x, h), strict=True)),
            self.get(f"{lstm}.bias"),
        ).chunk(4)
        c = torch.sigmoid(f + config.forget_bias) * c + torch.sigmoid(i) * torch.tanh(g)
        c = c.clamp(-config.cell_clip, config.cell_clip)
        h = self.get(f"{lstm}.projection") @ (torch.sigmoid(o) * torch.tanh(c))
        return h.clamp(-config.projection_clip, config.projection_clip), c

    def losses(self, batch, targets, state):
        """The mean losses of both directions."""
        means = []
        tokens = [self.token(batch.types, number) for number in range(len(batch.types))]
        readings = zip(("forward", "backward"), (batch.forward, batch.backward), strict=True)
        for direction, (name, read) in enumerate(readings):
            losses = []
            for row in range(ROWS):
                h, c = ([*part[:, direction, row].double()] for part in state)
                for time in range(WINDOW):
                    x = tokens[read[time * ROWS + row]]
                    for layer in range(self.config.lstm.num_layers):
                        place = f"{name}_lstm.{layer}"
                        h[layer], c[layer] = self.step(place, x, h[layer], c[layer])
                        x = h[layer] + x if layer else h[layer]
                    logits = self.tensors["softmax.weight"] @ x + self.tensors["softmax.bias"]
                    word = targets[direction][time * ROWS + row]
                    losses.append(torch.logsumexp(logits, dim=0) - logits[word])
            means.append(torch.stack(losses).mean())
        return means


@pytest.mark.parametrize("kind", ["char", "word"])
def test_losses_and_gradients_equal_the_definition_in_float64(kind):
    bilm = small_model(kind)
    batch, targets = window(bilm)
    state = random_state(bilm)
    losses, after = Objective(bilm)(batch, targets, state)
    sum(losses).backward()
    assert (after.c.abs() == SMALL["cell_clip"]).any()
    assert (after.h.abs() == SMALL["projection_clip"]).any()

    definition = Definition(bilm)
    expected = definition.losses(batch, targets, state)
    sum(expected).backward()
    torch.testing.assert_close(losses.forward.double(), expected[0], rtol=0, atol=1e-5)
    torch.testing.assert_close(losses.backward.double(), expected[1], rtol=0, atol=1e-5)
    for name, parameter in bilm.named_parameters():
        gradient = definition.tensors[name].grad
        assert gradient.any(), name
        torch.testing.assert_close(
            parameter.grad.double(), gradient, rtol=0, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


def test_gradients_in_float64_are_slopes():
    bilm = small_model("char").double()
    batch, targets = window(bilm)
    state = State(*(part.double() for part in random_state(bilm)))
    objective = Objective(bilm)

    def loss():
        return sum(objective(batch, targets, state)[0])

    loss().backward()
    for name, parameter in bilm.named_parameters():
        direction = torch.randn_like(parameter)
        if name.endswith("embedding.weight"):
            direction[0] = 0  # the row of id 0, which is never trained
        slope = (parameter.grad * direction).sum().item()
        values = []
        with torch.no_grad():
            for step in (1e-6, -2e-6):
                parameter += step * direction
                values.append(loss().item())
            parameter += 1e-6 * direction
        assert slope == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5, abs=1e-7), name


def test_the_state_runs_on_and_its_graph_ends():
    bilm = small_model("char")
    objective = Objective(bilm)
    (first, targets), (second, more) = window(bilm), window(bilm, seed=1)
    _, state = objective(first, targets, None)
    assert not any(part.requires_grad for part in state)
    initial = bilm.initial_state.expand(ROWS)
    vectors = bilm.network.encode_types(first.types)
    torch.testing.assert_close(state, bilm.network.run(vectors, first, initial)[1])
    carried, _ = objective(second, more, state)
    fresh, _ = objective(second, more, None)
    assert carried.forward.item() != fresh.forward.item()


def test_each_direction_has_the_mean_of_its_own_predictions():
    bilm = small_model("char")
    batch, targets = window(bilm)
    losses, _ = Objective(bilm)(batch, targets, None)
    layers, _ = bilm.network.run(bilm.network.encode_types(batch.types), batch)
    for loss, hidden, words in zip(losses, (layers.forward, layers.backward), targets, strict=True):
        torch.testing.assert_close(loss, F.cross_entropy(bilm.softmax(hidden[-1]), words))


@pytest.mark.parametrize("sparse", [False, True])
def test_sampled_words_make_the_loss_of_the_sampled_softmax(sparse):
    bilm = small_model("char")
    batch, targets = window(bilm)
    negatives = LogUniformSampler(WORDS, 4, seed=0).draw()
    losses, _ = Objective(bilm, sparse=sparse)(batch, targets, None, negatives)
    layers, _ = bilm.network.run(bilm.network.encode_types(batch.types), batch)
    expected = bilm.softmax.sampled_loss(layers.backward[-1], targets.backward, negatives).mean()
    torch.testing.assert_close(losses.backward, expected)
    sum(losses).backward()
    assert bilm.softmax.weight.grad.is_sparse is sparse


def test_dropout_falls_on_the_input_of_every_layer_and_on_the_top(monkeypatch):
    bilm = small_model("char")
    batch, targets = window(bilm)
    plain, _ = Objective(bilm).eval()(batch, targets, None)
    objective, shapes = Objective(bilm, dropout=0.5), []
    dropout = F.dropout

    def noted(values, chance):
        shapes.append((tuple(values.shape), chance))
        return dropout(values, chance)

    monkeypatch.setattr(F, "dropout", noted)
    torch.testing.assert_close(objective.eval()(batch, targets, None)[0], plain)
    assert not shapes
    dropped, _ = objective.train()(batch, targets, None)
    count = ROWS * WINDOW
    num_layers = bilm.config.lstm.num_layers
    assert shapes == [((count, 4), 0.5)] * 2 * num_layers + [((2 * count, 4), 0.5)]
    assert dropped.forward.item() != plain.forward.item()


def test_a_model_that_cannot_predict_is_refused(fixtures):
    with pytest.raises(ConfigError, match="no LM softmax"):
        Objective(char_bilm())
    with pytest.raises(ConfigError, match="stacked LSTM reads both directions"):
        Objective(BiLM.from_pretrained(fixtures / "B_efml_lstm_encoder"))


@pytest.mark.parametrize("sampled", [False, True])
def test_losses_are_float32_where_products_are_bfloat16(sampled):
    bilm = small_model("char")
    batch, targets = window(bilm)
    negatives = LogUniformSampler(WORDS, 4, seed=0).draw() if sampled else None
    objective = Objective(bilm)
    exact, _ = objective(batch, targets, None, negatives)
    with torch.autocast("cpu", torch.bfloat16):
        losses, state = objective(batch, targets, None, negatives)
        objective(batch, targets, state, negatives)
    for loss, reference in zip(losses, exact, strict=True):
        assert loss.dtype == torch.float32
        torch.testing.assert_close(loss, reference, rtol=0.05, atol=0)
