"""Mixed layers against AllenNLP's `Elmo`, through packed batches and through character ids."""

import itertools

import numpy as np
import pytest
import torch

import elmokit
from parity.cases import UNITS, load, odd_tokens, read_json

pytestmark = odd_tokens


@pytest.fixture(scope="module")
def bilm(fixtures):
    return elmokit.BiLM.from_pretrained(fixtures / "A2_bilm_skip")


@pytest.fixture(scope="module")
def mixes(fixtures):
    return read_json(fixtures / "A2_bilm_skip/elmo_mix.json")


@pytest.fixture(scope="module")
def sentences(fixtures):
    return read_json(fixtures / "A2_sentences.json")


@pytest.mark.parametrize("through", ["encode", "batch_to_ids"])
@pytest.mark.parametrize("boundaries", [False, True])
@pytest.mark.parametrize("layer_norm", [False, True])
def test_representations(fixtures, bilm, mixes, sentences, layer_norm, boundaries, through):
    name = f"elmo_{'' if layer_norm else 'no'}layernorm{'_boundaries' if boundaries else ''}.npz"
    data = np.load(fixtures / "A2_bilm_skip" / name)
    elmo = elmokit.Elmo(
        bilm, num_outputs=2, dropout=0, layer_norm=layer_norm, keep_boundaries=boundaries
    )
    for mix, given in zip(elmo.scalar_mixes, mixes, strict=True):
        mix.weights.data = torch.tensor(given["w"])
        mix.gamma.data.fill_(given["gamma"])
    elmo.eval()
    rest = iter(sentences)
    for number, size in enumerate(data["batch_sizes"]):
        batch = list(itertools.islice(rest, int(size)))
        with torch.no_grad():
            output = elmo(
                bilm.encode(batch) if through == "encode" else elmokit.batch_to_ids(batch)
            )
        mask = data[f"b{number}_mask"]
        assert np.array_equal(output.mask, mask)
        for k, found in enumerate(output.representations):
            expected = data[f"b{number}_rep{k}"]
            assert found.shape == expected.shape
            np.testing.assert_allclose(found[mask], expected[mask], **UNITS)
            # AllenNLP's padding is not zero with both layer norm and boundaries; ours always is.
            assert not found[~mask].any()
    assert next(rest, None) is None


def test_given_mix_weights_are_raw_and_gamma_is_one(fixtures, bilm, mixes, sentences):
    expected = load(fixtures / "A2_bilm_skip/elmo_scalar_mix_parameters_gamma1.npz")
    elmo = elmokit.Elmo(bilm, dropout=0, mix_weights=mixes[0]["w"]).eval()
    chosen = [sentences[number] for number in expected]
    with torch.no_grad():
        ((found,), mask) = elmo(bilm.encode(chosen))
    for row, numbers in enumerate(expected.values()):
        np.testing.assert_allclose(found[row][mask[row]], numbers, **UNITS)
