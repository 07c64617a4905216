"""Perplexity on held-out text, over the whole vocabulary.

Letters: W window, B rows.
"""

import torch

from elmokit.embedding.scoring import Perplexity, perplexity_of, target_losses
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
    softmax, network = bilm.softmax, bilm.network
    assert softmax is not None
    sums, count, state = torch.zeros(2, dtype=torch.float64), 0, None
    rows = min(_ROWS, corpus.num_sentences)
    zero = State(*(torch.zeros_like(part) for part in network.initial_state))
    state = zero.expand(rows) if network.has_state else None
    with torch.no_grad():
        for window in evaluation_windows(corpus, batch_size=rows, window=_WINDOW):
            batch, targets, mask = as_step(window, table, bilm.device)
            layers, state = network.run(network.encode_types(batch.types), batch, state)
            tops = (layers.forward[-1], layers.backward[-1])
            for direction, (hidden, words) in enumerate(zip(tops, targets, strict=True)):
                losses = target_losses(softmax, hidden[mask], words[mask])
                sums[direction] += losses.double().sum().cpu()
            count += int(window.mask.sum()) if window.mask is not None else words.numel()
    return perplexity_of(sums, count, corpus.unknown_rate)
