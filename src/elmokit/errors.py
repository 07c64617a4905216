"""The exceptions a user can meet; each message names the place, what was found, and the mend."""

import errno

_DISK_MENDS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free some space"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "make that place writable"),
}


class ElmokitError(ValueError):
    """Base of all errors that elmokit raises on purpose."""


class ConfigError(ElmokitError):
    """A configuration has an unknown field, a wrong type or values that contradict each other."""


class CheckpointError(ElmokitError):
    """A model on disk is missing, incomplete, damaged or of an unknown format."""


class InputError(ElmokitError):
    """Text or token input cannot be read as what it was said to be."""


class OutputError(ElmokitError):
    """Results cannot be written, or an unfinished run cannot be resumed."""


class MissingExtraError(ElmokitError, ImportError):
    """An optional dependency is needed and not installed."""


class TrainingError(ElmokitError):
    """Training cannot go on: numbers are no longer finite, or a resumed run differs."""


def disk_mend(number: int | None) -> str:
    """Returns what a user can do about an error of the disk, by its number in `errno`."""
    return _DISK_MENDS.get(number or 0, "mend this")
