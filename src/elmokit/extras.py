"""Packages that only some uses need: they are imported there, and may be missing."""

from collections.abc import Iterator
from contextlib import contextmanager

from elmokit.errors import MissingExtraError


@contextmanager
def needed(package: str, message: str) -> Iterator[None]:
    """Lets a missing package reach the user as one line.

    Args:
        package: Its top module, which is imported inside.
        message: What needs it, and how it is installed.

    Raises:
        MissingExtraError: It is not installed; any other failure of an import shows itself.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != package:  # its own parts too: then it is there, and broken
            raise
        raise MissingExtraError(message) from None
