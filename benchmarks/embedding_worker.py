"""One contender that embeds, in a process and with an interpreter of its own.

It answers requests on standard input, one JSON object a line, with one line on standard output:

    {"request": "load", "contender": ..., "setup": {...}}
        -> {"versions": {...}} or {"refused": why}
    {"request": "embed", "sentences": [[...]], "save_to": path or null}
        -> {"seconds": {row: ...}, "peak_mib": ...}
    {"request": "repeat", "sentences": [[...]], "num_calls": ...}
        -> {"seconds": {row: [...]}, "peak_mib": ...}

The rows are "cold" and, where words are kept, "warm": the same pass once more. Anything the
libraries print goes to standard error.
"""

import json
import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any, TextIO

import contenders
from contenders import Contender, RefusedError, Sentences, Setup
from serving import claim_standard_output, peak_mib, versions_of

if TYPE_CHECKING:
    from contenders import Vectors


def serve(requests: TextIO, replies: TextIO) -> None:
    """Answer requests until there are no more."""
    contender: Contender | None = None
    reply: dict[str, Any]
    for line in requests:
        request = json.loads(line)
        if request["request"] == "load":
            try:
                contender = contenders.load(request["contender"], Setup(**request["setup"]))
                reply = {"versions": versions_of(contender.packages)}
            except RefusedError as error:
                reply = {"refused": str(error)}
        else:
            assert contender is not None, "the first request has to be a load"
            answer = embed if request["request"] == "embed" else repeat
            reply = answer(contender, request) | {"peak_mib": peak_mib()}
        print(json.dumps(reply), file=replies, flush=True)


def embed(contender: Contender, request: dict[str, Any]) -> dict[str, Any]:
    """Run one timed pass and save its vectors if asked."""
    seconds, vectors = timed(contender, request["sentences"])
    if request["save_to"] is not None:
        import numpy as np

        np.savez(request["save_to"], *vectors)
    return {"seconds": seconds}


def repeat(contender: Contender, request: dict[str, Any]) -> dict[str, Any]:
    """Run many timed passes over the same sentences."""
    passes = [timed(contender, request["sentences"])[0] for _ in range(request["num_calls"])]
    return {"seconds": {row: [seconds[row] for seconds in passes] for row in passes[0]}}


def timed(contender: Contender, sentences: Sentences) -> "tuple[dict[str, float], Vectors]":
    """Embed everything, and once more where words are kept; return the seconds by row."""
    contender.forget()
    seconds = {}
    for row in ("cold", "warm") if contender.keeps_words else ("cold",):
        began = perf_counter()
        vectors = contender.embed(sentences)
        seconds[row] = perf_counter() - began
    return seconds, vectors


if __name__ == "__main__":
    with claim_standard_output() as channel:
        serve(sys.stdin, channel)
