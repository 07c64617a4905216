"""What a command says: results on standard output, everything else on standard error."""

import contextlib
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from elmokit.errors import OutputError


@contextlib.contextmanager
def standard_output() -> Iterator[None]:
    """Lets the errors of standard output be told from those of files.

    Raises:
        BrokenPipeError: The reader has seen enough.
        OutputError: In the place of another OSError.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        say_no_more()
        raise OutputError(
            f"standard output: {error.strerror}; results were lost, give them another place"
        ) from error


def say(text: str) -> None:
    """Prints a line of results; characters that the terminal cannot show become escapes.

    Raises:
        BrokenPipeError: The reader has seen enough.
        OutputError: Standard output cannot be written, such as to a full disk.
    """
    encoding = sys.stdout.encoding or "utf-8"
    line = " ".join(text.splitlines())
    with standard_output():
        print(line.encode(encoding, "backslashreplace").decode(encoding))  # noqa: T201  # a command speaks


def say_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints rows below their header, columns side by side.

    Raises:
        BrokenPipeError: The reader has seen enough.
        OutputError: Standard output cannot be written.
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        say("  ".join(cells).rstrip())


def say_all() -> None:
    """Sees to it that what was said is written, and errors show here, not when Python ends.

    Raises:
        BrokenPipeError: The reader has seen enough.
        OutputError: Standard output cannot be written.
    """
    with standard_output():
        sys.stdout.flush()


def say_no_more() -> None:
    """Lets Python end without a second complaint about a standard output that is not written."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(message: str, *, with_traceback: bool = False) -> None:
    """Prints why a command failed, as one line whatever the message holds."""
    with contextlib.suppress(OSError):  # nobody hears it, but the exit code tells
        if with_traceback:
            traceback.print_exc()
        print(f"elmo: {' '.join(message.split())}", file=sys.stderr, flush=True)  # noqa: T201  # a command speaks


@contextlib.contextmanager
def streams_open() -> Iterator[None]:
    """Gives a process that was started without standard output or error a place to write to.

    Otherwise the first file that a command opens takes that place, and what others print goes
    there.
    """
    with contextlib.ExitStack() as stack:
        for stream, redirect in (
            (sys.stdout, contextlib.redirect_stdout),
            (sys.stderr, contextlib.redirect_stderr),
        ):
            if stream is None:
                nowhere = stack.enter_context(
                    Path(os.devnull).open("w", encoding="utf-8", errors="backslashreplace")
                )
                stack.enter_context(redirect(nowhere))
        yield


@contextlib.contextmanager
def messages_shown() -> Iterator[None]:
    """Shows the library's log and warnings on standard error, a line each, while a command runs."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter())
    logger = logging.getLogger("elmokit")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("default", module="elmokit")
            warnings.showwarning = lambda message, *_, **__: logger.warning("%s", message)
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        prefix = "" if record.levelno < logging.WARNING else "warning: "
        return f"{prefix}{record.getMessage()}"
