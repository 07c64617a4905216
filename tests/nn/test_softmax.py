import math

import numpy as np
import pytest
import torch

from elmokit.errors import ConfigError
from elmokit.nn.softmax import LMSoftmax, LogUniformSampler, Negatives, log_uniform_probability


class Given(Negatives):
    """Expected counts as a file has them."""

    table: dict

    def expected_count(self, words):
        return torch.tensor([self.table[word] for word in words.tolist()])


@pytest.mark.parametrize("sparse", [False, True])
def test_sampled_loss_equals_tensorflow_with_gradients(fixtures, sparse):
    data = {
        k: torch.from_numpy(v) for k, v in np.load(fixtures / "D_units/sampled_softmax.npz").items()
    }
    softmax = LMSoftmax(*data["W"].shape)
    softmax.weight.data, softmax.bias.data = data["W"].clone(), data["b"].clone()
    targets = data["labels"].squeeze(1)
    negatives = Given(data["sampled_candidates"], 0.0, len(data["b"]))
    counts = (("sampled_candidates", "sampled_expected_count"), ("labels", "true_expected_count"))
    negatives.table = {
        word: count
        for words, expected in counts
        for word, count in zip(
            data[words].flatten().tolist(), data[expected].flatten().tolist(), strict=True
        )
    }
    inputs = data["inputs"].requires_grad_()
    loss = softmax.sampled_loss(inputs, targets, negatives, sparse=sparse)
    torch.testing.assert_close(loss, data["loss"], rtol=1e-5, atol=1e-5)
    loss.mean().backward()
    assert softmax.weight.grad.is_sparse is sparse
    for found, name in (
        (softmax.weight.grad.to_dense(), "grad_W"),
        (softmax.bias.grad, "grad_b"),
        (inputs.grad, "grad_inputs"),
    ):
        torch.testing.assert_close(found, data[name], rtol=1e-5, atol=1e-6, msg=name)


def test_sampled_loss_approaches_the_full_one():
    torch.manual_seed(0)
    softmax = LMSoftmax(500, 6)
    hidden, targets = torch.randn(40, 6), torch.randint(500, (40,))
    full = softmax.loss(hidden, targets).mean().item()
    errors = []
    for num_samples in (10, 100, 499):
        sampler = LogUniformSampler(500, num_samples, seed=1)
        draws = [
            softmax.sampled_loss(hidden, targets, sampler.draw()).mean().item() for _ in range(50)
        ]
        errors.append(abs(np.mean(draws) - full))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.01 * full


def test_draws_are_distinct_and_follow_the_distribution():
    sampler = LogUniformSampler(50, 8, seed=0)
    counts, expected = torch.zeros(50), torch.zeros(50)
    for _ in range(3000):
        negatives = sampler.draw()
        assert len(set(negatives.words.tolist())) == 8
        counts[negatives.words] += 1
        expected += negatives.expected_count(torch.arange(50))
    torch.testing.assert_close(counts, expected, rtol=0.15, atol=25)


def test_probabilities_sum_to_one_and_fall():
    probability = log_uniform_probability(torch.arange(1000), 1000)
    assert probability.sum().item() == pytest.approx(1, rel=1e-5)
    assert (probability.diff() < 0).all()
    assert probability[0].item() == pytest.approx(math.log(2) / math.log(1001), rel=1e-5)


def test_the_same_generator_state_gives_the_same_draws():
    sampler, again = LogUniformSampler(300, 20, seed=3), LogUniformSampler(300, 20, seed=9)
    sampler.draw()
    again.generator.set_state(sampler.generator.get_state())
    assert torch.equal(sampler.draw().words, again.draw().words)


@pytest.mark.parametrize("num_samples", [0, 50, 51])
def test_as_many_negatives_as_words_are_refused(num_samples):
    with pytest.raises(ConfigError, match="num_negatives"):
        LogUniformSampler(50, num_samples, seed=0)


@pytest.mark.parametrize("negatives", [[1, 5, 9, 3], [4]])
def test_gradients_of_the_sampled_loss_equal_automatic_ones(negatives):
    torch.manual_seed(2)
    softmax = LMSoftmax(12, 6).double()
    hidden = torch.randn(7, 6, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([4, 4, 1, 0, 5, 4, 11])  # some were drawn as well
    drawn = Negatives(torch.tensor(negatives), num_tries=9.0, num_words=12)

    def by_definition():
        rows = torch.cat([targets[:, None], drawn.words.expand(7, -1)], dim=1)
        logits = (hidden[:, None] * softmax.weight[rows]).sum(dim=2) + softmax.bias[rows]
        logits = logits - drawn.expected_count(rows).log()
        hits = rows == targets[:, None]
        hits[:, 0] = False
        return -torch.log_softmax(logits.masked_fill(hits, -torch.inf), dim=1)[:, 0]

    sources = [hidden, softmax.weight, softmax.bias]
    results = []
    for losses in (softmax.sampled_loss(hidden, targets, drawn), by_definition()):
        results.append((losses, *torch.autograd.grad(losses.square().sum(), sources)))
    for got, expected in zip(*results, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-8)
