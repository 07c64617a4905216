import multiprocessing
import pickle
import warnings

import numpy as np
import pytest
import torch

from builders import char_bilm, sentences_of_lengths, word_bilm
from elmokit import BiLM, Embedder
from elmokit.errors import ConfigError, InputError

SENTENCES = sentences_of_lengths([5, 0, 1, 9, 5])


@pytest.fixture(scope="module")
def emb():
    return Embedder(char_bilm())


def test_shapes_and_types(emb):
    for choice, shape in (
        ("all", (3, -1, 16)),
        ("mean", (-1, 16)),
        (1, (-1, 16)),
        ([2], (1, -1, 16)),
    ):
        for sentence, vectors in zip(SENTENCES, emb.embed(SENTENCES, choice), strict=True):
            assert vectors.shape == tuple(len(sentence) if n == -1 else n for n in shape)
            assert vectors.dtype == np.float32
            assert vectors.flags["C_CONTIGUOUS"]
    with_boundaries = emb.embed(SENTENCES, boundaries=True)
    for plain, wide in zip(emb.embed(SENTENCES), with_boundaries, strict=True):
        np.testing.assert_array_equal(wide[:, 1:-1], plain)
    assert emb.embed([]) == []
    assert (emb.dim, emb.num_outputs) == (16, 3)


def test_layers_of_one_call_agree_with_the_others(emb):
    everything = emb.embed(SENTENCES)
    for k in range(3):
        for full, one in zip(everything, emb.embed(SENTENCES, k), strict=True):
            np.testing.assert_array_equal(full[k], one)
    for full, mean in zip(everything, emb.embed(SENTENCES, "mean"), strict=True):
        np.testing.assert_allclose(full.mean(0), mean, rtol=1e-5, atol=1e-6)
    for full, mixed in zip(everything, emb.embed(SENTENCES, weights=[0.2, 0.3, 0.5]), strict=True):
        expected = 0.2 * full[0] + 0.3 * full[1] + 0.5 * full[2]
        np.testing.assert_allclose(mixed, expected, rtol=1e-5, atol=1e-6)
    for full, top in zip(everything, emb.embed(SENTENCES, weights=[0, 0, 1]), strict=True):
        np.testing.assert_array_equal(full[2], top)


def test_tensors_can_be_used_with_gradients(emb):
    vectors = emb.embed(SENTENCES[:1], "top", return_tensors="pt")[0]
    weight = torch.ones(16, requires_grad=True)
    (vectors @ weight).sum().backward()
    torch.testing.assert_close(weight.grad, vectors.sum(0))


def test_keeping_one_result_does_not_keep_its_batch(emb):
    for tensors in ("np", "pt"):
        result = emb.embed(SENTENCES, return_tensors=tensors)[2]
        owned = result.base.nbytes if tensors == "np" and result.base is not None else result.nbytes
        assert owned == 3 * 1 * 16 * 4


