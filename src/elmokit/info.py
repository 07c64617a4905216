"""What a model is, in words: the facts that `elmo info` prints."""

import os
from collections.abc import Mapping

from elmokit import checkpoints
from elmokit.characters import ByteAlphabet
from elmokit.config import BiLMConfig
from elmokit.model import BiLM


def describe(source: str | os.PathLike[str]) -> dict[str, str]:
    """Loads a model and tells what a user needs to know of it.

    Args:
        source: As in `BiLM.from_pretrained`.

    Returns:
        Names of facts and their texts, in the order in which they are best read.

    Raises:
        CheckpointError: The source is missing, damaged, incomplete or of no known format.
    """
    found = checkpoints.describe(source)
    bilm = BiLM.from_pretrained(source)
    card = bilm.card
    facts = {
        "model": card.name,
        "format": found.format,
        "files": ", ".join(found.files),
        "not read": ", ".join(found.unused),
        **_shape(bilm.config),
        "parameters": _parameters(bilm),
        "input": _input(bilm),
        "word list": _word_list(bilm),
        "softmax": _softmax(bilm.config),
        "state policy": _state(bilm),
        "language": card.language,
        "tokenizer": card.tokenizer or "not recorded; give the tokens the model was trained on",
        "case": card.case or "not recorded",
        "licence": card.licence or "not recorded",
        "provenance": card.provenance,
        "notes": card.notes,
        "training": _listed(card.training),
        "measured": f"{len(card.results)} results, in bilm.card.results" if card.results else "",
    }
    return {name: text for name, text in facts.items() if text}


def _listed(values: Mapping[str, str | float]) -> str:
    return "; ".join(
        f"{name}: {value if isinstance(value, str) else format(value, ',.10g')}"
        for name, value in values.items()
    )


def _shape(config: BiLMConfig) -> dict[str, str]:
    lstm = config.lstm
    clips = [
        f"{name} {clip:g}"
        for name, clip in (("cell clip", lstm.cell_clip), ("projection clip", lstm.projection_clip))
        if clip is not None and lstm.kind == "projected"
    ]
    skip = "with" if lstm.skip_connections else "without"
    parts = [
        f"{lstm.num_layers} per direction",
        f"cell {lstm.cell_dim}",
        f"projection {lstm.projection_dim}",
        f"{skip} skip connections" if lstm.kind == "projected" else "stacked",
        *clips,
    ]
    return {
        "vectors": f"({config.num_outputs}, T, {config.dim}) for layers all, (T, {config.dim}) for "
        "mean, top or one layer; T tokens",
        "LSTM layers": ", ".join(parts),
    }


def _parameters(bilm: BiLM) -> str:
    own, softmax = (
        sum(parameter.numel() for parameter in module.parameters()) if module is not None else 0
        for module in (bilm.network, bilm.softmax)
    )
    return f"{own:,} and {softmax:,} in the softmax" if softmax else f"{own:,}"


def _input(bilm: BiLM) -> str:
    parts = []
    if bilm.alphabet is not None:
        kind = "bytes" if isinstance(bilm.alphabet, ByteAlphabet) else "Unicode characters"
        limit = bilm.alphabet.max_characters - 2
        parts.append(f"{kind}, the first {limit} of a token ({bilm.alphabet.num_characters} ids)")
    if bilm.words is not None:
        parts.append(f"word ids ({len(bilm.words.words):,} words, {bilm.words.unknown} for others)")
    return " and ".join(parts)


def _word_list(bilm: BiLM) -> str:
    has_bytes = isinstance(bilm.alphabet, ByteAlphabet)
    if bilm.vocabulary is None:
        lack = "none: characters never seen in training cannot be told from others"
        return lack if has_bytes else ""
    words = bilm.vocabulary.words
    if not has_bytes:
        return f"{len(words):,} words"
    seen = len(set("".join(bilm.vocabulary.characters).encode("utf-8", "ignore")))
    return (
        f"{len(words):,} words; {seen} of 256 byte ids occur in it, "
        f"the other {256 - seen} are untrained"
    )


def _softmax(config: BiLMConfig) -> str:
    if config.softmax_words is None:
        return "none: the model cannot score or predict words"
    return f"over {config.softmax_words:,} words"


def _state(bilm: BiLM) -> str:
    if not bilm.network.has_state:
        return "none (a stacked LSTM carries no state)"
    calibrated = any(part.any() for part in bilm.initial_state)
    return f"{bilm.card.state}; initial state {'calibrated' if calibrated else 'zero'}"
