import dataclasses
import math

import pytest
import torch

from elmokit.config import BiLMConfig, CharCNNConfig, LSTMConfig, WordEmbeddingConfig
from elmokit.nn import BiLMNetwork, LMSoftmax
from elmokit.training.initialize import initialize, initialize_softmax

CELL, WIDTH = 160, 64
LSTM = LSTMConfig(cell_dim=CELL, projection_dim=WIDTH, forget_bias=1.0)
CNN = CharCNNConfig(
    num_characters=261, embedding_dim=8, filters=((1, 40), (3, 60), (5, 60)), num_highway=2
)


def drawn(config):
    """A network with weights of NaN before it is initialised, so that none is left out."""
    torch.manual_seed(0)
    network = BiLMNetwork(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(math.nan)
    for embedding in (network.token_encoder.words, network.token_encoder.characters):
        if embedding is not None:
            table = embedding if hasattr(embedding, "weight") else embedding.embedding
            with torch.no_grad():
                table.weight[0] = 0  # never trained, and zero from its construction
    initialize(network)
    return network


def assert_uniform(tensor, limit):
    assert tensor.abs().max() <= limit
    assert tensor.abs().max() > 0.95 * limit
    assert tensor.std().item() == pytest.approx(limit / math.sqrt(3), rel=0.1)
    assert abs(tensor.mean().item()) < 4 * limit / math.sqrt(3 * tensor.numel())


def assert_normal(tensor, std):
    assert tensor.std().item() == pytest.approx(std, rel=0.1)
    assert abs(tensor.mean().item()) < 4 * std / math.sqrt(tensor.numel())
    assert tensor.abs().max() > 2.5 * std


def test_every_weight_is_drawn_and_the_row_of_nothing_stays_zero():
    words = WordEmbeddingConfig(num_words=50, embedding_dim=WIDTH)
    network = drawn(BiLMConfig(lstm=LSTM, characters=CNN, words=words))
    for name, parameter in network.named_parameters():
        assert parameter.isfinite().all(), name
    assert not network.token_encoder.words.weight[0].any()
    assert not network.token_encoder.characters.embedding.weight[0].any()
    for part in network.initial_state:
        assert not part.any()


def test_characters_are_drawn_as_in_bilm_tf():
    encoder = drawn(BiLMConfig(lstm=LSTM, characters=CNN)).token_encoder
    assert_uniform(encoder.characters.embedding.weight[1:], 1)
    for convolution in encoder.characters.convolutions:
        assert_uniform(convolution.weight, 0.05)
        assert not convolution.bias.any()
    for highway in encoder.characters.highways:
        assert_normal(highway.weight, 1 / math.sqrt(160))
        nonlinear, carry = highway.bias.chunk(2)
        assert not nonlinear.any()
        assert (carry == 2).all()  # bilm-tf's own gate, of the opposite sense, starts at -2
    assert_normal(encoder.projection.weight, 1 / math.sqrt(160))
    assert not encoder.projection.bias.any()


def test_convolutions_before_tanh_are_drawn_by_their_width():
    cnn = dataclasses.replace(CNN, activation="tanh")
    encoder = drawn(BiLMConfig(lstm=LSTM, characters=cnn)).token_encoder
    for convolution, (width, _) in zip(encoder.characters.convolutions, CNN.filters, strict=True):
        assert_normal(convolution.weight, 1 / math.sqrt(width * 8))


def test_word_vectors_are_drawn_as_in_bilm_tf():
    words = WordEmbeddingConfig(num_words=80, embedding_dim=WIDTH)
    network = drawn(BiLMConfig(lstm=LSTM, words=words, token_projection=False))
    assert_uniform(network.token_encoder.words.weight[1:], 1)


@pytest.mark.parametrize("projected", [True, False])
def test_lstm_weights_are_drawn_for_one_matrix_of_input_and_recurrence(projected):
    lstm = (
        LSTM if projected else dataclasses.replace(LSTM, cell_dim=WIDTH, recurrent_projection=False)
    )
    words = WordEmbeddingConfig(num_words=9, embedding_dim=WIDTH)
    network = drawn(BiLMConfig(lstm=lstm, words=words, token_projection=False))
    limit = math.sqrt(6 / (2 * WIDTH + 4 * lstm.cell_dim))  # Glorot's, of a (2D, 4H) kernel
    for layer in (*network.forward_lstm, *network.backward_lstm):
        assert_uniform(layer.input_weight, limit)
        assert_uniform(layer.recurrent_weight, limit)
        assert not layer.bias.any()  # the forget gate's 1.0 is added at run time
        if projected:
            assert_uniform(layer.projection, math.sqrt(6 / (CELL + WIDTH)))
        else:
            assert layer.projection is None
    first, second = network.forward_lstm[0], network.backward_lstm[0]
    assert not torch.equal(first.input_weight, second.input_weight)


def test_a_softmax_of_bilm_tf_starts_from_large_weights():
    torch.manual_seed(0)
    softmax = LMSoftmax(300, WIDTH)
    torch.nn.init.ones_(softmax.bias)
    initialize_softmax(softmax, None)
    assert_normal(softmax.weight, 1 / math.sqrt(WIDTH))
    assert not softmax.bias.any()


def test_a_softmax_starts_from_the_words_frequencies():
    torch.manual_seed(0)
    softmax, counts = LMSoftmax(300, WIDTH), torch.arange(300) ** 2
    initialize_softmax(softmax, counts)
    probabilities = softmax.bias.exp()
    assert probabilities.sum().item() == pytest.approx(1, abs=1e-5)
    assert softmax.bias.isfinite().all()  # words that never occur have a chance too
    torch.testing.assert_close(probabilities * (counts.sum() + 300), counts + 1.0)
    assert_normal(softmax.weight, 0.1 / math.sqrt(WIDTH))
    # So an untrained model is about as good as a model of single words.
    hidden = torch.randn(1000, WIDTH) * 0.3
    targets = torch.multinomial(counts.double() / counts.sum(), 1000, replacement=True)
    loss = softmax.loss(hidden, targets).mean().item()
    unigram = -softmax.bias[targets].mean().item()
    assert loss == pytest.approx(unigram, rel=0.01)


def test_the_same_seed_draws_the_same_weights():
    config = BiLMConfig(lstm=LSTM, characters=CNN)
    for one, other in zip(drawn(config).parameters(), drawn(config).parameters(), strict=True):
        assert torch.equal(one, other)
