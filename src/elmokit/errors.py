"""The exceptions a user can meet; each message names the place, what was found, and the mend."""


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
