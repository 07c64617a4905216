"""Perplexity on held-out text, over the whole vocabulary.

Letters: W window, B rows.
"""

import torch

from elmokit.embedding.computing import computing
from elmokit.embedding.scoring import Perplexity, output_layer, perplexity_of, target_losses
from elmokit.model import BiLM
from elmokit.nn import State
from elmokit.training.corpus import Corpus
from elmokit.training.streams import evaluation_windows
from elmokit.training.windows import TypeTable, as_step

_ROWS, _WINDOW = 32, 64
"""Rows that read side by side, each its own run of the text from a state of zeros."""


def measure(bilm: BiLM, corpus: Corpus, table: TypeTable) -> Perplexity:
    """Measures a model on a corpus, its state carried from sentence to sentence.

    Args:
        bilm: A model with a softmax; neither its weights nor its mode change.
        corpus: Held-out text.
        table: Its types.
    """
    (softmax, _), network = output_layer(bilm), bilm.network
    rows = min(_ROWS, corpus.num_sentences)
    zeros = State(*(torch.zeros_like(part) for part in network.initial_state))
    state: State | None = zeros.expand(rows)
    sums, count = torch.zeros(2, dtype=torch.float64), 0
    with computing(bilm.device):
        for window in evaluation_windows(corpus, batch_size=rows, window=_WINDOW):
            batch, targets, mask = as_step(window, table, bilm.device)
            assert mask is not None
            layers, state = network.run(network.encode_types(batch.types), batch, state)
            losses = [
                target_losses(softmax, outputs[-1][mask], words[mask])
                for outputs, words in zip((layers.forward, layers.backward), targets, strict=True)
            ]
            sums += torch.stack(losses).cpu().double().sum(dim=1)
            count += len(losses[0])
    return perplexity_of(sums, count, corpus.unknown_rate)
