"""`elmo perplexity` and `elmo predict`: the language model itself."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from elmokit.cli.printing import say
from elmokit.config import StatePolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class PerplexitySettings:
    """Measures how well a language model foretells a text, over its whole vocabulary.

    Example: elmo perplexity my-model heldout.txt
    """

    model: tyro.conf.Positional[str]
    """Directory, zip or tar file of a checkpoint with its softmax, hub:owner/name, or default."""
    text: tyro.conf.Positional[str]
    """Text, one sentence per line, tokens between white space; - reads standard input."""
    state: StatePolicy = "fresh"
    """fresh: every sentence from the initial state. carry: state runs on from sentence to sentence,
    as in bilm-tf's test."""
    per_token: bool = False
    """Print each token with its log-probabilities, forward and backward, first (state fresh)."""
    encoding: str = "utf-8"
    """Encoding of the text."""
    device: str = "auto"
    """cpu, cuda, ...; auto takes a GPU if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictSettings:
    """Names the words that a language model expects at each position of a sentence.

    Example: elmo predict my-model "The cat sat on the mat" -k 5
    """

    model: tyro.conf.Positional[str]
    """Directory, zip or tar file of a checkpoint with its softmax, hub:owner/name, or default."""
    sentence: tyro.conf.Positional[str]
    """Tokens between white space."""
    k: Annotated[int, tyro.conf.arg(aliases=["-k"])] = 5
    """Words per position and direction."""
    device: str = "auto"
    """cpu, cuda, ...; auto takes a GPU if there is one."""


def perplexity(settings: PerplexitySettings) -> None:
    """Prints perplexities, and log-probabilities per token on demand."""
    from elmokit.embedding.embedder import Embedder
    from elmokit.embedding.scoring import output_layer
    from elmokit.errors import ConfigError
    from elmokit.text import read_rows

    if settings.per_token and settings.state == "carry":
        raise ConfigError(
            "per_token: log-probabilities are those of single sentences; drop state carry"
        )
    emb = Embedder.from_pretrained(settings.model, device=settings.device)
    output_layer(emb.bilm)
    rows = read_rows(settings.text, format="text", encoding=settings.encoding)
    sentences = [row.tokens for row in rows if row.tokens]
    if settings.per_token:
        begin, end = emb.bilm.boundaries
        for tokens in sentences:
            forward, backward = emb.log_probs(tokens)
            say(f"{begin}\t\t{backward[0]:.4f}")
            for token, ahead, back in zip(tokens, forward, backward[1:], strict=False):
                say(f"{token}\t{ahead:.4f}\t{back:.4f}")
            say(f"{end}\t{forward[-1]:.4f}\t")
    found = emb.perplexity(sentences, state=settings.state)
    words = len(emb.bilm.vocabulary.words) if emb.bilm.vocabulary else 0
    say(
        f"perplexity {found.forward:.4f} forward, {found.backward:.4f} backward, "
        f"{found.mean:.4f} mean; {found.num_predictions:,} predictions per direction, "
        f"{words:,} words, {found.unknown_rate:.2%} of the tokens unknown, state {settings.state}"
    )


def predict(settings: PredictSettings) -> None:
    """Prints a table of expected words."""
    from elmokit.embedding.embedder import Embedder

    emb = Embedder.from_pretrained(settings.model, device=settings.device)
    for prediction in emb.predict(settings.sentence.split(), settings.k):
        say(prediction.token)
        for name in ("forward", "backward", "both"):
            words = "  ".join(f"{word} {value:.2f}" for word, value in getattr(prediction, name))
            say(f"  {name:<8}  {words}")
