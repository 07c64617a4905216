"""What a training run is made of; needs no torch.

A run is a YAML file of these sections. All but what `MAY_CHANGE` lists is fixed once it began.
"""

from dataclasses import dataclass, field
from typing import Literal

from elmokit.characters import ByteAlphabet
from elmokit.config import Activation, CharCNNConfig, LSTMConfig, Section
from elmokit.errors import ConfigError
from elmokit.limits import check_least, check_positive

MAY_CHANGE = frozenset(
    {
        "run_dir",
        "device",
        "threads",
        "tensorboard",
        "schedule.epochs",
        "schedule.steps",
        "schedule.evaluate_every",
        "schedule.checkpoint_every",
        "schedule.log_every",
        "schedule.patience",
    }
)
"""Settings that a resumed run may have otherwise than it began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSection(Section):
    """The text: one sentence a line, tokens between white space, plain or compressed."""

    train: tuple[str, ...]
    """Files or patterns such as corpus/*.txt.gz to learn from."""
    heldout: tuple[str, ...] = ()
    """Files or patterns that are never learnt from, to measure with."""
    vocabulary: str | None = None
    """Word list from `elmo vocab`, the words to predict; may be left out with `start`."""
    encoding: str = "utf-8"
    """Encoding of these files; the word list is UTF-8."""

    def __post_init__(self) -> None:
        if not self.train:
            raise ConfigError("train: names no file; give files, or patterns such as text/*.txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSection(Section):
    """A new model; the defaults are the paper's."""

    input: Literal["bytes", "characters", "words"] = "bytes"
    """bytes: the paper's alphabet. characters: the Unicode characters of the training text, for
    scripts where a word takes many bytes. words: the words of the vocabulary."""
    min_character_count: int = 2
    """Characters rarer than this are unknown (input characters)."""
    max_characters: int = 50
    """Bytes or characters kept per token, the two marks included."""
    character_dim: int = 16
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
    """Convolutions over characters, as (width, number of filters)."""
    activation: Activation = "relu"
    """Applied after the maximum over positions."""
    num_highway: int = 2
    """Highway layers over the filters."""
    num_layers: int = 2
    """LSTM layers per direction."""
    cell_dim: int = 4096
    """Width of the LSTM's memory cell."""
    projection_dim: int = 512
    """Width of a direction's output; vectors are twice as wide."""
    cell_clip: float | None = 3.0
    """Limit of the cell's values."""
    projection_clip: float | None = 3.0
    """Limit of the output's values."""
    skip_connections: bool = True
    """Add a layer's input to its output, from the second layer on."""

    def __post_init__(self) -> None:
        check_least(1, self, "min_character_count", "character_dim")
        self.lstm()
        if self.input != "words":
            self.char_cnn(ByteAlphabet(max_characters=self.max_characters).num_characters)

    def lstm(self) -> LSTMConfig:
        """Returns the layers; the bias of the forget gate is 1, as bilm-tf's format demands."""
        return LSTMConfig(
            num_layers=self.num_layers,
            cell_dim=self.cell_dim,
            projection_dim=self.projection_dim,
            cell_clip=self.cell_clip,
            projection_clip=self.projection_clip,
            skip_connections=self.skip_connections,
            recurrent_projection=self.cell_dim != self.projection_dim,
            forget_bias=1.0,
        )

    def char_cnn(self, num_characters: int) -> CharCNNConfig:
        """Returns the encoder of words over an alphabet of so many characters."""
        return CharCNNConfig(
            num_characters=num_characters,
            max_characters=self.max_characters,
            embedding_dim=self.character_dim,
            filters=self.filters,
            activation=self.activation,
            num_highway=self.num_highway,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSection(Section):
    """Begin from a trained model instead of a new one (fine-tuning); it is never written to."""

    model: str
    """Directory, zip or tar file of a checkpoint, hub:owner/name, default or zh-hant."""
    softmax: Literal["keep", "new"] = "keep"
    """keep: go on with the model's own words and output layer, and with Adagrad's accumulators if
    it is a training checkpoint of bilm-tf. new: words of data.vocabulary."""
    train_bilm: bool = True
    """Whether the biLM learns too, or the softmax alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveSection(Section):
    """What is minimised: the mean of both directions' cross-entropy."""

    num_negatives: int | None = 8192
    """Sampled words that a step's predictions are compared with; null for the whole vocabulary,
    which is also taken if it has no more words."""
    dropout: float = 0.1
    """Chance of dropping an element of a layer's input, and of the top layer's output."""
    softmax_init: Literal["frequency", "bilm-tf"] = "frequency"
    """frequency: biases start at the logarithm of a word's frequency, weights small. bilm-tf:
    biases at zero, larger weights."""

    def __post_init__(self) -> None:
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout: {self.dropout} must be 0 or more and below 1")
        check_least(1, self, "num_negatives")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerSection(Section):
    """How weights move."""

    name: Literal["adagrad", "adamw"] = "adagrad"
    """adagrad: the paper's, with accumulators that start at 1 and the loss times the window, as in
    bilm-tf. adamw: usually faster for small models."""
    learning_rate: float = 0.2
    """Step size at its highest."""
    warmup_steps: int = 0
    """Steps over which it rises from zero."""
    decay: Literal["constant", "linear", "cosine"] = "constant"
    """How it falls to zero at the end of the run."""
    weight_decay: float = 0.0
    """Pull towards zero (adamw)."""
    clip_norm: float = 10.0
    """Largest norm of all gradients together."""

    def __post_init__(self) -> None:
        check_positive(self, "learning_rate", "clip_norm")
        check_least(0, self, "warmup_steps", "weight_decay")
        if self.weight_decay and self.name == "adagrad":
            raise ConfigError("weight_decay: belongs to adamw; leave it out, or set name to adamw")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSection(Section):
    """How much is done, and what is done along the way."""

    batch_size: int = 128
    """Rows of running text per process."""
    window: int = 20
    """Tokens of a row per step; state is carried from window to window."""
    accumulate: int = 1
    """Windows whose gradients make one step."""
    epochs: float = 10.0
    """Times that the training text is read."""
    steps: int | None = None
    """Steps in all, instead of epochs."""
    evaluate_every: int = 1000
    """Steps between measurements on held-out text; the end of an epoch has one too."""
    checkpoint_every: int = 500
    """Steps between checkpoints."""
    log_every: int = 20
    """Steps between lines of the log."""
    patience: int | None = None
    """Measurements without improvement after which training stops; null to go to the end."""

    def __post_init__(self) -> None:
        check_least(1, self, "batch_size", "window", "accumulate", "steps", "patience")
        check_least(1, self, "evaluate_every", "checkpoint_every", "log_every")
        check_positive(self, "epochs")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig(Section):
    """A training run."""

    run_dir: str
    """Directory of the run: log, checkpoints and the finished model."""
    data: DataSection
    """The text."""
    model: ModelSection = field(default_factory=ModelSection)
    """A new model."""
    start: StartSection | None = None
    """A trained model to begin from; `model` is not used then."""
    objective: ObjectiveSection = field(default_factory=ObjectiveSection)
    """What is minimised."""
    optimizer: OptimizerSection = field(default_factory=OptimizerSection)
    """How weights move."""
    schedule: ScheduleSection = field(default_factory=ScheduleSection)
    """How much is done."""
    seed: int = 0
    """Decides initial weights, order of the text, dropout and sampled words."""
    device: str = "auto"
    """cpu, cuda, ...; auto takes a GPU if there is one."""
    threads: int | None = None
    """CPU threads per process; all cores if null."""
    tensorboard: bool = False
    """Write the log for TensorBoard too, into run_dir/tensorboard."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """bf16 runs matrix products in bfloat16, for GPUs that are faster then."""

    def __post_init__(self) -> None:
        check_least(0, self, "seed")
        check_least(1, self, "threads")
        if self.start is None and self.data.vocabulary is None:
            raise ConfigError(
                "data.vocabulary: a new model needs a word list; make one with elmo vocab"
            )
        if self.start and self.start.softmax == "new" and self.data.vocabulary is None:
            raise ConfigError("data.vocabulary: a new softmax needs a word list")
