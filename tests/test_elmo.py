import copy
import pickle

import pytest
import torch
from torch import nn

from builders import char_bilm, sentences_of_lengths, word_bilm
from elmokit import BiLM, Elmo, Embedder, batch_to_ids
from elmokit.errors import ConfigError, InputError

SENTENCES = sentences_of_lengths([3, 0, 6, 1])


def elmo(**settings) -> Elmo:
    return Elmo(char_bilm(), **{"dropout": 0.0, **settings})


def test_a_batch_and_ids_give_the_same_padded_rows():
    module = elmo(num_outputs=2).eval()
    module.scalar_mixes[0].weights.data = torch.tensor([0.5, -1.0, 2.0])
    module.scalar_mixes[0].gamma.data.fill_(1.7)
    from_ids = module(batch_to_ids(SENTENCES))
    from_batch = module(module.bilm.encode(SENTENCES))
    vectors = Embedder(module.bilm).embed(SENTENCES, return_tensors="pt")
    shares = module.scalar_mixes[0].normalized_weights
    for output in (from_ids, from_batch):
        assert output.mask.tolist() == [[i < len(s) for i in range(6)] for s in SENTENCES]
        assert all(r.shape == (4, 6, 16) for r in output.representations)
        for row, layers in enumerate(vectors):
            mixed = 1.7 * (shares[:, None, None] * layers).sum(0)
            got = output.representations[0][row]
            torch.testing.assert_close(got[: len(mixed)], mixed, rtol=1e-5, atol=1e-6)
            assert not got[len(mixed) :].any()
            even = output.representations[1][row, : len(mixed)]
            torch.testing.assert_close(even, layers.mean(0), rtol=1e-5, atol=1e-6)


def test_boundaries_are_kept_on_demand():
    plain, wide = elmo().eval(), elmo(keep_boundaries=True).eval()
    ids = batch_to_ids(SENTENCES)
    inner, outer = plain(ids), wide(ids)
    assert outer.mask.sum(1).tolist() == [5, 2, 8, 3]
    for row, sentence in enumerate(SENTENCES):
        n = len(sentence)
        got = outer.representations[0][row, 1 : n + 1]
        torch.testing.assert_close(got, inner.representations[0][row, :n])


def test_frozen_gives_no_gradient_to_the_bilm_while_the_mix_learns():
    module = elmo()
    module(batch_to_ids(SENTENCES)).representations[0].sum().backward()
    assert all(not p.requires_grad and p.grad is None for p in module.bilm.parameters())
    assert module.scalar_mixes[0].weights.grad.any()
    assert module.scalar_mixes[0].gamma.grad.any()


def test_the_mix_can_be_fixed():
    module = elmo(train_mix=False, mix_weights=[1.0, 2.0, 3.0])
    assert not any(p.requires_grad for p in module.parameters())
    assert module.scalar_mixes[0].weights.tolist() == [1, 2, 3]


def test_trainable_reaches_every_parameter_of_a_copy():
    bilm = char_bilm()
    module = Elmo(bilm, dropout=0.0, trainable=True)
    module(batch_to_ids(SENTENCES)).representations[0].pow(2).sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in module.bilm.parameters())
    assert all(p.grad is None for p in bilm.parameters())
    before = bilm.network.forward_lstm[0].bias.clone()
    torch.optim.SGD(module.parameters(), lr=0.1).step()
    assert torch.equal(bilm.network.forward_lstm[0].bias, before)


def test_frozen_shares_memory_and_changes_nothing():
    bilm = char_bilm()
    module = Elmo(bilm)
    ours, theirs = (m.network.forward_lstm[0].bias for m in (module.bilm, bilm))
    assert ours.data_ptr() == theirs.data_ptr()
    assert theirs.requires_grad


def test_dropout_acts_in_training_only():
    module = elmo(dropout=0.5)
    ids = batch_to_ids(SENTENCES)
    trained = module.train()(ids).representations[0]
    dropped = (trained[0, :3] == 0).float().mean()
    assert 0.2 < dropped < 0.8
    module.eval()
    assert torch.equal(module(ids).representations[0], module(ids).representations[0])


def test_penalty_is_the_l2_of_raw_weights():
    module = elmo(num_outputs=2, mix_weights=[1.0, -2.0, 0.5], l2=0.1)
    module.scalar_mixes[0].gamma.data.fill_(100)
    torch.testing.assert_close(module.penalty(), torch.tensor(0.1 * 2 * 5.25))
    module.penalty().backward()
    torch.testing.assert_close(module.scalar_mixes[1].weights.grad, torch.tensor([0.2, -0.4, 0.1]))


def test_carry_continues_rows_and_fresh_does_not():
    ids = batch_to_ids(SENTENCES)
    fresh, carry = elmo().eval(), elmo(state="carry").eval()
    first = carry(ids).representations[0]
    torch.testing.assert_close(first, fresh(ids).representations[0])
    assert (carry(ids).representations[0] - first).abs().max() > 1e-4
    assert torch.equal(fresh(ids).representations[0], fresh(ids).representations[0])
    carry.reset()
    assert torch.equal(carry(ids).representations[0], first)
    assert carry.bilm.card.state == "carry"


