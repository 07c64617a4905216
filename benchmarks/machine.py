"""What a result has to say about the machine it was measured on."""

import os
import platform
from pathlib import Path


def describe_machine() -> dict[str, str | float]:
    """Return the processor, its cores, the memory, the system and how busy it is just now."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count() or 0,
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
        "load": _load(),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"


def _memory_gib() -> int:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30)
    except (AttributeError, OSError, ValueError):  # systems without these names
        return 0


def _load() -> float:
    try:
        return round(os.getloadavg()[0], 1)
    except (AttributeError, OSError):  # systems that do not count it
        return 0.0
