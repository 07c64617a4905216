"""The layers of a frozen biLM for the sentences of a data set, kept in memory-mapped files.

A file is named by what its vectors depend on: the model, the layers, the number format, and the
sentences in order. It is written beside its place and renamed when it is whole, so that several
runs may share a folder.
"""

import contextlib
import hashlib
import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.embedding.manifest import move_into_place
from elmokit.embedding.schedule import cut_parts
from elmokit.errors import OutputError, disk_mend

logger = logging.getLogger(__name__)

_VERSION = 1
_SECONDS_OF_A_DAY = 86_400.0
_ROWS, _TOKENS = 2_000, 20_000
"""What is held in memory while a file is made."""

Tokens = tuple[str, ...]
Compute = Callable[[Sequence[Sequence[str]]], Iterable[Tensor]]
"""Sentences -> for each its layers, (K, T, 2D)."""


class CachedLayers:
    """Reads layers from a file; sentences that it does not hold are computed."""

    def __init__(self, vectors: NDArray[Any], places: dict[Tokens, int], compute: Compute) -> None:
        """Takes a file that is open.

        Args:
            vectors: (words of all sentences, K, 2D).
            places: Sentence -> its first word.
            compute: What the file was made with.
        """
        self._vectors, self._places, self._compute = vectors, places, compute

    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Returns the layers of each sentence, (K, T, 2D) float32."""
        keys = [tuple(sentence) for sentence in sentences]
        missing = list(dict.fromkeys(key for key in keys if key not in self._places))
        computed = dict(zip(missing, self._compute(missing), strict=True)) if missing else {}
        return [computed[key] if key in computed else self._read(key) for key in keys]

    def _read(self, key: Tokens) -> Tensor:
        start = self._places[key]
        rows = np.array(self._vectors[start : start + len(key)], dtype=np.float32)  # a copy
        return torch.from_numpy(rows).transpose(0, 1)


class LayerCache:
    """A folder of such files, within a limit of space."""

    def __init__(self, directory: Path, *, dtype: str, max_bytes: float) -> None:
        """Prepares to use a folder, which is made when it is needed.

        Args:
            directory: The folder.
            dtype: float32 or float16.
            max_bytes: Space for all files together.
        """
        self._directory, self._dtype, self._max_bytes = directory, np.dtype(dtype), max_bytes

    def open(
        self,
        sentences: Iterable[Sequence[str]],
        compute: Compute,
        *,
        fingerprint: str,
        layers: Sequence[int],
        dim: int,
    ) -> CachedLayers | None:
        """Opens the file of a data set, which is made first if there is none.

        Args:
            sentences: Those of the data set; repeated ones are kept once.
            compute: Makes their layers.
            fingerprint: That of the biLM.
            layers: The K layers that are kept.
            dim: 2D.

        Returns:
            The layers; None if the file would be larger than the whole folder may be.

        Raises:
            OutputError: The folder cannot be written.
        """
        places: dict[Tokens, int] = {}
        num_words = 0
        for sentence in map(tuple, sentences):
            if sentence not in places:
                places[sentence] = num_words
                num_words += len(sentence)
        shape = (num_words, len(layers), dim)
        num_bytes = int(np.prod(shape)) * self._dtype.itemsize
        if num_bytes > self._max_bytes:
            logger.warning(
                "layers of %s words would take %.2f GB, cache.max_gigabytes allows %.2f: they are "
                "computed anew in every epoch; allow more, or set cache.dtype to float16",
                *(f"{num_words:,}", num_bytes / 1e9, self._max_bytes / 1e9),
            )
            return None
        path = self._directory / f"{self._key(places, fingerprint, layers)}.npy"
        try:
            vectors = _opened(path, shape, self._dtype)
            while vectors is None:  # again, if another run needs its room before it is open
                self._directory.mkdir(parents=True, exist_ok=True)
                self._make_room(num_bytes)
                self._write(path, shape, places, compute)
                vectors = _opened(path, shape, self._dtype)
            with contextlib.suppress(FileNotFoundError):  # what is open can be read to the end
                os.utime(path)  # used just now
        except OSError as error:
            raise OutputError(
                f"{self._directory}: layers cannot be kept there ({error.strerror}); "
                f"{disk_mend(error.errno)}, give another cache.directory, or set cache.use to false"
            ) from None
        return CachedLayers(vectors, places, compute)

    def _key(self, places: Iterable[Tokens], fingerprint: str, layers: Sequence[int]) -> str:
        settings = [_VERSION, fingerprint, list(layers), self._dtype.name]
        digest = hashlib.sha256(json.dumps(settings).encode())
        for tokens in places:
            digest.update(json.dumps(tokens).encode())
        return digest.hexdigest()

    def _make_room(self, num_bytes: int) -> None:
        """Removes the files used least recently, and what killed runs left behind."""
        for stat, path in self._files(".*.part"):
            if time.time() - stat.st_mtime > _SECONDS_OF_A_DAY:
                path.unlink(missing_ok=True)
        files = list(self._files("*.npy"))
        total = num_bytes + sum(stat.st_size for stat, _ in files)
        for stat, path in sorted(files, key=lambda entry: entry[0].st_mtime):
            if total <= self._max_bytes:
                return
            path.unlink(missing_ok=True)
            total -= stat.st_size
            logger.info("%s: removed, to make room for other layers", path)

    def _files(self, pattern: str) -> Iterator[tuple[os.stat_result, Path]]:
        """Yields files with their sizes and times; other runs may take one away meanwhile."""
        for path in self._directory.glob(pattern):
            with contextlib.suppress(FileNotFoundError):
                yield path.stat(), path

    def _write(
        self, path: Path, shape: tuple[int, ...], sentences: Iterable[Tokens], compute: Compute
    ) -> None:
        logger.info("computing the layers of %s words once, into %s", f"{shape[0]:,}", path)
        part = path.with_name(f".{path.stem}.{secrets.token_hex(4)}.part")
        try:
            with part.open("wb") as file:
                np.lib.format.write_array_header_1_0(
                    file,
                    {
                        "descr": np.lib.format.dtype_to_descr(self._dtype),
                        "fortran_order": False,
                        "shape": shape,
                    },
                )
                for some in cut_parts(sentences, max_rows=_ROWS, max_tokens=_TOKENS):
                    for layers in compute(some):
                        rows = layers.transpose(0, 1).cpu().numpy().astype(self._dtype)
                        file.write(np.ascontiguousarray(rows).data)
            move_into_place(part, path)
        finally:
            part.unlink(missing_ok=True)


def _opened(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Returns the array in a file, or None if it is missing or not what it should be."""
    with contextlib.suppress(FileNotFoundError, ValueError, EOFError):
        vectors: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        if vectors.shape == shape and vectors.dtype == dtype:
            return vectors
        logger.warning("%s: is damaged and made anew", path)
    return None
