"""What decides the shape of a biLM: frozen keyword-only dataclasses, from and to plain dicts.

Letters: D projection width, H cell size, L layers, V words of the softmax.
"""

import dataclasses
import difflib
import math
import reprlib
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

from elmokit.errors import ConfigError

SCHEMA_VERSION = 1
"""Version of the layout of `config.json`; a reader refuses a newer one."""

StatePolicy = Literal["fresh", "carry"]
"""Where a sentence's LSTM state comes from: the model's initial state, or the call before."""

Activation = Literal["relu", "tanh"]
"""What the character CNN applies after the maximum over positions."""

LSTMKind = Literal["projected", "stacked"]
"""How the LSTM layers are connected; see `LSTMConfig.kind`."""

MAX_COUNT = 10_000
"""Most layers of a kind, widths of filters and characters per token: a file that asks for more is
damaged."""

_T = TypeVar("_T")


class Section:
    """A part of a configuration that can be read from and written to a plain dict."""

    __slots__ = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, where: str = "config") -> Self:
        """Builds the section from plain values.

        Args:
            data: Field names and values; nested sections are dicts, tuples may be lists.
            where: What the data came from (a file, a field), for error messages.

        Raises:
            ConfigError: A field is unknown (the nearest name is given), missing or of a wrong type.
        """
        return parse(cls, data, where)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values, such that `from_dict(to_dict())` is equal."""
        return dataclasses.asdict(self)  # type: ignore[call-overload, no-any-return]  # subclasses are dataclasses


@dataclass(frozen=True, slots=True, kw_only=True)
class CharCNNConfig(Section):
    """The character CNN with its highway layers (paper, section 3.4)."""

    num_characters: int
    """Character ids in use, 1 up to this; the paper's byte alphabet has 261 (padding included)."""
    max_characters: int = 50
    """Characters kept per token, marks for begin and end of word included."""
    embedding_dim: int = 16
    """Width of a character's vector."""
    filters: tuple[tuple[int, int], ...] = (
        (1, 32),
        (2, 32),
        (3, 64),
        (4, 128),
        (5, 256),
        (6, 512),
        (7, 1024),
    )
    """Convolutions as (width in characters, number of filters)."""
    activation: Activation = "relu"
    """Applied after the maximum over positions."""
    num_highway: int = 2
    """Highway layers over the concatenated filters."""

    def __post_init__(self) -> None:
        _check_range(self, "num_characters", "embedding_dim")
        _check_range(self, "max_characters", most=MAX_COUNT)
        _check_range(self, "num_highway", least=0, most=MAX_COUNT)
        _check_choice(self, "activation", Activation)
        if len(self.filters) > MAX_COUNT:
            raise ConfigError(
                f"filters: {len(self.filters):,} pairs must be {MAX_COUNT:,} or fewer"
            )
        if not self.filters or any(width < 1 or count < 1 for width, count in self.filters):
            raise ConfigError(
                f"filters: {reprlib.repr(self.filters)} needs pairs of a width and a count, each 1 "
                "or more"
            )
        widest = max(width for width, _ in self.filters)
        if widest > self.max_characters:
            raise ConfigError(
                f"filters: the widest ({widest}) exceeds max_characters ({self.max_characters}); "
                "raise max_characters or drop that filter"
            )

    @property
    def num_filters(self) -> int:
        """Filters of all widths together: the width of the highway layers."""
        return sum(count for _, count in self.filters)


@dataclass(frozen=True, slots=True, kw_only=True)
class WordEmbeddingConfig(Section):
    """The table of a model that reads word ids (alone, or beside characters)."""

    num_words: int
    """Rows of the table; ids are 1 up to this, 0 means nothing."""
    embedding_dim: int
    """Width of a word's vector."""

    def __post_init__(self) -> None:
        _check_range(self, "num_words", "embedding_dim")


