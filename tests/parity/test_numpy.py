"""Random tiny checkpoints in bilm-tf's layout against the plain NumPy biLM."""

import json

import h5py
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit import Embedder
from numpy_bilm import NumpyBiLM
from parity.cases import assert_layers, odd_tokens

pytestmark = odd_tokens

CLIPS = st.sampled_from([None, 0.3, 3])
WORDS = st.one_of(
    st.sampled_from(["<S>", "</S>", "<s>", "", "a", "深い", "x" * 60, "é" * 30]),
    st.text(max_size=6),
)
SENTENCES = st.lists(st.lists(WORDS, max_size=5), min_size=1, max_size=4)


@st.composite
def all_options(draw):
    filters = draw(
        st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=3)
    )
    num_filters = sum(count for _, count in filters)
    projection_dim = draw(st.one_of(st.just(num_filters), st.integers(1, 5)))
    return {
        "lstm": {
            "n_layers": draw(st.integers(1, 3)),
            "projection_dim": projection_dim,
            "dim": projection_dim + draw(st.integers(0, 3)),
            "cell_clip": draw(CLIPS),
            "proj_clip": draw(CLIPS),
            "use_skip_connections": draw(st.booleans()),
        },
        "char_cnn": {
            "filters": filters,
            "embedding": {"dim": draw(st.integers(1, 4))},
            "n_highway": draw(st.integers(0, 2)),
            "activation": draw(st.sampled_from(["relu", "tanh"])),
            "n_characters": draw(st.sampled_from([261, 262])),
            "max_characters_per_token": 50,
        },
    }


def shapes(options):
    """The datasets that bilm-tf writes for a model."""
    cnn, lstm = options["char_cnn"], options["lstm"]
    width = cnn["embedding"]["dim"]
    yield "char_embed", (261, width)
    for i, (size, count) in enumerate(cnn["filters"]):
        yield f"CNN/W_cnn_{i}", (1, size, width, count)
        yield f"CNN/b_cnn_{i}", (count,)
    num_filters = sum(count for _, count in cnn["filters"])
    for k in range(cnn["n_highway"]):
        for part in ("carry", "transform"):
            yield f"CNN_high_{k}/W_{part}", (num_filters, num_filters)
            yield f"CNN_high_{k}/b_{part}", (num_filters,)
    dim, projection_dim = lstm["dim"], lstm["projection_dim"]
    if num_filters != projection_dim:
        yield "CNN_proj/W_proj", (num_filters, projection_dim)
        yield "CNN_proj/b_proj", (projection_dim,)
    for direction in (0, 1):
        for layer in range(lstm["n_layers"]):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            yield f"{cell}/W_0", (2 * projection_dim, 4 * dim)
            yield f"{cell}/B", (4 * dim,)
            if dim != projection_dim:
                yield f"{cell}/W_P_0", (dim, projection_dim)


@settings(max_examples=40)
@given(options=all_options(), sentences=SENTENCES, seed=st.integers(0, 99))
def test_embedder_equals_plain_numpy(tmp_path_factory, options, sentences, seed):
    folder = tmp_path_factory.mktemp("model")
    (folder / "options.json").write_text(json.dumps(options))
    generator = np.random.default_rng(seed)
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, shape in shapes(options):
            file[name] = generator.normal(scale=0.8, size=shape).astype(np.float32)
    judges = [NumpyBiLM(folder / "options.json", folder / "weights.hdf5") for _ in sentences]
    fresh = Embedder.from_pretrained(folder, device="cpu")
    for found, sentence in zip(fresh.embed(sentences, boundaries=True), sentences, strict=True):
        judges[0].reset()
        assert_layers(found, judges[0].embed(sentence))
    judges[0].reset()
    carrying = Embedder(fresh.bilm, device="cpu", state="carry")
    for batch in (sentences, sentences[::-1], sentences[:1]):
        for row, found in enumerate(carrying.embed(batch, boundaries=True)):
            assert_layers(found, judges[row].embed(batch[row]))
