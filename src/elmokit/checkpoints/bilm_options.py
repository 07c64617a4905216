"""The options.json of bilm-tf: what it says of a model's shape, read and written.

Keys that only steer training (`n_train_tokens`, `dropout`, `unroll_steps`, ..) are not looked at.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from elmokit.characters import MAX_CHARACTERS
from elmokit.checkpoints.files import foreign_names, parse_block, read_json
from elmokit.config import BiLMConfig, CharCNNConfig, LSTMConfig, WordEmbeddingConfig
from elmokit.errors import CheckpointError

FORGET_BIAS = 1.0
"""What TensorFlow's LSTMCell adds to the forget gate when it runs."""


_LSTM_NAMES = {
    "num_layers": "n_layers",
    "cell_dim": "dim",
    "projection_clip": "proj_clip",
    "skip_connections": "use_skip_connections",
}
_CHAR_CNN_NAMES = {
    "num_characters": "n_characters",
    "max_characters": "max_characters_per_token",
    "embedding_dim": "embedding: dim",
    "num_highway": "n_highway",
}
"""Our names of fields -> those of the block; the others are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LSTMOptions:
    """The block `lstm`."""

    dim: int
    projection_dim: int
    n_layers: int = 1
    cell_clip: float | None = None
    proj_clip: float | None = None
    use_skip_connections: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingOptions:
    """The block `char_cnn.embedding`."""

    dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CharCNNOptions:
    """The block `char_cnn`."""

    embedding: EmbeddingOptions
    filters: tuple[tuple[int, int], ...]
    activation: Literal["relu", "tanh"]
    n_highway: int | None = None
    n_characters: int | None = None
    max_characters_per_token: int = MAX_CHARACTERS

    @property
    def num_filters(self) -> int:
        """Filters of all widths together."""
        return sum(count for _, count in self.filters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """An options file, as far as it decides the model's shape."""

    path: Path
    lstm: LSTMOptions
    char_cnn: CharCNNOptions | None

    def config(
        self,
        *,
        table_rows: int,
        token_projection: bool,
        recurrent_projection: bool,
        softmax_words: int | None = None,
    ) -> BiLMConfig:
        """Returns the configuration of the model.

        Args:
            table_rows: Rows of the table of characters, or of words if there is no `char_cnn`.
            token_projection: Whether a projection of the tokens is stored.
            recurrent_projection: Whether a projection of the cells is stored.
            softmax_words: Words of the softmax, if it is stored.

        Raises:
            CheckpointError: A value makes no sense; the message names the file and the field.
        """
        with foreign_names(f"{self.path}: lstm", _LSTM_NAMES):
            lstm = self._lstm(recurrent_projection)
        with foreign_names(f"{self.path}: char_cnn", _CHAR_CNN_NAMES):
            characters = self._characters(table_rows)
        with foreign_names(str(self.path), {}):
            return BiLMConfig(
                lstm=lstm,
                characters=characters,
                words=None if self.char_cnn else self._words(table_rows),
                token_projection=self.char_cnn is not None
                and (token_projection or self.char_cnn.num_filters != self.lstm.projection_dim),
                softmax_words=softmax_words,
            )

    def _lstm(self, recurrent_projection: bool) -> LSTMConfig:
        lstm = self.lstm
        return LSTMConfig(
            num_layers=lstm.n_layers,
            cell_dim=lstm.dim,
            projection_dim=lstm.projection_dim,
            cell_clip=lstm.cell_clip or None,
            projection_clip=lstm.proj_clip or None,
            skip_connections=lstm.use_skip_connections,
            recurrent_projection=recurrent_projection or lstm.dim != lstm.projection_dim,
            forget_bias=FORGET_BIAS,
        )

    def _characters(self, rows: int) -> CharCNNConfig | None:
        cnn = self.char_cnn
        if cnn is None:
            return None
        return CharCNNConfig(
            num_characters=rows,
            max_characters=cnn.max_characters_per_token,
            embedding_dim=cnn.embedding.dim,
            filters=cnn.filters,
            activation=cnn.activation,
            num_highway=cnn.n_highway or 0,
        )

    def _words(self, rows: int) -> WordEmbeddingConfig:
        return WordEmbeddingConfig(num_words=rows, embedding_dim=self.lstm.projection_dim)


def read_options(path: Path) -> Options:
    """Reads an options file.

    Raises:
        CheckpointError: The file is missing or no JSON object.
        ConfigError: A field is missing or of a wrong type.
    """
    data = read_json(path)
    cnn = None
    if data.get("char_cnn") is not None:
        cnn = parse_block(CharCNNOptions, data["char_cnn"], f"{path}: char_cnn")
    if "lstm" not in data:
        raise CheckpointError(
            f"{path}: lstm: the block is missing; this is no options file of a biLM"
        )
    return Options(
        path=path, lstm=parse_block(LSTMOptions, data["lstm"], f"{path}: lstm"), char_cnn=cnn
    )


def options_of(config: BiLMConfig) -> dict[str, Any]:
    """Returns the content of an options file for a model of this format."""
    lstm = config.lstm
    options: dict[str, Any] = {
        "lstm": {
            "use_skip_connections": lstm.skip_connections,
            "projection_dim": lstm.projection_dim,
            "cell_clip": lstm.cell_clip,
            "proj_clip": lstm.projection_clip,
            "dim": lstm.cell_dim,
            "n_layers": lstm.num_layers,
        }
    }
    if config.characters:
        cnn = config.characters
        options["char_cnn"] = {
            "activation": cnn.activation,
            "embedding": {"dim": cnn.embedding_dim},
            "filters": [list(pair) for pair in cnn.filters],
            "n_highway": cnn.num_highway,
            "n_characters": cnn.num_characters + 1,  # as inference expects it
            "max_characters_per_token": cnn.max_characters,
        }
    return options
