"""Where an output and its folder of parts lie, and whether a run may have that place."""

import contextlib
import errno
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from elmokit.errors import OutputError, disk_mend

if sys.platform != "win32":
    import fcntl

_logger = logging.getLogger(__name__)

MANIFEST, LOCK = "manifest.json", "lock"

_BEGUN = {LOCK, f"{MANIFEST}.tmp"}
"""Files of a run that ended before it began in earnest."""

ELSEWHERE = "or give another place with -o"
"""A mend beside that of the error."""


def parts_directory(out: Path) -> Path:
    """Returns the folder in which the parts of an output lie."""
    return out.with_name(f"{out.name}.parts")


def check_place(out: str | Path, *, overwrite: bool, resume: bool) -> Path:
    """Refuses an output that is in the way of a run, or that cannot be where it should.

    Returns:
        The output; where it is a link, the file that this leads to.

    Raises:
        OutputError: See `PartedOutput.open`.
    """
    if overwrite and resume:
        raise OutputError(f"{out}: --overwrite and --resume exclude each other; give one of them")
    if os.fspath(out).endswith(("/", os.sep)):
        raise OutputError(f"{out}: ends in a slash; give the name of a file with -o, no folder")
    out = Path(out)
    with disk_errors(out, ELSEWHERE):
        if out.is_symlink():
            out = Path(os.path.realpath(out))
        if not out.parent.is_dir():
            raise OutputError(f"{out}: there is no folder {out.parent}; create it first")
        if out.is_dir() or out.is_symlink():
            kind = "a link to itself" if out.is_symlink() else "a folder"
            raise OutputError(f"{out}: is {kind}; give the name of a file with -o")
        _check_directory(out, overwrite=overwrite, resume=resume)
    return out


def _check_directory(out: Path, *, overwrite: bool, resume: bool) -> None:
    """Refuses an output or a folder of parts that the run may not replace or go on with."""
    directory = parts_directory(out)
    if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
        kind = "link" if directory.is_symlink() else "file"
        raise OutputError(
            f"{directory}: is in the way of the folder of parts (it is a {kind}); move it away"
        )
    if resume and out.exists() and not (directory / MANIFEST).exists():
        raise OutputError(f"{out}: is already complete; use --overwrite to make it again")
    if overwrite or resume:
        return
    if directory.exists() and any(path.name not in _BEGUN for path in directory.iterdir()):
        raise OutputError(
            f"{directory}: holds an unfinished run; use --resume to go on with it, "
            "or --overwrite to start afresh"
        )
    if out.exists():
        raise OutputError(f"{out}: exists; use --overwrite to replace it, or give another name")


def remove_beginnings(out: Path) -> None:
    """Removes what a run left that could not begin, if there is nothing else."""
    directory = parts_directory(out)
    with contextlib.suppress(OSError):
        if all(path.name in _BEGUN for path in directory.iterdir()):
            for name in _BEGUN:
                (directory / name).unlink(missing_ok=True)
            directory.rmdir()


def claim(out: Path) -> IO[bytes]:
    """Claims the folder of parts, which is made if there is none.

    Returns:
        A file; when it is closed or the process dies, the folder is free again.

    Raises:
        OutputError: Another process has claimed it.
        OSError: The folder cannot be made.
    """
    directory = parts_directory(out)
    directory.mkdir(exist_ok=True)
    path = directory / LOCK
    file = path.open("ab")
    # The process before us may have removed the file between the two calls.
    claimed = _try_lock(file) and path.exists()
    if not claimed or not os.path.samestat(os.fstat(file.fileno()), path.stat()):
        file.close()
        raise OutputError(f"{out}: another process is writing it; wait for its end")
    return file


def _try_lock(file: IO[bytes]) -> bool:
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
            raise
        _logger.warning("%s: this file system has no locks (%s)", file.name, error.strerror)
    return True


@contextlib.contextmanager
def disk_errors(out: Path, rest: str) -> Iterator[None]:
    """Lets the errors of a disk reach the user as OutputError, with a mend and the `rest` of it."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise OutputError(
            f"cannot write {error.filename or out}: {reason}; {disk_mend(error.errno)} {rest}"
        ) from error
