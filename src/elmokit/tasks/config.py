"""What a run of a task is made of; needs no torch.

A task adds its own `data` and `model`. All but what `MAY_CHANGE` lists is fixed once a run began.
"""

from dataclasses import dataclass, field
from typing import Literal

from elmokit.config import Section
from elmokit.limits import check_least, check_positive, check_share

MAY_CHANGE = frozenset(
    {
        "run_dir",
        "device",
        "threads",
        "cache.use",
        "cache.directory",
        "cache.max_gigabytes",
        "fit.epochs",
        "fit.patience",
    }
)
"""Settings that a resumed run may have otherwise than it began."""

ElmoPlace = Literal["input", "output", "both", "none"]
"""Where a task model reads ELMo: beside its word vectors, beside what its encoder makes of them, at
both places, or nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSection(Section):
    """The examples."""

    train: str
    """File to learn from."""
    dev: str
    """File to choose the best epoch with."""
    encoding: str = "utf-8"
    """Encoding of the files."""
    skip_bad: bool = False
    """Go on after an example that cannot be read; such examples are counted."""
    max_train: int | None = None
    """Learn from so many examples, drawn from the file, the same ones whatever the seed."""

    def __post_init__(self) -> None:
        check_least(1, self, "max_train")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextData(DataSection):
    """Examples of one text and one label, which may stand in a table."""

    label_column: str = "1"
    """Column of labels (tsv): its number from 1, or its name in the first line."""
    text_column: str = "2"
    """Column of texts (tsv): its number from 1, or its name in the first line."""

    @property
    def columns(self) -> dict[str, str]:
        """What stands in which column."""
        return {"text": self.text_column, "label": self.label_column}


@dataclass(frozen=True, slots=True, kw_only=True)
class ElmoSection(Section):
    """ELMo in the task model (paper, sections 3.2 and 3.3)."""

    model: str = "default"
    """Directory, zip or tar file of a checkpoint, hub:owner/name, default or zh-hant."""
    at: ElmoPlace = "input"
    """Where it is read; none is the model without ELMo."""
    layers: Literal["all", "last"] | int = "all"
    """The layers that are mixed: all of them, the last, or one by number (0 is the token layer)."""
    dropout: float = 0.5
    """Chance of dropping an element of a mix."""
    l2: float = 0.001
    """The paper's lambda: strength of the pull of the mix weights towards an even mix."""
    layer_norm: bool = False
    """Normalise layers before they are mixed."""
    trainable: bool = False
    """Fine-tune the biLM too; it is then saved with the task model."""

    def __post_init__(self) -> None:
        check_share(self, "dropout")
        check_least(0, self, "l2")

    @property
    def places(self) -> tuple[str, ...]:
        """The places as a list."""
        return {"both": ("input", "output"), "none": ()}.get(self.at, (self.at,))


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSection(Section):
    """The layers of a frozen biLM, computed once and kept in files that runs share."""

    use: bool = True
    """Whether layers are kept."""
    directory: str | None = None
    """Where; null for `layers` beside the run's directory."""
    dtype: Literal["float32", "float16"] = "float32"
    """Number format; float16 takes half the space."""
    max_gigabytes: float = 8.0
    """Space for all files together; those used least recently give way."""

    def __post_init__(self) -> None:
        check_least(0, self, "max_gigabytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSection(Section):
    """How the model learns."""

    epochs: int = 40
    """Most times that the examples are read."""
    patience: int | None = 6
    """Epochs without a better score on dev after which training stops, once there was one above 0;
    null to go to the end."""
    batch_size: int = 32
    """Examples per step."""
    batch_tokens: int = 8192
    """Words per step at most, padding included; a longer example is a step by itself."""
    learning_rate: float = 0.001
    """Step size of Adam."""
    weight_decay: float = 0.0
    """Pull of all weights towards zero."""
    clip_norm: float = 5.0
    """Largest norm of all gradients together."""

    def __post_init__(self) -> None:
        check_least(1, self, "epochs", "patience", "batch_size", "batch_tokens")
        check_least(0, self, "weight_decay")
        check_positive(self, "learning_rate", "clip_norm")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensSection(Section):
    """What a word is to a task model, beside ELMo."""

    word_dim: int = 100
    """Width of word vectors, which are learnt; 0 for none."""
    min_count: int = 2
    """Words rarer than this in the training file share one vector."""
    lower: bool = True
    """Look words up in lower case; characters keep theirs."""
    character_dim: int = 16
    """Width of a byte's vector in the character CNN."""
    character_filters: int = 128
    """Convolutions over three bytes; 0 for none."""
    dropout: float = 0.5
    """Chance of dropping an element of a word's vector."""

    def __post_init__(self) -> None:
        check_least(0, self, "word_dim", "character_filters")
        check_least(1, self, "min_count", "character_dim")
        check_share(self, "dropout")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSection(Section):
    """A task model."""

    tokens: TokensSection = field(default_factory=TokensSection)
    """What a word is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConfig(Section):
    """A run of a task."""

    run_dir: str
    """Directory of the run: log, checkpoint, the best model and the results."""
    data: DataSection
    """The examples."""
    model: ModelSection = field(default_factory=ModelSection)
    """The task model."""
    elmo: ElmoSection = field(default_factory=ElmoSection)
    """ELMo in it."""
    cache: CacheSection = field(default_factory=CacheSection)
    """The layers of a frozen biLM."""
    fit: FitSection = field(default_factory=FitSection)
    """How it learns."""
    seed: int = 0
    """Decides initial weights, order of the examples and dropout."""
    device: str = "auto"
    """cpu, cuda, ...; auto takes a GPU if there is one."""
    threads: int | None = None
    """CPU threads; all cores if null."""

    def __post_init__(self) -> None:
        check_least(0, self, "seed")
        check_least(1, self, "threads")
