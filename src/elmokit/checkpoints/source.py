"""Where a model lies: a directory, an archive, the Hugging Face hub, or the package itself."""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from elmokit.checkpoints import archive
from elmokit.checkpoints.files import expanded, reason, visible
from elmokit.errors import CheckpointError, ElmokitError
from elmokit.extras import needed

BUNDLED = ("default", "zh-hant")
"""Names of the models that ship with the package."""

_HUB = "hub:"
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_LIKE_REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
_FILE_SUFFIX = re.compile(r"\.[a-z]\w*$", re.ASCII | re.IGNORECASE)


@contextlib.contextmanager
def opened(source: str | os.PathLike[str]) -> Iterator[Path]:
    """Opens a source as a directory of files; an archive is unpacked and removed again afterwards.

    Args:
        source: A directory, a zip or tar file (.gz, .bz2, .xz too), `hub:owner/name`, or
            a model that ships: "default", "zh-hant".

    Raises:
        CheckpointError: The source is missing, a URL, no archive, or an unsafe one.
        MissingExtraError: A hub model is asked for without the extra `hub`.
    """
    path = locate(source)
    if path.is_dir():
        yield _root(path)
        return
    with tempfile.TemporaryDirectory(prefix="elmokit-") as place:
        try:
            archive.unpack(path, Path(place))
            yield _root(Path(place))
        except ElmokitError as error:
            # The place is gone when the message is read; the archive is what the user knows.
            raise type(error)(str(error).replace(place, str(path))) from None


def locate(source: str | os.PathLike[str]) -> Path:
    """Returns the existing directory or file that a source stands for.

    Raises:
        CheckpointError: The source is missing or a URL.
        MissingExtraError: A hub model is asked for without the extra `hub`.
    """
    name = os.fspath(source)
    if name in BUNDLED:
        return _bundled(name)
    if name.startswith(_HUB):
        return _download(name.removeprefix(_HUB))
    if _URL.match(name):
        raise CheckpointError(
            f"{name}: a URL is not read; download it first and give the file's path"
        )
    path = expanded(name)
    if not path.exists():
        hint = ""
        if _LIKE_REPOSITORY.fullmatch(name) and not _FILE_SUFFIX.search(name):
            hint = f"; a model of the Hugging Face hub is written {_HUB}{name}"
        raise CheckpointError(f"{name}: no such file or directory{hint}")
    if not path.is_dir() and not path.is_file():
        raise CheckpointError(
            f"{name}: is a pipe or a device; give a directory or a file, which can be read again"
        )
    return path


def _bundled(name: str) -> Path:
    path = Path(__file__).parents[1] / "pretrained" / name
    if not path.is_dir():
        raise CheckpointError(
            f"{name}: this installation has no bundled model; give a model's path"
        )
    return path


def _download(name: str) -> Path:
    if not _REPOSITORY.fullmatch(name):
        raise CheckpointError(f"{_HUB}{name}: expected {_HUB}owner/name")
    mend = 'pip install "elmokit[hub]"'
    with needed("huggingface_hub", f"{_HUB}{name}: needs huggingface_hub; {mend}"):
        import huggingface_hub
    try:
        return Path(huggingface_hub.snapshot_download(name))
    except Exception as error:  # the hub's client raises errors of many libraries
        raise CheckpointError(f"{_HUB}{name}: cannot be downloaded: {reason(error)}") from None


def _root(directory: Path) -> Path:
    """Descends while a directory holds one directory and nothing else, as in many archives."""
    entries = visible(directory)
    while len(entries) == 1 and entries[0].is_dir():
        directory = entries[0]
        entries = visible(directory)
    return directory
