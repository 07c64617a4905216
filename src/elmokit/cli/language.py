"""`elmo perplexity` and `elmo predict`: the language model itself."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

from elmokit.cli.printing import say
from elmokit.config import StatePolicy
from elmokit.errors import ConfigError, InputError

if TYPE_CHECKING:
    from elmokit.embedding.embedder import Embedder

_STATES = {"fresh": "fresh (elmo train measures with --state carry)", "carry": "carry"}
"""Fresh figures are higher than those of training, and users would look for a fault."""

_MODEL = tyro.conf.arg(metavar="MODEL")


@dataclass(frozen=True, slots=True, kw_only=True)
class PerplexitySettings:
    """Measures how well a language model foretells a text, over its whole vocabulary.

    Example: elmo perplexity my-model heldout.txt
    """

    model: Annotated[tyro.conf.Positional[str], _MODEL]
    """Directory, zip or tar file of a model with softmax, hub:owner/name, default or zh-hant."""
    text: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TEXT")]
    """Text, one sentence per line, tokens between white space, plain or compressed (.gz, .xz,
    .zst); - reads standard input. Blank lines do not count."""
    state: StatePolicy = "fresh"
    """fresh: every sentence from the initial state. carry: state runs on from sentence to sentence,
    as in bilm-tf's test and in what elmo train measures."""
    tokenizer: str | None = None
    """whitespace, characters, words, spacy or spacy:LANG; white space if not given."""
    per_token: bool = False
    """Print each token with its log-probabilities first, forward and backward (state fresh)."""
    encoding: str = "utf-8"
    """Encoding of the text."""
    device: str = "auto"
    """cpu, cuda, ...; auto takes a GPU if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictSettings:
    """Names the words that a language model expects at each position of a sentence.

    Example: elmo predict my-model "The cat sat on the mat" -k 5
    """

    model: Annotated[tyro.conf.Positional[str], _MODEL]
    """Directory, zip or tar file of a model with softmax, hub:owner/name, default or zh-hant."""
    sentence: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SENTENCE")]
    """Tokens between white space, or as `--tokenizer` cuts them, in quotes as one argument. None
    sees itself, but its neighbours see it: leave no mask in it."""
    tokenizer: str = "whitespace"
    """whitespace, characters, words, spacy or spacy:LANG."""
    k: Annotated[int, tyro.conf.arg(aliases=["-k"])] = 5
    """Words per position and direction."""
    device: str = "auto"
    """cpu, cuda, ...; auto takes a GPU if there is one."""


def perplexity(settings: PerplexitySettings) -> None:
    """Prints perplexities, and log-probabilities per token on demand."""
    from elmokit.embedding import scoring
    from elmokit.embedding.embedder import Embedder
    from elmokit.text import read_rows
    from elmokit.text.lines import source_name

    if settings.per_token and settings.state == "carry":
        raise ConfigError(
            "per_token: log-probabilities are those of single sentences; leave --state carry out"
        )
    emb = Embedder.from_pretrained(settings.model, device=settings.device)
    _, vocabulary = scoring.output_layer(emb.bilm)
    rows = read_rows(
        settings.text, format="text", tokenizer=settings.tokenizer, encoding=settings.encoding
    )
    read: Iterator[Sequence[str]] = (row.tokens for row in rows if row.tokens)
    first = next(read, None)
    if first is None:
        raise InputError(f"{source_name(settings.text)}: holds not a single token to measure")
    sentences = itertools.chain([first], read)
    found = scoring.perplexity(
        emb, _shown(emb, sentences) if settings.per_token else sentences, settings.state
    )
    say(
        f"perplexity {found.forward:.4f} forward, {found.backward:.4f} backward, "
        f"{found.mean:.4f} mean; {found.num_predictions:,} predictions per direction, "
        f"{len(vocabulary.words):,} words, {found.unknown_rate:.2%} of the tokens unknown, "
        f"state {_STATES[settings.state]}"
    )


def predict(settings: PredictSettings) -> None:
    """Prints a table of expected words."""
    from elmokit.embedding.embedder import Embedder
    from elmokit.text.tokenizers import get_tokenizer

    cut = get_tokenizer(settings.tokenizer)
    tokens = [token for token, _, _ in cut(settings.sentence)]
    if not tokens:
        raise InputError("sentence: holds not a single token")
    emb = Embedder.from_pretrained(settings.model, device=settings.device)
    for prediction in emb.predict(tokens, settings.k):
        say(prediction.token)
        for name in ("forward", "backward", "both"):
            words = "  ".join(f"{word} {value:.2f}" for word, value in getattr(prediction, name))
            say(f"  {name:<8}  {words}")


def _shown(emb: "Embedder", sentences: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
    """Prints the log-probabilities of each sentence on its way."""
    begin, end = emb.bilm.boundaries
    for tokens in sentences:
        forward, backward = emb.log_probs(tokens)
        say(f"{begin}\t\t{backward[0]:.4f}")
        for token, ahead, back in zip(tokens, forward, backward[1:], strict=False):
            say(f"{token}\t{ahead:.4f}\t{back:.4f}")
        say(f"{end}\t{forward[-1]:.4f}\t")
        yield tokens
