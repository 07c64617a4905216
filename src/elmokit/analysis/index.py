"""An index of every token of a corpus: unit vectors of each layer, mapped from disk.

A folder holds `manifest.json`, the corpus as numbers of word types, and two tables for each layer:
float16 for exact cosines, and int8 to find in one pass which rows can be among the nearest.
Layer 0 does not depend on the sentence, so its table has a row for each word type.

Letters: N tokens, U word types, R sentences, D projection width.
"""

import contextlib
import itertools
import json
import logging
import shutil
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.examples import Array, unit
from elmokit.analysis.nearest import Table, TableWriter
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.manifest import sync_directory, write_atomically
from elmokit.embedding.place import disk_errors
from elmokit.embedding.progress import Progress
from elmokit.errors import ConfigError, InputError, OutputError
from elmokit.tasks.fingerprint import fingerprint

logger = logging.getLogger(__name__)

_VERSION = 1
_MANIFEST, _TYPES, _TOKENS, _OFFSETS = "manifest.json", "types.json", "tokens.npy", "offsets.npy"
_TYPES_AT_ONCE = 4_096


def build_index(
    emb: Embedder,
    sentences: Iterable[Sequence[str]],
    folder: Path,
    *,
    overwrite: bool = False,
) -> "Index":
    """Embeds a corpus and writes its index, whole or not at all.

    Args:
        emb: The model, with state fresh.
        sentences: The corpus; its words are kept in memory, as numbers.
        folder: The folder to make.
        overwrite: Replace an index that is there.

    Raises:
        OutputError: The folder is taken, or the disk is full.
        InputError: There is no token.
    """
    check_index_place(folder, overwrite=overwrite)
    types: dict[str, int] = {}
    tokens, offsets = array("i"), array("q", [0])
    for sentence in sentences:
        tokens.extend(types.setdefault(word, len(types)) for word in sentence)
        offsets.append(len(tokens))
    if not tokens:
        raise InputError("index: the corpus holds not a single token")
    part = folder.with_name(f"{folder.name}.part")
    with disk_errors(folder, "or give another folder"):
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        try:
            _write(emb, list(types), np.array(tokens), np.array(offsets), part)
            if folder.exists():
                shutil.rmtree(folder)
            part.rename(folder)
            sync_directory(folder.parent)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return Index(folder)


def check_index_place(folder: Path, *, overwrite: bool) -> None:
    """Refuses a place for an index before anything is computed.

    Raises:
        OutputError: Something is there that is no index, or an index that may not be replaced.
    """
    if not folder.parent.is_dir():
        raise OutputError(f"{folder}: there is no folder {folder.parent}; create it first")
    if not folder.exists() and not folder.is_symlink():
        return
    if not (folder / _MANIFEST).is_file():
        raise OutputError(f"{folder}: is in the way, and is no index; give another folder")
    if not overwrite:
        raise OutputError(f"{folder}: exists; use --overwrite to make it again, or another folder")


