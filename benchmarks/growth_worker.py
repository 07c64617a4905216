"""Stream made-up sentences through a model into a file, once, and tell what it took.

Its one argument is a JSON object: {"model": ..., "num_sentences": ..., "seed": ..., "path": ...,
"num_threads": ...}. It prints one: {"seconds": ..., "peak_mib": ..., "bytes": ...}.
"""

import json
import sys
from itertools import islice
from pathlib import Path
from time import perf_counter

import torch

from elmokit import Embedder
from sample_text import LINE_LENGTH, iterate_sentences
from serving import peak_mib

NUM_WARMUP = 200
"""Sentences embedded before the clock starts."""


def main(request: dict[str, object]) -> dict[str, float]:
    """Time the stream from the first sentence made to the last vector written."""
    torch.set_num_threads(int(str(request["num_threads"])))
    embedder = Embedder.from_pretrained(str(request["model"]), device="cpu")
    seed, num_sentences = int(str(request["seed"])), int(str(request["num_sentences"]))
    embedder.embed(list(islice(iterate_sentences(seed, LINE_LENGTH), NUM_WARMUP)))
    embedder.clear_cache()
    path = Path(str(request["path"]))
    began = perf_counter()
    with path.open("wb") as file:
        sentences = islice(iterate_sentences(seed, LINE_LENGTH), num_sentences)
        for vectors in embedder.stream(sentences):
            vectors.tofile(file)
    seconds = perf_counter() - began
    return {"seconds": seconds, "peak_mib": peak_mib(), "bytes": path.stat().st_size}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
