"""Which biLM a cache or a task model belongs to."""

import hashlib
import json

import numpy as np

from elmokit.model import BiLM


def fingerprint(bilm: BiLM) -> str:
    """Returns the digest of everything that decides a biLM's vectors: weights, words, shape."""
    parts = [bilm.config.to_dict() | {"softmax_words": None}]
    parts += [part.to_dict() for part in (bilm.alphabet, bilm.words) if part is not None]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    for name, tensor in sorted(bilm.network.state_dict().items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensor.detach().cpu().float().numpy()).data)
    return digest.hexdigest()
