"""What numbers a section of settings may hold; needs no torch."""

import math

from elmokit.errors import ConfigError


def check_least(least: float, section: object, *names: str) -> None:
    """Raises ConfigError if a field is set and below its least value, or 2 to the 63rd or more."""
    for name in names:
        value = getattr(section, name)
        if value is not None and not least <= value < 2**63:
            limit = "below 2 to the 63rd" if value >= 2**63 else f"{least} or more"
            raise ConfigError(f"{name}: {value} must be {limit}")


def check_positive(section: object, *names: str) -> None:
    """Raises ConfigError if a field is not a number above 0."""
    for name in names:
        value = getattr(section, name)
        if not 0 < value < math.inf:
            raise ConfigError(f"{name}: {value} must be a number above 0")


def check_share(section: object, *names: str) -> None:
    """Raises ConfigError if a field is no chance below 1."""
    for name in names:
        value = getattr(section, name)
        if not 0 <= value < 1:
            raise ConfigError(f"{name}: {value} must be 0 or more and below 1")
