"""One door to all checkpoint formats: detect, read, describe, write and convert."""

import contextlib
import os
import secrets
import shutil
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from elmokit.checkpoints import allennlp, manylangs, native, tensorflow
from elmokit.checkpoints.checkpoint import Checkpoint
from elmokit.checkpoints.files import Finding, candidates, expanded, reason
from elmokit.checkpoints.source import locate, opened
from elmokit.config import nearest
from elmokit.errors import CheckpointError, ConfigError, disk_mend

_PARTS = (
    ["*.safetensors", "*.hdf5", "*.h5", "*.pkl", "*.dic", "*.index", "*options*.json", "*vocab*"],
)
"""Names of files that could be parts of a model."""

StoredDtype = Literal["float32", "float16"]
"""Number format of the weights in a file; in memory they are float32."""

_PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A checkpoint format."""

    name: str
    """What `convert` and messages call it."""
    find: Callable[[Path], Finding]
    """Directory -> the files of a model, or what is missing of them."""
    read: Callable[[Mapping[str, Path]], Checkpoint]
    """Files, by the roles that `find` gives -> the model."""
    write: Callable[[Checkpoint, Path], None] | None = None
    """Writes a model into an empty directory; None for a format that is only read."""


FORMATS = (
    Format(name="native", find=native.find, read=native.read, write=native.write),
    Format(name="manylangs", find=manylangs.find, read=manylangs.read),
    # Before the HDF5 weights that may lie beside it: those have no softmax.
    Format(name="tensorflow", find=tensorflow.find, read=tensorflow.read),
    Format(name="allennlp", find=allennlp.find, read=allennlp.read, write=allennlp.write),
)
"""All formats in the order in which they are tried, the one with the freest file names last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """Which format a source has, and which of its files make the model."""

    format: str
    files: tuple[str, ...]
    """Names of the files that are read."""
    unused: tuple[str, ...]
    """Names of other files beside them that look like parts of a model."""


def detect(directory: Path) -> tuple[Format, Finding]:
    """Finds the format of a directory by its files and what is in them.

    Raises:
        CheckpointError: No format fits; the message has each one tried and what it lacks, the one
            that lacks least first.
    """
    tried: list[tuple[int, int, str]] = []
    for format in FORMATS:
        finding = format.find(directory)
        if not finding.lacks:
            return format, finding
        num_found = sum(path.is_file() for path in finding.files.values())
        lacks = f"{format.name} lacks {', '.join(finding.lacks)}"
        tried.append((len(finding.lacks), -num_found, lacks))
    if inside := _models_inside(directory):
        raise CheckpointError(f"{directory}: holds models and is none; name {' or '.join(inside)}")
    nearest, *others = (lacks for _, _, lacks in sorted(tried))
    raise CheckpointError(
        f"{directory}: no model of a known format; nearest: {nearest}; others: {'; '.join(others)}"
    )


def _models_inside(directory: Path) -> list[str]:
    """Returns the folders in a directory, such as that of a training run, that are models."""
    folders = sorted(path for path in directory.iterdir() if path.is_dir())
    return [
        str(folder)
        for folder in folders
        if any(not format.find(folder).lacks for format in FORMATS)
    ]


def read(
    source: _PathLike | None = None,
    *,
    options: _PathLike | None = None,
    weights: _PathLike | None = None,
    vocab: _PathLike | None = None,
    token_embeddings: _PathLike | None = None,
) -> Checkpoint:
    """Reads a model of any known format.

    Args:
        source: A directory, a zip or tar file, `hub:owner/name`, or "default".
        options: options.json of a loose AllenNLP or bilm-tf pair, instead of `source`.
        weights: HDF5 weights of such a pair.
        vocab: Word list of such a pair; a model of word ids needs it.
        token_embeddings: HDF5 file of vectors for the lines of `vocab`, which take the place of the
            character CNN.

    Raises:
        CheckpointError: The source is missing, damaged, incomplete or of no known format.
        MissingExtraError: A hub model is asked for without the extra `hub`.
    """
    loose = {
        "options": options,
        "weights": weights,
        "vocab": vocab,
        "token_embeddings": token_embeddings,
    }
    given = {role: path for role, path in loose.items() if path is not None}
    with _one_line_errors():
        if source is None:
            return allennlp.read(_loose_files(given))
        if given:
            raise CheckpointError(
                f"give either a source ({source}) or loose files ({'=, '.join(given)}=)"
            )
        with opened(source) as directory:
            format, finding = detect(directory)
            return format.read(finding.files)