class Index:
    """An index that was built.

    Attributes:
        folder: Where it is.
        layers: The layers that depend on the sentence, by number.
        types: The U word types.
    """

    def __init__(self, folder: Path) -> None:
        """Opens an index; its tables are mapped, not read.

        Raises:
            InputError: There is none, or it is damaged.
        """
        self.folder = folder
        try:
            manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(
                f"{folder}: is no index; make one with elmo analyze index CORPUS {folder}"
            ) from None
        with self._reading():
            if manifest["version"] != _VERSION:
                raise InputError(
                    f"{folder}: is an index of version {manifest['version']}, this elmokit reads "
                    f"{_VERSION}; make it anew"
                )
            self._manifest: dict[str, Any] = manifest
            self.layers: tuple[int, ...] = tuple(manifest["layers"])
            self.types: list[str] = json.loads((folder / _TYPES).read_text(encoding="utf-8"))
            self._tokens: NDArray[np.int32] = np.load(folder / _TOKENS, mmap_mode="r")
            self._offsets: NDArray[np.int64] = np.load(folder / _OFFSETS)
            self._static = Table(folder, "types", manifest["errors"]["types"])
            self._tables = {
                layer: Table(folder, f"layer{layer}", manifest["errors"][f"layer{layer}"])
                for layer in self.layers
            }
            rows = [len(self._tokens), *(len(table) for table in self._tables.values())]
            if {*rows, manifest["tokens"], self._offsets[-1]} != {manifest["tokens"]}:
                raise ValueError("its tables have other lengths than its manifest says")

    @property
    def num_tokens(self) -> int:
        """N."""
        return len(self._tokens)

    @property
    def num_sentences(self) -> int:
        """R."""
        return len(self._offsets) - 1

    def check_model(self, emb: Embedder) -> None:
        """Refuses a model other than the one that the index was made with.

        Raises:
            ConfigError: The models differ.
        """
        if fingerprint(emb.bilm) != self._manifest["model_sha256"]:
            raise ConfigError(
                f"{self.folder}: was made with another model ({self._manifest['model_name']}), not "
                f"with {emb.bilm.title}; give that one with --model, or make the index anew"
            )

    def nearest(self, layer: int, vector: Array, k: int) -> list[tuple[int, float]]:
        """Finds the k tokens nearest to a vector (2D,) in a layer: places and cosines."""
        with self._reading():
            return self._tables[layer].nearest(vector, k)

    def nearest_types(self, vector: Array, k: int) -> list[tuple[str, float]]:
        """Finds the k word types nearest to a context-free vector (D,): words and cosines."""
        with self._reading():
            found = self._static.nearest(vector, k)
        return [(self.types[place], cosine) for place, cosine in found]

    def sentence(self, token: int) -> tuple[int, tuple[str, ...], int]:
        """Returns the sentence of a token: its number, its words, and the token's place in it."""
        row = int(np.searchsorted(self._offsets, token, side="right")) - 1
        start, end = self._offsets[row : row + 2].tolist()
        return row, tuple(self.types[i] for i in self._tokens[start:end]), token - start

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except InputError:
            raise
        except (OSError, ValueError, LookupError, TypeError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise InputError(f"{self.folder}: damaged ({reason}); make the index anew") from None


def contextual_layers(emb: Embedder) -> tuple[int, ...]:
    """Returns the layers that depend on the sentence; a stacked LSTM gives only one, which does."""
    return tuple(range(min(1, emb.num_outputs - 1), emb.num_outputs))


def static_vectors(emb: Embedder, words: Sequence[str]) -> Array:
    """Returns the context-free vectors of distinct words, (U, D) float32."""
    vectors: Array = emb.type_vectors(words).float().cpu().numpy()
    return vectors


def _write(
    emb: Embedder,
    types: list[str],
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    folder: Path,
) -> None:
    layers = contextual_layers(emb)
    np.save(folder / _TOKENS, tokens)
    np.save(folder / _OFFSETS, offsets)
    write_atomically(folder / _TYPES, json.dumps(types).encode())
    errors = {"types": _write_types(emb, types, folder)}
    writers = [TableWriter(folder, f"layer{i}", (len(tokens), emb.dim)) for i in layers]
    sentences = (
        [types[i] for i in tokens[start:end]] for start, end in itertools.pairwise(offsets)
    )
    with Progress(len(tokens)) as progress:
        for vectors in emb.stream(sentences, layers):  # (K, T, 2D)
            for writer, rows in zip(writers, vectors, strict=True):
                writer.add(unit(rows))
            progress.advance(vectors.shape[1])
    errors |= {
        f"layer{layer}": writer.close() for layer, writer in zip(layers, writers, strict=True)
    }
    manifest = {
        "version": _VERSION,
        "model_name": emb.bilm.title,
        "model_sha256": fingerprint(emb.bilm),
        "layers": layers,
        "dim": emb.dim,
        "sentences": len(offsets) - 1,
        "tokens": len(tokens),
        "types": len(types),
        "errors": errors,
    }
    write_atomically(folder / _MANIFEST, json.dumps(manifest, indent=1).encode())


def _write_types(emb: Embedder, types: Sequence[str], folder: Path) -> float:
    width = emb.bilm.config.lstm.projection_dim
    writer = TableWriter(folder, "types", (len(types), width))
    for start in range(0, len(types), _TYPES_AT_ONCE):
        writer.add(unit(static_vectors(emb, types[start : start + _TYPES_AT_ONCE])))
    return writer.close()