def test_sentence_vectors_are_pooled_over_tokens(emb):
    tokens = emb.embed(SENTENCES, "top")
    for pooling in ("mean", "max", "mean+max"):
        pooled = emb.embed_sentences(SENTENCES, pooling=pooling, layers="top")
        for vectors, one in zip(tokens, pooled, strict=True):
            parts = {"mean": vectors.mean, "max": vectors.max}
            names = pooling.split("+")
            expected = (
                np.concatenate([parts[name](axis=0) for name in names])
                if len(vectors)
                else np.zeros(16 * len(names))
            )
            np.testing.assert_allclose(one, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(
        emb.embed_sentences(SENTENCES, weights=[0, 0, 1]),
        emb.embed_sentences(SENTENCES, layers="top"),
    )
    texts = [" ".join(sentence) for sentence in SENTENCES]
    np.testing.assert_array_equal(emb.embed_sentences(texts), emb.embed_sentences(SENTENCES))
    assert emb.embed_sentences(SENTENCES, layers="all").shape == (5, 3, 16)
    assert emb.embed_sentences([]).shape == (0, 16)
    assert emb.embed_sentences([], layers=[0, 1], pooling="mean+max").shape == (0, 2, 32)


def test_a_stream_gives_what_embed_gives_in_order(emb, monkeypatch):
    monkeypatch.setattr("elmokit.embedding.embedder.PART_BYTES", 4 * 16 * 3 * 8)
    streamed = list(emb.stream(iter(SENTENCES * 3)))
    for one, other in zip(streamed, emb.embed(SENTENCES * 3), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_carry_continues_rows_and_reset_forgets():
    bilm = char_bilm()
    carrying = Embedder(bilm, state="carry")
    first = carrying.embed(SENTENCES[:1])[0]
    second = carrying.embed([SENTENCES[3], SENTENCES[0]])
    np.testing.assert_allclose(second[1], first, rtol=1e-5, atol=1e-6)  # a new row
    assert np.abs(second[0] - Embedder(bilm).embed([SENTENCES[3]])[0]).max() > 1e-4
    carrying.reset()
    np.testing.assert_array_equal(carrying.embed(SENTENCES[:1])[0], first)


def test_carry_in_a_stream_takes_a_part_as_a_batch():
    bilm = char_bilm()
    streamed = list(Embedder(bilm, state="carry").stream(SENTENCES, batch_size=2))
    carrying = Embedder(bilm, state="carry")
    expected = [x for i in (0, 2, 4) for x in carrying.embed(SENTENCES[i : i + 2])]
    for one, other in zip(streamed, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_calibration_stores_the_mean_state_after_a_sentence():
    bilm = char_bilm()
    text = [sentence for sentence in SENTENCES if sentence]
    others = Embedder(bilm)
    carrying = Embedder(bilm, state="carry")
    states = []
    for sentence in text:
        carrying.embed([sentence])
        states.append(carrying.carried.state)
    emb = Embedder(bilm)
    before = emb.embed(SENTENCES)
    emb.calibrate(text)
    for part, name in enumerate(("h", "c")):
        mean = torch.stack([state[part][:, :, 0] for state in states]).mean(0)
        torch.testing.assert_close(
            emb.bilm.initial_state[part], mean, rtol=1e-5, atol=1e-6, msg=name
        )
    after = emb.embed(SENTENCES)
    assert np.abs(after[0] - before[0]).max() > 1e-4
    np.testing.assert_array_equal(emb.embed(SENTENCES)[0], after[0])
    np.testing.assert_array_equal(others.embed(SENTENCES)[0], before[0])  # has a state of its own
    emb.calibrate(text)  # starts from zero again, so nothing changes
    np.testing.assert_array_equal(emb.embed(SENTENCES)[0], after[0])


def test_calibration_is_saved_natively_and_dropped_with_a_warning_elsewhere(tmp_path):
    emb = Embedder(char_bilm())
    emb.calibrate(SENTENCES)
    emb.bilm.save_pretrained(tmp_path / "native")
    loaded = BiLM.from_pretrained(tmp_path / "native")
    assert torch.equal(loaded.initial_state.c, emb.bilm.initial_state.c)
    assert loaded.initial_state.c.any()
    with pytest.warns(UserWarning, match="initial state"):
        emb.bilm.save_pretrained(tmp_path / "old", format="allennlp")
    assert not BiLM.from_pretrained(tmp_path / "old").initial_state.c.any()


def test_warm_words_are_not_encoded_again(monkeypatch):
    emb = Embedder(char_bilm())
    emb.warm([word for sentence in SENTENCES for word in sentence] + ["<S>", "</S>"])
    monkeypatch.setattr(emb.bilm.network, "encode_types", lambda types: 1 / 0)
    assert len(emb.embed(SENTENCES)) == 5
    emb.clear_cache()
    with pytest.raises(ZeroDivisionError):
        emb.embed(SENTENCES)


def test_a_model_given_is_left_as_it_is():
    bilm = char_bilm()
    bilm.train()
    before = {name: tensor.clone() for name, tensor in bilm.state_dict().items()}
    emb = Embedder(bilm, precision="bf16")
    emb.embed(SENTENCES)
    assert bilm.training
    assert all(parameter.requires_grad for parameter in bilm.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in bilm.state_dict().items())


def test_word_ids_and_unknown_words():
    emb = Embedder(word_bilm(["tea", "is", "hot"]))
    known, unknown, other = emb.embed([["tea"], ["coffee"], ["milk"]])
    assert np.abs(known - unknown).max() > 1e-4
    np.testing.assert_allclose(unknown, other, rtol=1e-6)


def _embed_in_child(emb, sentences, queue):
    queue.put(emb.embed(sentences))


def test_spawned_processes_share_an_embedder(emb):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=_embed_in_child, args=(emb, SENTENCES, queue))
    child.start()
    results = queue.get(timeout=120)
    child.join()
    for one, other in zip(results, emb.embed(SENTENCES), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_pickle_keeps_the_vectors(emb):
    copy = pickle.loads(pickle.dumps(emb))
    for one, other in zip(copy.embed(SENTENCES), emb.embed(SENTENCES), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"device": "gpu"}, "device: 'gpu' cannot be used here"),
        ({"device": "cuda:99"}, "device: 'cuda:99' cannot be used here"),
        ({"precision": "fp64"}, "precision: 'fp64' is not one of fp32, bf16, int8"),
        ({"state": "keep"}, "state: 'keep' is not one of fresh, carry"),
        ({"batch_tokens": 0}, "batch_tokens"),
        ({"cache_words": -1}, "cache_words"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Embedder(char_bilm(), **settings)


def test_wrong_input_is_refused(emb):
    with pytest.raises(InputError, match="split it first"):
        emb.embed("the cat")
    with pytest.raises(InputError, match="split it first"):
        emb.embed(["the cat"])
    with pytest.raises(InputError, match="split it first"):
        next(emb.stream(["the cat"]))
    with pytest.raises(InputError, match=r"sentences\[0\]\[1\]"):
        emb.embed([["the", 3]])
    with pytest.raises(ConfigError, match="return_tensors"):
        emb.embed(SENTENCES, return_tensors="tf")
    with pytest.raises(ConfigError, match="pooling: 'min'"):
        emb.embed_sentences(SENTENCES, pooling="min")
    with pytest.raises(ConfigError, match="at least one sentence"):
        emb.calibrate([])


def test_iterators_and_labelled_columns_are_read_in_order(emb):
    right = emb.embed(SENTENCES)
    for sentences in (iter(SENTENCES), dict(enumerate(SENTENCES)).values(), tuple(SENTENCES)):
        for one, other in zip(emb.embed(sentences), right, strict=True):
            np.testing.assert_array_equal(one, other)


def test_an_autocast_of_the_caller_changes_nothing(emb):
    right = emb.embed(SENTENCES)
    emb.clear_cache()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for one, other in zip(emb.embed(SENTENCES), right, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", [torch.float64, torch.float16, torch.bfloat16])
def test_models_of_another_type_are_cast(kind):
    emb = Embedder(char_bilm().to(kind))
    assert emb.embed(SENTENCES)[0].dtype == np.float32
    assert np.isfinite(emb.embed(SENTENCES)[0]).all()


def test_a_stream_checks_its_rows_and_sizes(emb):
    for sentences, place in (([None], r"\[0\]"), ([["a"], 5], r"\[1\]"), (5, "")):
        with pytest.raises(InputError, match=f"sentences{place}: expected"):
            list(emb.stream(sentences))
    with pytest.raises(ConfigError, match="batch_size"):
        list(emb.stream(SENTENCES, batch_size=0))


def test_a_token_with_a_space_is_embedded_with_a_warning(emb):
    with pytest.warns(UserWarning, match=r"sentences\[0\]\[1\]"):
        emb.embed([["in", "New York"]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        emb.embed([["in", "New_York"]])
