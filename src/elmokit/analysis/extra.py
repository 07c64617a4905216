"""The libraries of the extra `analysis`, which are imported where they are used."""

from collections.abc import Iterator
from contextlib import contextmanager

from elmokit.errors import MissingExtraError


@contextmanager
def needed(what: str, *, install: str = '"elmokit[analysis]"') -> Iterator[None]:
    """Lets a missing library reach the user as one line.

    Args:
        what: The top module of the library, which is imported inside.
        install: What pip is to install.

    Raises:
        MissingExtraError: It is not installed; any other failure of an import shows itself.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != what:
            raise
        raise MissingExtraError(f"this analysis needs {what}; pip install {install}") from None
