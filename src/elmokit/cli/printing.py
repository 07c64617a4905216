"""What a command says: results on standard output, everything else on standard error."""

import contextlib
import logging
import sys
import warnings
from collections.abc import Iterator


def say(text: str) -> None:
    """Prints a line of results; characters that the terminal cannot show become escapes."""
    encoding = sys.stdout.encoding or "utf-8"
    line = " ".join(text.splitlines())
    print(line.encode(encoding, "backslashreplace").decode(encoding))  # noqa: T201  # a command speaks


def complain(message: str) -> None:
    """Prints why a command failed, as one line whatever the message holds."""
    print(f"elmo: {' '.join(message.split())}", file=sys.stderr)  # noqa: T201  # a command speaks


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