@dataclass(frozen=True, slots=True, kw_only=True)
class LSTMConfig(Section):
    """The two stacks of LSTM layers."""

    kind: LSTMKind = "projected"
    """projected: the paper's, two independent directions. stacked: a plain bidirectional LSTM whose
    layers read both directions of the layer below (some ELMoForManyLangs models)."""
    num_layers: int = 2
    """Layers per direction."""
    cell_dim: int = 4096
    """H, width of the memory cell."""
    projection_dim: int = 512
    """D, width of the output of one direction, and of the token layer."""
    cell_clip: float | None = 3.0
    """The cell is kept within this magnitude; null for no limit."""
    projection_clip: float | None = 3.0
    """The projected output is kept within this magnitude; null for no limit."""
    skip_connections: bool = True
    """Add a layer's input to its output, from the second layer on."""
    recurrent_projection: bool = True
    """Whether a matrix maps cell width to projection width; without it both are equal."""
    forget_bias: float = 0.0
    """Added to the forget gate on top of its stored bias (1.0 in bilm-tf's format)."""

    def __post_init__(self) -> None:
        _check_choice(self, "kind", LSTMKind)
        _check_range(self, "num_layers", most=MAX_COUNT)
        _check_range(self, "cell_dim", "projection_dim")
        for name in ("cell_clip", "projection_clip"):
            clip = getattr(self, name)
            if clip is not None and not 0 < clip < math.inf:
                raise ConfigError(f"{name}: {clip} must be above 0; use null for no limit")
        if not math.isfinite(self.forget_bias):
            raise ConfigError(f"forget_bias: {self.forget_bias} must be a finite number")
        if not self.recurrent_projection and self.cell_dim != self.projection_dim:
            raise ConfigError(
                f"recurrent_projection: false needs cell_dim ({self.cell_dim}) equal to "
                f"projection_dim ({self.projection_dim})"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class BiLMConfig(Section):
    """Everything that decides which tensors a biLM has and how they are used."""

    lstm: LSTMConfig
    """The LSTM layers."""
    characters: CharCNNConfig | None = None
    """The character CNN; null for a model of word ids only."""
    words: WordEmbeddingConfig | None = None
    """The word table; null for a model of characters only."""
    token_projection: bool = True
    """Whether a linear layer maps the token's vector to projection width."""
    softmax_words: int | None = None
    """V, words that the LM softmax predicts; null for a model without one."""

    def __post_init__(self) -> None:
        if self.characters is None and self.words is None:
            raise ConfigError("characters, words: a model needs at least one of them")
        if self.softmax_words is not None:
            _check_range(self, "softmax_words")
        if not self.token_projection and self.token_dim != self.lstm.projection_dim:
            raise ConfigError(
                f"token_projection: false needs the token's width ({self.token_dim}) equal to "
                f"lstm.projection_dim ({self.lstm.projection_dim})"
            )

    @property
    def token_dim(self) -> int:
        """Width of a token before its projection: word vector and filters side by side."""
        word_dim = self.words.embedding_dim if self.words else 0
        return word_dim + (self.characters.num_filters if self.characters else 0)

    @property
    def dim(self) -> int:
        """2D, the width of every layer's vectors."""
        return 2 * self.lstm.projection_dim

    @property
    def num_outputs(self) -> int:
        """Layers a token has: L + 1 with the token layer, 1 for a stacked LSTM."""
        return 1 if self.lstm.kind == "stacked" else self.lstm.num_layers + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Card(Section):
    """What a user of a model must know and no tensor tells; travels in `config.json`."""

    name: str | None = None
    """What the model is called."""
    language: str | None = None
    """Language or kind of sequences it was trained on."""
    tokenizer: str | None = None
    """How its training text was cut into tokens; running text is cut with it where it is the name
    of a tokeniser of ours, such as `spacy:en`."""
    case: str | None = None
    """How letters were treated, such as "cased" or "lower"."""
    licence: str | None = None
    """Licence of the weights."""
    provenance: str | None = None
    """Where the weights came from: program, corpus, file."""
    state: StatePolicy = "fresh"
    """State policy the model was fine-tuned with, and is to be used with."""
    notes: str | None = None
    """Anything else."""
    training: Mapping[str, str | float] = dataclasses.field(default_factory=dict)
    """How it was trained: text, steps, tokens, hours and the like, by name."""
    results: Mapping[str, str | float] = dataclasses.field(default_factory=dict)
    """What was measured with it, such as perplexities on held-out text, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationRanges(Section):
    """The ranges of what a biLM's matrices are multiplied with: int8 takes its scales from them."""

    weights: str
    """Digest of the weights that they were measured with; they hold for no others."""
    ranges: Mapping[str, tuple[float, float, float]]
    """The least value, the greatest and the standard deviation, by the matrix's name."""

    def __post_init__(self) -> None:
        for name, (low, high, spread) in self.ranges.items():
            if not (-math.inf < low <= 0 <= high < math.inf and 0 <= spread < math.inf):
                raise ConfigError(
                    f"ranges: {name!r}: {low} to {high}, spread {spread}: must be finite, and 0 "
                    "within; without this file the ranges are measured again"
                )


def parse(kind: type[_T], data: object, where: str) -> _T:
    """Builds a value of a field's type from plain JSON-like data.

    Args:
        kind: A dataclass, a plain type, a Literal, a tuple or a union of those.
        data: The plain value.
        where: Path of the value, for error messages.

    Raises:
        ConfigError: The value does not fit; the message names the field.
    """
    if dataclasses.is_dataclass(kind):
        return typing.cast(_T, _parse_section(kind, data, where))
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return typing.cast(_T, _parse_union(args, data, where))
    if origin is Literal:
        if data not in args:
            found, known = reprlib.repr(data), ", ".join(map(repr, args))
            raise ConfigError(f"{where}: {found} is not one of {known}")
        return typing.cast(_T, data)
    if origin is tuple:
        return typing.cast(_T, _parse_tuple(args, data, where))
    if origin is Mapping:
        return typing.cast(_T, _parse_mapping(args, data, where))
    return typing.cast(_T, _parse_plain(kind, data, where))


def nearest(name: str, known: typing.Iterable[str]) -> str:
    """Returns ` (did you mean 'x'?)` for the known name closest to `name`, or nothing."""
    match = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {match[0]!r}?)" if match else ""


