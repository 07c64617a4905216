import math
from types import SimpleNamespace

import pytest

from elmokit.errors import ConfigError
from elmokit.limits import check_least, check_positive, check_share


def least(value):
    return lambda section, name: check_least(value, section, name)


@pytest.mark.parametrize(
    ("check", "good"),
    [
        (least(1), (1, 2**63 - 1, None)),
        (least(0), (0, 0.5, None)),
        (check_positive, (1e-9, 1e300)),
        (check_share, (0, 0.999)),
    ],
)
def test_what_is_in_range_passes(check, good):
    for value in good:
        check(SimpleNamespace(field=value), "field")


@pytest.mark.parametrize(
    ("check", "value", "limit"),
    [
        (least(1), 0, "1 or more"),
        (least(0), -1, "0 or more"),
        (least(0), math.nan, "0 or more"),
        (least(0), 2**63, "below 2 to the 63rd"),
        (check_positive, 0, "a number above 0"),
        (check_positive, math.inf, "a number above 0"),
        (check_positive, math.nan, "a number above 0"),
        (check_share, 1, "0 or more and below 1"),
        (check_share, -0.1, "0 or more and below 1"),
    ],
)
def test_what_is_not_is_named(check, value, limit):
    with pytest.raises(ConfigError, match=rf"^field: {value} must be {limit}$"):
        check(SimpleNamespace(field=value), "field")
