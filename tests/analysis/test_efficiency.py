import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.sweep_data import FakeTraining, base, write_data
from elmokit.analysis import runs
from elmokit.analysis.efficiency import best_so_far, crossing, measure_efficiency, sizes_of
from elmokit.analysis.output import write_report
from elmokit.errors import ConfigError, InputError
from elmokit.tasks import run


@pytest.fixture
def folder(tmp_path):
    write_data(tmp_path)
    return tmp_path


def test_parts_have_an_example_or_more_and_the_whole_is_among_them():
    assert sizes_of([0.001, 0.01, 0.1, 0.5], 20) == [1, 2, 10, 20]
    assert sizes_of([0.001], 150_000) == [150, 150_000]
    assert sizes_of([1.0], 1) == [1]


def test_a_curve_crosses_on_the_log_scale():
    # Half of the way from 10 to 1,000 on that scale is 100.
    assert crossing([1, 10, 1000], [0.0, 0.2, 0.6], 0.4) == pytest.approx(100)
    assert crossing([1, 10, 1000], [0.0, 0.2, 0.6], 0.2) == pytest.approx(10)
    assert crossing([1, 10, 1000], [0.0, 0.2, 0.6], 0.6) == pytest.approx(1000)
    assert crossing([1, 10, 1000], [0.0, 0.2, 0.6], 0.61) is None
    assert crossing([5, 10], [0.3, 0.6], 0.3) == 5
    assert crossing([5, 10], [0.3, 0.6], 0.1) == 5
    # Where a curve goes up and down, its first crossing counts.
    assert crossing([1, 2, 4, 8], [0.0, 0.5, 0.1, 0.9], 0.5) == pytest.approx(2)
    assert crossing([7], [0.3], 0.4) is None


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=6),
    st.lists(st.integers(1, 10**6), min_size=6, max_size=6, unique=True),
    st.floats(0, 1),
)
def test_a_crossing_lies_where_the_curve_first_has_the_score(scores, sizes, target):
    sizes = sorted(sizes)[: len(scores)]
    found = crossing(sizes, scores, target)
    reached = [place for place, score in enumerate(scores) if score >= target]
    assert (found is None) == (not reached)
    if found is not None:
        first = reached[0]
        assert sizes[max(0, first - 1)] * (1 - 1e-9) <= found <= sizes[first] * (1 + 1e-9)


def test_a_run_that_ended_early_keeps_its_best():
    assert best_so_far([0.2, 0.5, 0.4], 5) == [0.2, 0.5, 0.5, 0.5, 0.5]


def learnt(config):
    """Without ELMo 0.1 for each doubling of the examples, with it 0.3 more; in two epochs."""
    score = 0.1 * (config.data.max_train or 16).bit_length() + 0.3 * (config.elmo.at != "none")
    return [score - 0.1, score - 0.2, score]


def test_what_elmo_saves(tmp_path, monkeypatch):
    write_data(tmp_path, examples=16)
    task, config = base(tmp_path)
    fake = FakeTraining(learnt)
    monkeypatch.setattr(runs, "train_task", fake)
    report = measure_efficiency(
        task, config, tmp_path / "out", seeds=[1, 2], fractions=[0.0625, 0.125, 0.25, 0.5]
    )
    assert fake.names[:4] == [
        f"{arm}-16-seed-{seed}" for seed in (1, 2) for arm in ("none", "elmo")
    ]
    assert len(fake.names) == 20
    assert report.data["equal"] == {
        "score": pytest.approx(0.5),
        "examples": pytest.approx(2),
        "epoch": 1,
        "baseline_epoch": 3,
    }
    assert report.summary == (
        "tag: the baseline's 50.0 % with 16 examples is, with ELMo, reached with 2 (12 %); with "
        "all of them in epoch 1, where the baseline needs 3"
    )
    assert report.rows[0] == ("1", "6.2 %", "10.0 (10.0 to 10.0)", "40.0 (40.0 to 40.0)")
    assert report.rows[-1][:2] == ("16", "100 %")
    without = report.data["arms"][0]
    means = [entry["score"]["mean"] for entry in without["epochs"]]
    assert means == pytest.approx([0.4, 0.4, 0.5])
    files = write_report(report, tmp_path / "out")
    assert "with ELMo" in files[2].read_text()


