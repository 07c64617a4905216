import importlib

import pytest

from elmokit.errors import MissingExtraError
from elmokit.extras import needed

MEND = 'tables need lumber; pip install "elmokit[wood]"'


def test_a_missing_package_is_one_line():
    with pytest.raises(MissingExtraError) as caught, needed("lumber", MEND):
        importlib.import_module("lumber.boards")
    assert str(caught.value) == MEND
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("name", ["lumberjack", "lumber.boards", "nails", None])
def test_another_failure_shows_itself(name):
    with pytest.raises(ModuleNotFoundError, match="gone"), needed("lumber", MEND):
        raise ModuleNotFoundError("gone", name=name)


def test_nothing_happens_where_it_is_there():
    with needed("json", MEND):
        import json
    assert json.loads("1") == 1
