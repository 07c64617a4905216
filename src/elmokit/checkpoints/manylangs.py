"""ELMoForManyLangs directories, which are only read: configurations, dictionaries and two pickles.

Peculiarities that are kept because the published models were trained with them:

- `<bow>` and `<eow>` are swapped: a word is `<eow> c1 .. cn <bow> <pad> ..` in ids.
- A word is cut to its first `max_characters_per_token - 2` characters before its look-up in the
  word list too (token embedder "cnn"; "lstm" does not cut).
- `<pad>` is a character like any other, with a row that is not zero, and the CNN sees it.
- The words `<bos>` and `<eos>`, also in a user's text, are one character between the marks.
- A line of a dictionary is stripped, then split at its tab. A key of white space alone is lost by
  that, and its id is found by U+3000; other white space is unknown.
- Lines of dictionaries end where Python's `codecs` ends them: at U+2028, U+0085 and the like too.
- The bias of the forget gate holds everything: `lstm.forget_bias` is 0.0. Skip connections always.

Left out, because they are accidents that make results unrepeatable: the shuffled order of batches
with carried state, and the unmasked padding of the encoder "lstm".

`config_path` in config.json often leads to the computer of the model's author. The file is looked
for there, then by its name beside the model, then among those that the program shipped.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from elmokit.characters import UnicodeAlphabet
from elmokit.checkpoints import layout, pickles, table
from elmokit.checkpoints.checkpoint import Checkpoint
from elmokit.checkpoints.files import Finding, foreign_names, parse_block, read_json, read_text
from elmokit.checkpoints.table import ZERO_ROW, Row, row
from elmokit.config import BiLMConfig, Card, CharCNNConfig, LSTMConfig, WordEmbeddingConfig
from elmokit.errors import CheckpointError
from elmokit.vocabulary import InputWords

CONFIG, TOKEN_EMBEDDER, ENCODER = "config.json", "token_embedder.pkl", "encoder.pkl"
CHARACTERS, WORDS = "char.dic", "word.dic"

_CHARACTER_TABLE = "char_emb_layer.embedding.weight"
_WORD_TABLE = "word_emb_layer.embedding.weight"

_SPECIAL = {
    "characters": ("<bos>", "<eos>", "<bow>", "<eow>", "<oov>", "<pad>"),
    "words": ("<bos>", "<eos>", "<oov>"),
}
"""Entries that a dictionary must have."""


_ENCODER_NAMES = {
    "num_layers": "n_layers",
    "cell_dim": "dim",
    "projection_clip": "proj_clip",
}
_EMBEDDER_NAMES = {
    "max_characters": "max_characters_per_token",
    "num_highway": "n_highway",
    "characters": "char_dim",
    "words": "word_dim",
}
"""Our names of fields -> those of the block; the others are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Encoder:
    name: str
    dim: int
    projection_dim: int
    n_layers: int
    cell_clip: float | None = None
    proj_clip: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _TokenEmbedder:
    name: str
    word_dim: int
    char_dim: int
    max_characters_per_token: int | None = None
    filters: tuple[tuple[int, int], ...] = ()
    n_highway: int = 0
    activation: Literal["relu", "tanh"] = "relu"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Network:
    """The configuration of a network, and where it comes from."""

    source: str
    encoder: _Encoder
    token_embedder: _TokenEmbedder


def _shipped(*, char_dim: int, word_dim: int) -> dict[str, Any]:
    """A configuration as ELMoForManyLangs shipped it; its name gives these two widths."""
    return {
        "encoder": {
            "name": "elmo",
            "projection_dim": 512,
            "cell_clip": 3,
            "proj_clip": 3,
            "dim": 4096,
            "n_layers": 2,
        },
        "token_embedder": {
            "name": "cnn",
            "activation": "relu",
            "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
            "n_highway": 2,
            "word_dim": word_dim,
            "char_dim": char_dim,
            "max_characters_per_token": 50,
        },
    }


SHIPPED = {
    "cnn_50_100_512_4096_sample.json": _shipped(char_dim=50, word_dim=100),
    "cnn_0_100_512_4096_sample.json": _shipped(char_dim=0, word_dim=100),
}
"""The configurations that published models name, by file name."""


