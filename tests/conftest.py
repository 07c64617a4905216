"""Where tests find their reference data, and how property tests run."""

import contextlib
import io
import os
import signal
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).parent.parent

# Small models on many threads wait more than they compute; tests of threads set their number.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples in every run, however slow the machine.
hypothesis.settings.register_profile("elmokit", derandomize=True, deadline=None)
hypothesis.settings.load_profile("elmokit")


# What a shell starts in the background ignores Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The small reference data that ships with the tests (see its README)."""
    return ROOT / "tests" / "fixtures"


@pytest.fixture(scope="session")
def reference() -> Path:
    """Larger reference data, outside the repository; tests that need it skip without it."""
    place = os.environ.get("ELMOKIT_REFERENCE")
    directory = Path(place) if place else ROOT.parent / "shared" / "reference"
    if not directory.is_dir():
        pytest.skip(f"no reference data at {directory}; set ELMOKIT_REFERENCE")
    return directory


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """A small model with a softmax, trained for some seconds on the examples' text."""
    from elmokit.cli import main  # not before the number of threads above is set

    place = tmp_path_factory.mktemp("trained")
    data, words = ROOT / "examples" / "data", place / "words.txt"
    (place / "config.yaml").write_text(
        f"run_dir: {place / 'run'}\n"
        f"data: {{train: {data / 'train.txt'}, vocabulary: {words}}}\n"
        "model: {filters: [[1, 16], [2, 32]], num_highway: 1, cell_dim: 64, projection_dim: 32}\n"
        "optimizer: {name: adamw, learning_rate: 1e-2, warmup_steps: 10, decay: linear}\n"
        "schedule: {batch_size: 32, steps: 40}\n"
    )
    for command in (
        ["vocab", str(data / "train.txt"), "-o", str(words), "--min-count", "3"],
        ["train", str(place / "config.yaml")],
    ):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            code = main(command)
        assert code == 0, printed.getvalue()
    return place / "run" / "model"
