"""What a contender's process needs to answer: standard library alone, for any interpreter."""

import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TextIO


def claim_standard_output() -> TextIO:
    """Return the standard output and send what others print there to standard error."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return replies


def versions_of(packages: Sequence[str]) -> dict[str, str]:
    """Return the releases that the numbers depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def peak_mib() -> int:
    """Return the most memory this process has held so far, loading included."""
    status = Path("/proc/self/status")
    if status.exists():  # the other way counts what the parent held when it started this process
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) / 1024)
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20)