def find(directory: Path) -> Finding:
    """Finds the files of a model in this format, or what is missing of them."""
    roles = {"config": CONFIG, "token_embedder": TOKEN_EMBEDDER, "encoder": ENCODER}
    files = {role: directory / name for role, name in roles.items()}
    if lacks := [path.name for path in files.values() if not path.is_file()]:
        return Finding(files, tuple(lacks))
    config_path = read_json(files["config"]).get("config_path")
    if not isinstance(config_path, str) or not _base_name(config_path):
        return Finding(files, (f"the field config_path in {CONFIG}",))
    places = (directory / config_path, directory / _base_name(config_path))
    network = next((place for place in places if place.is_file()), None)
    if network is not None:
        files["network"] = network
    elif _base_name(config_path) not in SHIPPED:
        return Finding(files, (f"{_base_name(config_path)} (config_path of {CONFIG})",))
    embedder = _read_network(files).token_embedder
    for role, name, width in (
        ("characters", CHARACTERS, embedder.char_dim),
        ("words", WORDS, embedder.word_dim),
    ):
        if width > 0:
            files[role] = directory / name
            lacks += [] if files[role].is_file() else [name]
    return Finding(files, tuple(lacks))


def read(files: Mapping[str, Path]) -> Checkpoint:
    """Reads a model.

    Args:
        files: Role -> file, from `find`.

    Raises:
        CheckpointError: A file is damaged or holds more than tensors, or two files contradict.
        ConfigError: A field of the network's configuration is missing or wrong.
    """
    network = _read_network(files)
    embedder, encoder = pickles.read(files["token_embedder"]), pickles.read(files["encoder"])
    characters = _read_dictionary(files, "characters", embedder.get(_CHARACTER_TABLE))
    words = _read_dictionary(files, "words", embedder.get(_WORD_TABLE))
    config = _config(network, len(characters), len(words))
    block = f"{network.source}: token_embedder"
    with foreign_names(block, _EMBEDDER_NAMES):
        alphabet = _alphabet(characters, config.characters) if config.characters else None
    with foreign_names(block, {"max_characters": "max_characters_per_token - 2"}):
        input_words = _input_words(words, network.token_embedder) if config.words else None
    tensors = layout.zero_state(config.lstm)
    for role, rows, found in (
        ("token_embedder", _embedder_table(config), embedder),
        ("encoder", _encoder_table(config.lstm), encoder),
    ):
        where = str(files[role])
        table.account(table.expected(rows), table.stored(found), where=where, reason=network.source)
        tensors |= table.import_tensors(rows, found.__getitem__, where=where)
    return Checkpoint(
        config=config,
        tensors=tensors,
        alphabet=alphabet,
        words=input_words,
        card=Card(provenance=f"ELMoForManyLangs ({TOKEN_EMBEDDER}, {ENCODER})"),
    )


def _base_name(config_path: str) -> str:
    return re.split(r"[/\\]", config_path)[-1]


def _read_network(files: Mapping[str, Path]) -> _Network:
    if "network" in files:
        source = str(files["network"])
        data = read_json(files["network"])
    else:
        source = _base_name(read_json(files["config"])["config_path"])
        data = SHIPPED[source]
    network = _Network(
        source=source,
        encoder=parse_block(_Encoder, data.get("encoder"), f"{source}: encoder"),
        token_embedder=parse_block(
            _TokenEmbedder, data.get("token_embedder"), f"{source}: token_embedder"
        ),
    )
    embedder = network.token_embedder
    if network.encoder.name.lower() not in ("elmo", "lstm"):
        raise CheckpointError(
            f"{source}: encoder: name: {network.encoder.name!r} is neither 'elmo' nor 'lstm'"
        )
    if embedder.name.lower() not in ("cnn", "lstm"):
        raise CheckpointError(
            f"{source}: token_embedder: name: {embedder.name!r} is neither 'cnn' nor 'lstm'"
        )
    if embedder.name.lower() == "lstm" and embedder.char_dim > 0:
        raise CheckpointError(
            f"{source}: token_embedder: an 'lstm' over characters is not read; ELMoForManyLangs "
            "itself fails to run such a model"
        )
    if embedder.name.lower() == "cnn" and embedder.max_characters_per_token is None:
        raise CheckpointError(
            f"{source}: token_embedder: field 'max_characters_per_token' is missing"
        )
    return network


def _config(network: _Network, num_characters: int, num_words: int) -> BiLMConfig:
    encoder, embedder = network.encoder, network.token_embedder
    stacked = encoder.name.lower() == "lstm"
    with foreign_names(f"{network.source}: encoder", _ENCODER_NAMES):
        lstm = LSTMConfig(
            kind="stacked" if stacked else "projected",
            num_layers=encoder.n_layers,
            cell_dim=encoder.dim,
            projection_dim=encoder.projection_dim,
            cell_clip=None if stacked else encoder.cell_clip or None,
            projection_clip=None if stacked else encoder.proj_clip or None,
            skip_connections=not stacked,
        )
    characters = words = None
    with foreign_names(f"{network.source}: token_embedder", _EMBEDDER_NAMES):
        if embedder.char_dim > 0:
            characters = CharCNNConfig(
                num_characters=num_characters,
                max_characters=embedder.max_characters_per_token or 0,
                embedding_dim=embedder.char_dim,
                filters=embedder.filters,
                activation=embedder.activation,
                num_highway=embedder.n_highway,
            )
        if embedder.word_dim > 0:
            words = WordEmbeddingConfig(num_words=num_words, embedding_dim=embedder.word_dim)
        return BiLMConfig(lstm=lstm, characters=characters, words=words)


