"""An index of every token of a corpus: unit vectors of each layer, mapped from disk.

A folder holds `manifest.json`, the corpus as numbers of word types, and two tables for each layer:
float16 for exact cosines, and int8 to find in one pass which rows can be among the nearest.
Layer 0 does not depend on the sentence, so its table has a row for each word type.

Letters: N tokens, U word types, R sentences, D projection width.
"""

import contextlib
import json
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.examples import Array
from elmokit.analysis.nearest import Table
from elmokit.embedding.embedder import Embedder
from elmokit.errors import ConfigError, InputError
from elmokit.tasks.fingerprint import fingerprint

VERSION = 1
MANIFEST, TYPES, TOKENS, OFFSETS = "manifest.json", "types.json", "tokens.npy", "offsets.npy"


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
        self._checked: tuple[weakref.ref[Embedder], int] | None = None
        if not (folder / MANIFEST).is_file():
            raise InputError(
                f"{folder}: is no index; make one with elmo analyze index CORPUS {folder}"
            )
        with self._reading():
            manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            if manifest["version"] != VERSION:
                raise InputError(
                    f"{folder}: is an index of version {manifest['version']}, this elmokit reads "
                    f"{VERSION}; make it anew"
                )
            self._model = manifest["model_name"], manifest["model_sha256"]
            self.layers: tuple[int, ...] = tuple(manifest["layers"])
            self.types: list[str] = json.loads((folder / TYPES).read_text(encoding="utf-8"))
            self._tokens: NDArray[np.int32] = np.load(folder / TOKENS, mmap_mode="r")
            self._offsets: NDArray[np.int64] = np.load(folder / OFFSETS)
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

        A model that was found to be the right one is looked at again only after it has changed.

        Raises:
            ConfigError: The models differ.
        """
        tensors = emb.bilm.network.state_dict().values()
        # torch counts what changes a tensor in place, such as a calibration or a step of training.
        changes = sum(tensor._version for tensor in tensors if not tensor.is_inference())
        checked = weakref.ref(emb), changes
        if checked == self._checked:
            return
        name, digest = self._model
        if fingerprint(emb.bilm) != digest:
            raise ConfigError(
                f"{self.folder}: was made with another model ({name}), not with {emb.bilm.title}; "
                "give that one with --model, or make the index anew"
            )
        self._checked = checked

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
        except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise InputError(f"{self.folder}: damaged ({reason}); make the index anew") from None


def contextual_layers(emb: Embedder) -> tuple[int, ...]:
    """Returns the layers that depend on the sentence; a stacked LSTM gives only one, which does."""
    return tuple(range(min(1, emb.num_outputs - 1), emb.num_outputs))


def static_vectors(emb: Embedder, words: Sequence[str]) -> Array:
    """Returns the context-free vectors of distinct words, (U, D) float32."""
    vectors: Array = emb.type_vectors(words).float().cpu().numpy()
    return vectors