def test_state_dict_pickle_and_deepcopy_after_a_forward_pass():
    module = elmo(state="carry", trainable=True)
    ids = batch_to_ids(SENTENCES)
    module(ids).representations[0].sum().backward()
    again = elmo(state="carry", trainable=True)
    again.load_state_dict(module.state_dict())
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        torch.testing.assert_close(copied(ids).representations[0], module(ids).representations[0])
        module.reset()
        module(ids)


def test_a_fine_tuned_model_is_saved_with_its_state_policy(tmp_path):
    module = elmo(trainable=True, state="carry")
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        module(batch_to_ids(SENTENCES)).representations[0].pow(2).mean().backward()
        optimizer.step()
    module.bilm.save_pretrained(tmp_path / "tuned")
    loaded = BiLM.from_pretrained(tmp_path / "tuned")
    assert loaded.card.state == "carry"
    tensors = loaded.network.state_dict()
    for name, tensor in module.bilm.network.state_dict().items():
        assert torch.equal(tensors[name], tensor), name


def test_replicas_of_data_parallel_training_get_the_gradient_of_the_whole_batch():
    # What torch's data-parallel modules do with a module: one copy per part, gradients summed.
    module = elmo()
    ids = batch_to_ids(SENTENCES)
    module(ids).representations[0].sum().backward()
    whole = module.scalar_mixes[0].weights.grad.clone()
    total = torch.zeros_like(whole)
    for part in ids.split(2):
        replica = copy.deepcopy(module)
        replica.zero_grad()
        replica(part).representations[0].sum().backward()
        total += replica.scalar_mixes[0].weights.grad
    torch.testing.assert_close(total, whole, rtol=1e-5, atol=1e-4)


def test_inside_a_task_model():
    tagger = nn.ModuleDict({"elmo": elmo(), "out": nn.Linear(16, 2)})
    optimizer = torch.optim.Adam(tagger.parameters(), lr=0.05)
    ids = batch_to_ids(SENTENCES)
    target = torch.tensor([[len(w) % 2 for w in s] + [-100] * (6 - len(s)) for s in SENTENCES])
    losses = []
    for _ in range(30):
        logits = tagger["out"](tagger["elmo"](ids).representations[0])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


def test_word_id_models_take_batches_only():
    bilm = word_bilm(["tea", "is", "hot"])
    module = Elmo(bilm).eval()
    assert module(bilm.encode([["tea", "is"], ["x"]])).representations[0].shape == (2, 2, 16)
    with pytest.raises(ConfigError, match="does not read the byte alphabet"):
        module(batch_to_ids([["tea"]]))


def test_only_empty_sentences():
    output = elmo().eval()(batch_to_ids([[], []]))
    assert output.representations[0].shape == (2, 0, 16)
    assert output.mask.shape == (2, 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_outputs": 0}, "num_outputs"),
        ({"dropout": 1.0}, "dropout"),
        ({"state": "keep"}, "state: 'keep'"),
        ({"mix_weights": [1.0]}, "mix weights: expected 3"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        elmo(**settings)


def test_under_autocast():
    ids = batch_to_ids(SENTENCES)
    for trainable in (False, True):
        module = elmo(trainable=trainable)
        right = module(ids).representations[0]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = module(ids).representations[0]
            module.eval()
            with torch.no_grad():
                evaluated = module(ids).representations[0]
        torch.testing.assert_close(found.float(), right, rtol=0.1, atol=0.1)
        torch.testing.assert_close(evaluated.float(), right, rtol=0.1, atol=0.1)


def test_a_carried_state_follows_a_cast():
    module = elmo(state="carry").eval()
    ids = batch_to_ids(SENTENCES)
    first = module(ids).representations[0]
    second = module.double()(ids).representations[0]
    assert second.dtype == torch.float64
    assert (second - first).abs().max() > 1e-4


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([["a"]], "expected a Batch or character ids, found list"),
        (torch.full((1, 1, 50), 262), r"expected 0\.\.261, found 262"),
        (torch.full((1, 1, 50), -1), r"expected 0\.\.261, found -1"),
        (torch.ones(1, 1, 50), "expected integers, found torch.float32"),
    ],
)
def test_what_is_no_batch_is_refused(inputs, message):
    with pytest.raises(InputError, match=message):
        elmo()(inputs)


def test_what_is_no_model_is_refused():
    with pytest.raises(ConfigError, match=r"expected a BiLM, found str; .*from_pretrained"):
        Elmo("default")


def test_small_integer_ids_are_ids():
    module, ids = elmo().eval(), batch_to_ids(SENTENCES)
    torch.testing.assert_close(module(ids.int()).representations, module(ids).representations)


def test_ids_of_another_limit_are_refused():
    with pytest.raises(InputError, match="max_characters=50"):
        elmo()(batch_to_ids(SENTENCES, max_characters=10))
