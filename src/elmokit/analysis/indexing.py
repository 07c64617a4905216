"""Building an index of every token of a corpus; what is cut off goes on where it was."""

import errno
import hashlib
import itertools
import json
import logging
import re
import shutil
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.examples import unit
from elmokit.analysis.index import (
    MANIFEST,
    OFFSETS,
    TOKENS,
    TYPES,
    VERSION,
    Index,
    contextual_layers,
    static_vectors,
)
from elmokit.analysis.nearest import TableWriter, is_table, mapped
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.manifest import sync_directory, write_atomically
from elmokit.embedding.place import LOCK, claim, disk_errors, parts_directory
from elmokit.embedding.progress import Progress
from elmokit.errors import InputError, OutputError
from elmokit.tasks.fingerprint import fingerprint

logger = logging.getLogger(__name__)

_BEGUN = "begun.json"
"""In the folder of an unfinished index: what it is of, and how far it is."""
_REPLACED = "replaced"
"""There too: the index that it takes the place of."""
_OWN = re.compile(
    rf"({_BEGUN}|{MANIFEST}|{TYPES})(\.tmp)?|{TOKENS}|{OFFSETS}|{LOCK}|{_REPLACED}|"
    r"(types|layer\d+)\.(float16|int8|steps)\.npy"
)
"""Files in that folder."""
_TYPES_AT_ONCE = 4_096
_SENTENCES_AT_ONCE = 10_000
"""After so many the tables are brought to disk, and count as done."""


@dataclass(frozen=True, slots=True)
class _Corpus:
    """A corpus as numbers."""

    types: list[str]
    """U word types."""
    tokens: NDArray[np.int32]
    """(N,)"""
    offsets: NDArray[np.int64]
    """(R + 1,) where each sentence begins, and the end."""

    @classmethod
    def read(cls, sentences: Iterable[Sequence[str]]) -> "_Corpus":
        types: dict[str, int] = {}
        tokens, offsets = array("i"), array("q", [0])
        for sentence in sentences:
            tokens.extend(types.setdefault(word, len(types)) for word in sentence)
            offsets.append(len(tokens))
        if not tokens:
            raise InputError("index: the corpus holds not a single token")
        return cls(list(types), np.array(tokens), np.array(offsets))

    def sentences(self, first: int) -> Iterator[list[str]]:
        for start, end in itertools.pairwise(self.offsets[first:]):
            yield [self.types[i] for i in self.tokens[start:end]]

    def digest(self) -> str:
        digest = hashlib.sha256(json.dumps(self.types).encode())
        digest.update(self.tokens.data)
        digest.update(self.offsets.data)
        return digest.hexdigest()


@dataclass(slots=True)
class _Begun:
    """How far an unfinished index is."""

    of: str
    """Digest of what decides its content: corpus, model, precision, layout."""
    model_sha256: str
    sentences: int = 0
    errors: dict[str, float] = field(default_factory=dict)
    """Of the tables of the layers; see `TableWriter`."""

    @classmethod
    def load(cls, part: Path, corpus: _Corpus, emb: Embedder) -> "_Begun":
        """Returns what an earlier call left of the same index, or a beginning."""
        model = fingerprint(emb.bilm)
        decisive = [VERSION, corpus.digest(), model, emb.precision]
        fresh = cls(hashlib.sha256(json.dumps(decisive).encode()).hexdigest(), model)
        try:
            found = cls(**json.loads((part / _BEGUN).read_text(encoding="utf-8")))
            layers = [f"layer{i}" for i in contextual_layers(emb)]
            shape = (len(corpus.tokens), emb.dim)
            fits = (
                (found.of, found.model_sha256) == (fresh.of, fresh.model_sha256)
                and found.sentences in range(len(corpus.offsets))
                and [type(found.errors[name]) for name in layers] == [float] * len(layers)
                and all(is_table(part, name, shape) for name in layers)
            )
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            fits = False
        return found if fits else fresh

    def save(self, part: Path) -> None:
        content = {name: getattr(self, name) for name in self.__slots__}
        write_atomically(part / _BEGUN, json.dumps(content).encode())