def _embedder_table(config: BiLMConfig) -> list[Row]:
    """The table of token_embedder.pkl, whose dictionaries' row i is id i + 1."""
    shapes = layout.shapes(config)
    rows = []
    for native, foreign in (
        (f"{layout.CHARACTERS}.embedding.weight", _CHARACTER_TABLE),
        (layout.WORDS, _WORD_TABLE),
    ):
        if native in shapes:
            entries, width = shapes[native]
            rows.append(row(native, foreign, (entries - 1, width), ZERO_ROW))
    cnn = config.characters
    names = [("projection", layout.PROJECTION)]
    for i in range(len(cnn.filters) if cnn else 0):
        names.append((f"convolutions.{i}", f"{layout.CHARACTERS}.convolutions.{i}"))
    for k in range(cnn.num_highway if cnn else 0):
        names.append((f"highways._layers.{k}", f"{layout.CHARACTERS}.highways.{k}"))
    for foreign, native in names:
        for part in ("weight", "bias"):
            rows.append(row(f"{native}.{part}", f"{foreign}.{part}", shapes[f"{native}.{part}"]))
    return rows


def _encoder_table(lstm: LSTMConfig) -> list[Row]:
    """The table of encoder.pkl."""
    if lstm.kind == "stacked":
        return [
            row(f"{layout.STACKED}.{n}", n, shape)
            for n, shape in layout.stacked_shapes(lstm).items()
        ]
    rows = []
    for native, foreign, shape in (
        ("input_weight", "input_linearity.weight", (4 * lstm.cell_dim, lstm.projection_dim)),
        ("recurrent_weight", "state_linearity.weight", (4 * lstm.cell_dim, lstm.projection_dim)),
        ("bias", "state_linearity.bias", (4 * lstm.cell_dim,)),
        ("projection", "state_projection.weight", (lstm.projection_dim, lstm.cell_dim)),
    ):
        for direction in layout.DIRECTIONS:
            for index in range(lstm.num_layers):
                prefix = layout.layer(direction, index)
                rows.append(
                    row(f"{prefix}.{native}", f"{direction}_layer_{index}.{foreign}", shape)
                )
    return rows


def _read_dictionary(files: Mapping[str, Path], role: str, weight: Tensor | None) -> dict[str, int]:
    """Reads token -> id and checks that each row of the table is named once.

    A line has a token, a tab and an id; see the rules at the top. Without the file there are none.
    """
    if role not in files:
        return {}
    path = files[role]
    entries: dict[str, int] = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        *token, position = line.strip().split("\t")
        if not token and not position:
            continue  # what is left of a key that ends lines itself
        try:
            (key,) = token or ("\u3000",)
            entries[key] = int(position)
        except ValueError:
            raise CheckpointError(
                f"{path}, line {number}: expected a token, a tab and an id, found {line!r}"
            ) from None
    if weight is not None and weight.ndim > 0 and len(weight) != len(entries):
        raise CheckpointError(
            f"{path} has {len(entries)} entries, the table in {files['token_embedder']} has "
            f"{len(weight)} rows; the two belong to different models: fetch both from one place"
        )
    if sorted(entries.values()) != list(range(len(entries))):
        raise CheckpointError(
            f"{path}: the ids of its {len(entries)} entries are not 0 to {len(entries) - 1} and "
            "each once; the file is damaged or not of this model"
        )
    if missing := [name for name in _SPECIAL[role] if name not in entries]:
        raise CheckpointError(f"{path}: {', '.join(missing)} must be listed and is not")
    return entries


def _alphabet(entries: Mapping[str, int], cnn: CharCNNConfig) -> UnicodeAlphabet:
    ids = {key: i + 1 for key, i in entries.items()}
    return UnicodeAlphabet(
        characters={key: i for key, i in ids.items() if len(key) == 1},
        begin_word=ids["<eow>"],  # swapped, as in training
        end_word=ids["<bow>"],
        unknown=ids["<oov>"],
        padding=ids["<pad>"],
        boundaries={name: ids[name] for name in ("<bos>", "<eos>")},
        num_characters=cnn.num_characters,
        max_characters=cnn.max_characters,
    )


def _input_words(entries: Mapping[str, int], embedder: _TokenEmbedder) -> InputWords:
    limit = embedder.max_characters_per_token if embedder.name.lower() == "cnn" else None
    return InputWords(
        words=tuple(sorted(entries, key=entries.__getitem__)),
        begin="<bos>",
        end="<eos>",
        unknown="<oov>",
        max_characters=None if limit is None else limit - 2,
    )
