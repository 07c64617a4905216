"""ELMo: deep contextualized word representations (Peters et al. 2018) on current PyTorch.

Names are loaded when first used, so that importing the package is quick and sets nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "BiLM": "elmokit.model",
    "BiLMConfig": "elmokit.config",
    "Elmo": "elmokit.elmo",
    "ElmoOutput": "elmokit.elmo",
    "Embedder": "elmokit.embedding.embedder",
    "ScalarMix": "elmokit.nn.scalar_mix",
    "batch_to_ids": "elmokit.model",
    "convert": "elmokit.checkpoints",
    "open_embeddings": "elmokit.embedding.stored",
}

__all__ = [*sorted(_HOMES), "__version__"]  # noqa: PLE0604  # all of them are names

if TYPE_CHECKING:
    from elmokit.checkpoints import convert as convert
    from elmokit.config import BiLMConfig as BiLMConfig
    from elmokit.elmo import Elmo as Elmo
    from elmokit.elmo import ElmoOutput as ElmoOutput
    from elmokit.embedding.embedder import Embedder as Embedder
    from elmokit.embedding.stored import open_embeddings as open_embeddings
    from elmokit.model import BiLM as BiLM
    from elmokit.model import batch_to_ids as batch_to_ids
    from elmokit.nn.scalar_mix import ScalarMix as ScalarMix


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