def build_index(
    emb: Embedder,
    sentences: Iterable[Sequence[str]],
    folder: Path,
    *,
    overwrite: bool = False,
) -> Index:
    """Embeds a corpus and writes its index, whole or not at all.

    What is cut off stays in a folder beside, `NAME.parts`; the next call with the same corpus and
    model goes on with it.

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
    corpus = _Corpus.read(sentences)
    with disk_errors(folder, "or give another folder"):
        folder = folder.resolve()
        part = parts_directory(folder)
        with claim(folder):
            _bring_back(part, folder)
            check_index_place(folder, overwrite=overwrite)  # an index may be there now
            try:
                _write(emb, corpus, _Begun.load(part, corpus, emb), part)
                _put_in_place(part, folder)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):  # the disk may be full of it
                    _bring_back(part, folder)
                    shutil.rmtree(part, ignore_errors=True)
                raise
    return Index(folder)


def _put_in_place(part: Path, folder: Path) -> None:
    """Makes a finished part the index; the one before goes only then (see `_bring_back`)."""
    if folder.exists():
        folder.rename(part / _REPLACED)
    part.rename(folder)
    sync_directory(folder.parent)
    for name in (_BEGUN, LOCK):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / _REPLACED, ignore_errors=True)


def _bring_back(part: Path, folder: Path) -> None:
    """Brings back the index that was being replaced when a build ended between two renames."""
    replaced = part / _REPLACED
    if not replaced.exists():
        return
    if folder.exists():
        shutil.rmtree(replaced)
    else:
        replaced.rename(folder)


def check_index_place(folder: Path, *, overwrite: bool) -> None:
    """Refuses a place for an index before anything is computed.

    Raises:
        OutputError: Something is there that is no index, or an index that may not be replaced.
    """
    if not folder.parent.is_dir():
        raise OutputError(f"{folder}: there is no folder {folder.parent}; create it first")
    part = parts_directory(folder.resolve())
    if part.is_dir() and (others := [x.name for x in part.iterdir() if not _OWN.fullmatch(x.name)]):
        raise OutputError(f"{part}: is needed, but holds {others[0]}; give another folder")
    if not folder.exists() and not folder.is_symlink():
        return
    if not (folder / MANIFEST).is_file():
        raise OutputError(f"{folder}: is in the way, and is no index; give another folder")
    if not overwrite:
        raise OutputError(f"{folder}: exists; use --overwrite to make it again, or another folder")


def _write(emb: Embedder, corpus: _Corpus, begun: _Begun, part: Path) -> None:
    if not begun.sentences:
        for path in part.iterdir():
            if path.name != LOCK:
                path.unlink()
    mapped(part / TOKENS, np.int32, corpus.tokens.shape)[:] = corpus.tokens
    mapped(part / OFFSETS, np.int64, corpus.offsets.shape)[:] = corpus.offsets
    write_atomically(part / TYPES, json.dumps(corpus.types).encode())
    errors = {"types": _write_types(emb, corpus.types, part)}
    errors |= _write_layers(emb, corpus, begun, part)
    manifest = {
        "version": VERSION,
        "model_name": emb.bilm.title,
        "model_sha256": begun.model_sha256,
        "layers": contextual_layers(emb),
        "dim": emb.dim,
        "sentences": len(corpus.offsets) - 1,
        "tokens": len(corpus.tokens),
        "types": len(corpus.types),
        "errors": errors,
    }
    write_atomically(part / MANIFEST, json.dumps(manifest, indent=1).encode())


def _write_layers(emb: Embedder, corpus: _Corpus, begun: _Begun, part: Path) -> dict[str, float]:
    """Writes the tables of the layers from where they were cut off; returns their errors."""
    layers = contextual_layers(emb)
    shape, done = (len(corpus.tokens), emb.dim), int(corpus.offsets[begun.sentences])
    if done:
        logger.info("%s: %s tokens are done; going on", part, f"{done:,}")
    writers = {
        f"layer{i}": TableWriter(part, f"layer{i}", shape, done, begun.errors.get(f"layer{i}", 0.0))
        for i in layers
    }

    def mark() -> None:
        begun.errors = {name: writer.flush() for name, writer in writers.items()}
        begun.save(part)

    with Progress(len(corpus.tokens), done) as progress:
        try:
            for vectors in emb.stream(corpus.sentences(begun.sentences), layers):  # (K, T, 2D)
                for writer, rows in zip(writers.values(), vectors, strict=True):
                    writer.add(unit(rows))
                progress.advance(vectors.shape[1])
                begun.sentences += 1
                if begun.sentences % _SENTENCES_AT_ONCE == 0:
                    mark()
        except KeyboardInterrupt:
            mark()
            kept = f"{begun.sentences:,}"
            logger.info("%s: %s sentences are kept; the same command goes on", part, kept)
            raise
    return {name: writer.close() for name, writer in writers.items()}


def _write_types(emb: Embedder, types: Sequence[str], folder: Path) -> float:
    width = emb.bilm.config.lstm.projection_dim
    writer = TableWriter(folder, "types", (len(types), width))
    for start in range(0, len(types), _TYPES_AT_ONCE):
        writer.add(unit(static_vectors(emb, types[start : start + _TYPES_AT_ONCE])))
    return writer.close()