def test_elmo_may_not_get_there(folder, monkeypatch):
    task, config = base(folder)
    fake = FakeTraining(lambda config: [0.5 if config.elmo.at == "none" else 0.4])
    monkeypatch.setattr(runs, "train_task", fake)
    report = measure_efficiency(task, config, folder / "out", seeds=[1], fractions=[0.1])
    assert report.data["equal"]["examples"] is report.data["equal"]["epoch"] is None
    assert "with ELMo, not reached; with all of them in no epoch" in report.summary
    write_report(report, folder / "out")


def test_parts_are_nested_and_the_same_for_all_runs(folder, monkeypatch):
    """The examples that reach the loop, in trainings as they are."""
    parts: dict[int, list[list[str]]] = {}

    class Spy(run.Fit):
        def __init__(self, trained, train, *others):
            parts.setdefault(len(train), []).append([item.lines for item in train])
            super().__init__(trained, train, *others)

    monkeypatch.setattr(run, "Fit", Spy)
    task, config = base(folder, epochs=1)
    report = measure_efficiency(task, config, folder / "out", seeds=[1, 2], fractions=[0.05, 0.5])
    assert sorted(parts) == [1, 10, 20]
    for same in parts.values():
        assert len(same) == 4
        assert all(part == same[0] for part in same)
    one, ten, twenty = (parts[size][0] for size in (1, 10, 20))
    assert all(example in ten for example in one)
    assert all(example in twenty for example in ten)
    assert ten != twenty[:10]  # drawn, not the first ones
    assert all(0 <= run["score"] <= 1 for run in report.data["arms"][1]["sizes"][0]["runs"])


def test_bad_input_shows_before_anything_is_trained(folder, monkeypatch):
    task, config = base(folder)
    fake = FakeTraining(learnt)
    monkeypatch.setattr(runs, "train_task", fake)

    def refused(error=ConfigError, config=config, **changes):
        asked = {"seeds": [1], "fractions": [0.5], **changes}
        with pytest.raises(error) as caught:
            measure_efficiency(task, config, folder / "out", **asked)
        assert fake.calls == []
        return str(caught.value)

    for fraction in (0, -0.1, 1.5, float("nan")):
        message = refused(fractions=[0.5, fraction])
        assert message == f"fractions: {fraction} must be above 0 and not above 1"
    assert refused(fractions=[0.5, 0.5]) == "fractions: 0.5 stands there twice"
    assert refused(fractions=[]) == "fractions: give at least one"
    without = dataclasses.replace(config, elmo=dataclasses.replace(config.elmo, at="none"))
    assert "leaves nothing to compare" in refused(config=without)
    (folder / "train.conll").write_text("\n")
    assert "holds not one example" in refused(InputError)
    (folder / "train.conll").write_text("the DET\nn\n")  # bad, passed over, and then there is none
    skipping = dataclasses.replace(config, data=dataclasses.replace(config.data, skip_bad=True))
    assert "holds not one example" in refused(InputError, config=skipping)


def test_a_limit_of_the_settings_is_the_whole(folder, monkeypatch):
    task, config = base(folder)
    config = dataclasses.replace(config, data=dataclasses.replace(config.data, max_train=8))
    monkeypatch.setattr(runs, "train_task", FakeTraining(learnt))
    report = measure_efficiency(task, config, folder / "out", seeds=[1], fractions=[0.5])
    assert [size["examples"] for size in report.data["arms"][0]["sizes"]] == [4, 8]