def describe(source: _PathLike) -> Description:
    """Tells which format a source has and which files would be read, without reading the tensors.

    Raises:
        CheckpointError: As for `read`.
    """
    with _one_line_errors(), opened(source) as directory:
        format, finding = detect(directory)
        used = {path.name for path in finding.files.values()}
        others = [path.name for path in candidates(directory, *_PARTS)]
        return Description(
            format=format.name,
            files=tuple(sorted(used)),
            unused=tuple(name for name in others if name not in used),
        )


def write(
    checkpoint: Checkpoint,
    path: _PathLike,
    *,
    format: str = "native",
    dtype: StoredDtype = "float32",
) -> None:
    """Writes a model as a directory, whole or not at all.

    Args:
        checkpoint: The model.
        path: The directory to make; it must not exist, or be empty.
        format: "native", or "allennlp" for options.json + weights.hdf5.
        dtype: Number format of the weights in the file; "float16" halves it and rounds them. The
            AllenNLP format has float32 only.

    Raises:
        CheckpointError: The path is taken or refuses, or the format cannot express the model.
    """
    writer = _writer(format, dtype)
    if dtype == "float16":
        checkpoint = checkpoint.halved()
    with _one_line_errors():
        target = _free(path)
        place = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        try:
            place.mkdir(parents=True)
            writer(checkpoint, place)
            _sync(place)
            if target.exists():
                target.rmdir()
            place.rename(target)
        except OSError as error:
            raise CheckpointError(
                f"{path}: cannot be written: {reason(error)}; {disk_mend(error.errno)} or give "
                "another directory"
            ) from None
        finally:
            shutil.rmtree(place, ignore_errors=True)


def convert(
    src: _PathLike, dst: _PathLike, *, to: str = "native", dtype: StoredDtype = "float32"
) -> None:
    """Reads a model of any known format and writes it in another.

    Args:
        src: What `read` takes as source.
        dst: The directory to make; it must not exist, or be empty.
        to: "native" or "allennlp".
        dtype: As for `write`.

    Raises:
        CheckpointError: As for `read` and `write`.
    """
    _writer(to, dtype)
    with _one_line_errors():
        _free(dst)  # before the work of reading
    write(read(src), dst, format=to, dtype=dtype)


def _writer(name: str, dtype: StoredDtype) -> Callable[[Checkpoint, Path], None]:
    if dtype not in typing.get_args(StoredDtype):
        raise CheckpointError(f"dtype: {dtype!r} is not one of float32, float16")
    writers = {format.name: format.write for format in FORMATS if format.write}
    if name in writers:
        if dtype == "float16" and name != "native":
            raise CheckpointError(
                f"dtype: the format {name!r} has float32 only; leave float16 out, or write native"
            )
        return writers[name]
    if any(format.name == name for format in FORMATS):
        raise CheckpointError(
            f"the format {name!r} is read only; write one of {', '.join(writers)}"
        )
    raise CheckpointError(
        f"unknown format {name!r}{nearest(name, writers)}; write one of {', '.join(writers)}"
    )


def _free(path: _PathLike) -> Path:
    """Returns the whole path of a directory to make, once nothing would be overwritten."""
    target = Path(os.path.realpath(expanded(path)))
    if target.is_dir():
        if any(target.iterdir()):
            raise CheckpointError(
                f"{path}: the directory is not empty; give a new one, nothing is overwritten"
            )
    elif target.exists():
        raise CheckpointError(
            f"{path}: there is a file; give a new directory, nothing is overwritten"
        )
    return target


def _sync(directory: Path) -> None:
    """Forces the files of a directory to the disk before it gets its name."""
    for path in directory.iterdir():
        with path.open("rb+") as file:
            os.fsync(file.fileno())


def _loose_files(given: Mapping[str, _PathLike]) -> dict[str, Path]:
    for role in ("options", "weights"):
        if role not in given:
            raise CheckpointError(
                "give a model (a directory, a zip or tar file, hub:owner/name, default or "
                f"zh-hant), or loose files by options= and weights=; {role}= is missing"
            )
    return {role: locate(path) for role, path in given.items()}


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    """Lets the errors of readers and writers reach the user as CheckpointError."""
    try:
        yield
    except ConfigError as error:
        raise CheckpointError(str(error)) from None
    except OSError as error:
        raise CheckpointError(f"{error.filename or 'model'}: {reason(error)}") from None
