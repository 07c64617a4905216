"""The meta.json that archives of the NLPL word-vector repository hold beside a model.

Every field of it is optional (NLPL wiki, "Vectors/metadata"); what cannot be read is left out.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elmokit.checkpoints.files import read_json
from elmokit.config import Card
from elmokit.errors import CheckpointError

logger = logging.getLogger(__name__)


def read_card(path: Path, provenance: str) -> Card:
    """Reads what the file tells of a model.

    Args:
        path: The meta.json.
        provenance: Of the weights, which the file's corpus and number are added to.
    """
    try:
        meta = read_json(path)
    except CheckpointError as error:
        logger.warning("the model's description is left out: %s", error)
        return Card(provenance=provenance)
    corpora = meta.get("corpus")
    corpus = _mapping(corpora[0] if isinstance(corpora, list) and corpora else corpora)
    algorithm = _mapping(meta.get("algorithm"))
    case = corpus.get("case preserved")
    sources = [
        provenance,
        _text(algorithm.get("name")),
        _text(corpus.get("description")),
        f"NLPL model {meta['id']}" if isinstance(meta.get("id"), int) else None,
    ]
    return Card(
        language=_text(corpus.get("language")),
        case={True: "cased", False: "lower"}[case] if isinstance(case, bool) else None,
        provenance="; ".join(source for source in sources if source),
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
