import pytest

from elmokit.errors import InputError
from elmokit.metrics.classification import score_labels


def test_accuracy_and_macro_f1():
    scores = score_labels(["a", "a", "a", "b", "c"], ["a", "a", "b", "b", "d"]).to_dict()
    assert scores["accuracy"] == pytest.approx(3 / 5)
    f1 = {label: row["f1"] for label, row in scores["labels"].items()}
    assert f1 == {"a": pytest.approx(0.8), "b": pytest.approx(2 / 3), "c": 0.0, "d": 0.0}
    assert scores["macro_f1"] == pytest.approx((0.8 + 2 / 3) / 4)


def test_nothing_cannot_be_scored():
    with pytest.raises(InputError, match="not one example"):
        score_labels([], [])
    with pytest.raises(ValueError, match="shorter"):
        score_labels(["a"], [])
