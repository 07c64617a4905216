"""Where tests find their reference data, and how property tests run."""

import os
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).parent.parent

# Small models on many threads wait more than they compute; tests of threads set their number.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples in every run, however slow the machine.
hypothesis.settings.register_profile("elmokit", derandomize=True, deadline=None)
hypothesis.settings.load_profile("elmokit")


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