def _parse_section(kind: Any, data: object, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where}: expected named fields, found {type(data).__name__}")
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    for name in data:
        if name not in fields:
            raise ConfigError(f"{where}: unknown field {name!r}{nearest(str(name), fields)}")
    hints = typing.get_type_hints(kind)
    for name, field in fields.items():
        required = (
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )
        if required and name not in data:
            raise ConfigError(f"{where}: field {name!r} is missing")
    values = {name: parse(hints[name], value, f"{where}: {name}") for name, value in data.items()}
    try:
        return kind(**values)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _parse_union(kinds: tuple[Any, ...], data: object, where: str) -> Any:
    if data is None and type(None) in kinds:
        return None
    problems = []
    for kind in kinds:
        if kind is not type(None):
            try:
                return parse(kind, data, where)
            except ConfigError as error:
                problems.append(error)
    raise problems[0]


def _parse_tuple(kinds: tuple[Any, ...], data: object, where: str) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple):
        raise ConfigError(f"{where}: expected a list, found {type(data).__name__}")
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(data)
    if len(kinds) != len(data):
        raise ConfigError(f"{where}: expected {len(kinds)} values, found {len(data)}")
    return tuple(
        parse(kind, item, f"{where}[{i}]")
        for i, (kind, item) in enumerate(zip(kinds, data, strict=True))
    )


def _parse_mapping(kinds: tuple[Any, ...], data: object, where: str) -> dict[Any, Any]:
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where}: expected names with values, found {type(data).__name__}")
    return {key: parse(kinds[1], value, f"{where}: {key!r}") for key, value in data.items()}


def _parse_plain(kind: Any, data: object, where: str) -> Any:
    is_bool = isinstance(data, bool)  # which is an int to Python
    if kind is float and isinstance(data, int) and abs(data) <= sys.float_info.max and not is_bool:
        return float(data)
    if kind is int and isinstance(data, float) and data.is_integer():
        return int(data)
    if not isinstance(data, kind) or (is_bool and kind is not bool):
        raise ConfigError(f"{where}: expected {kind.__name__}, found {reprlib.repr(data)}")
    return data


def _check_range(section: object, *names: str, least: int = 1, most: int | None = None) -> None:
    for name in names:
        value = getattr(section, name)
        if value < least or (most is not None and value > most):
            limit = f"{least} or more" if value < least else f"{most} or less"
            raise ConfigError(f"{name}: {value} must be {limit}")


def _check_choice(section: object, name: str, choices: Any) -> None:
    parse(choices, getattr(section, name), name)
