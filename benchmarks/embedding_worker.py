"""One contender of the embedding benchmark, in a process and with an interpreter of its own.

It answers requests on standard input, one JSON object a line, with one line on standard output:

    {"request": "load", "contender": ..., "options": ..., "weights": ..., "num_threads": ...,
     "batch_size": ...}                      -> {"versions": {...}}
    {"request": "embed", "sentences": [[...]], "save_to": path or null}
                                             -> {"seconds": {row: ...}, "peak_mib": ...}

Anything the libraries print goes to standard error. This file imports nothing beyond the standard
library until a contender is loaded, as the two interpreters have little in common.
"""

import json
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = Sequence[NDArray[np.float32]]

Sentences = Sequence[Sequence[str]]


class Contender(Protocol):
    """A library that turns sentences into vectors."""

    package: str

    def embed(self, sentences: Sentences) -> "tuple[dict[str, float], Vectors]":
        """Return seconds by row of the table, the whole pass first, and (L+1, T, 2D) vectors."""
        ...


class AllenNLP:
    """AllenNLP's biLM, in batches of sentences of like length, fresh state before each batch."""

    package = "allennlp"

    def __init__(self, options: str, weights: str, batch_size: int) -> None:
        from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids

        self._batch_to_ids = batch_to_ids
        self._bilm = _ElmoBiLm(options, weights).eval()
        self._batch_size = batch_size

    def embed(self, sentences: Sentences) -> "tuple[dict[str, float], Vectors]":
        """Embed everything and time it, the network also by itself."""
        began = perf_counter()
        in_network = 0.0
        vectors: dict[int, Any] = {}
        order = sorted(range(len(sentences)), key=lambda row: len(sentences[row]))
        for start in range(0, len(order), self._batch_size):
            rows = order[start : start + self._batch_size]
            seconds, batch = self._embed_batch([sentences[row] for row in rows])
            in_network += seconds
            vectors.update(zip(rows, batch, strict=True))
        in_input_order = [vectors[row] for row in range(len(sentences))]
        return {"whole": perf_counter() - began, "network alone": in_network}, in_input_order

    def _embed_batch(self, sentences: Sentences) -> "tuple[float, Vectors]":
        import torch

        ids = self._batch_to_ids(sentences)
        self._bilm._elmo_lstm.reset_states()
        began = perf_counter()
        with torch.no_grad():
            activations = self._bilm(ids)["activations"]
        seconds = perf_counter() - began
        layers = torch.stack(activations, dim=1).numpy()  # (B, L+1, T+2, 2D)
        # Views without <S> and </S>: the padding behind them is not copied, to AllenNLP's favour.
        rows = zip(layers, sentences, strict=True)
        return seconds, [row[:, 1 : 1 + len(sentence)] for row, sentence in rows]


class Elmokit:
    """elmokit's Embedder, which sorts and batches by itself."""

    package = "elmokit"

    def __init__(self, options: str, weights: str, batch_size: int) -> None:
        import elmokit

        del batch_size  # the Embedder has a token budget of its own
        self._embedder_class = elmokit.Embedder
        self._bilm = elmokit.Embedder.from_pretrained(options=options, weights=weights).bilm

    def embed(self, sentences: Sentences) -> "tuple[dict[str, float], Vectors]":
        """Embed everything twice: by an Embedder that knows no word yet, then once more."""
        embedder = self._embedder_class(self._bilm)
        began = perf_counter()
        vectors = embedder.embed(sentences)
        cold = perf_counter() - began
        began = perf_counter()
        embedder.embed(sentences)
        return {"cold type cache": cold, "warm type cache": perf_counter() - began}, vectors


CONTENDERS = {contender.package: contender for contender in (AllenNLP, Elmokit)}


def serve(requests: TextIO, replies: TextIO) -> None:
    """Answer requests until there are no more."""
    contender: Contender | None = None
    for line in requests:
        request = json.loads(line)
        if request["request"] == "load":
            contender = load(request)
            reply = {"versions": versions_of(contender)}
        else:
            assert contender is not None, "the first request has to be a load"
            reply = embed(contender, request["sentences"], request["save_to"])
        print(json.dumps(reply), file=replies, flush=True)


def load(request: dict[str, Any]) -> Contender:
    """Load the checkpoint with the contender's library."""
    import torch

    torch.set_num_threads(request["num_threads"])
    contender = CONTENDERS[request["contender"]]
    return contender(request["options"], request["weights"], request["batch_size"])


def embed(contender: Contender, sentences: Sentences, save_to: str | None) -> dict[str, Any]:
    """Run one timed pass and save its vectors if asked."""
    seconds, vectors = contender.embed(sentences)
    reply = {"seconds": seconds, "peak_mib": peak_mib()}
    if save_to is not None:
        import numpy as np

        np.savez(save_to, *vectors)
    return reply


def versions_of(contender: Contender) -> dict[str, str]:
    """Return the releases that the numbers depend on."""
    packages = (contender.package, "torch", "numpy")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def peak_mib() -> int:
    """Return the most memory this process has held so far, loading included."""
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20)


def _claim_standard_output() -> TextIO:
    """Return the standard output and send what others print there to standard error."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return replies


if __name__ == "__main__":
    with _claim_standard_output() as channel:
        serve(sys.stdin, channel)
