"""The libraries of the extra `analysis`, which are imported where they are used."""

from contextlib import AbstractContextManager

from elmokit import extras


def needed(what: str, *, install: str = '"elmokit[analysis]"') -> AbstractContextManager[None]:
    """Lets a missing library reach the user as one line.

    Args:
        what: The top module of the library, which is imported inside.
        install: What pip is to install.

    Raises:
        MissingExtraError: On leaving, if it is not installed.
    """
    return extras.needed(what, f"this analysis needs {what}; pip install {install}")
