"""What a result depends on that no setting tells."""

import os
import platform

import numpy as np
import torch

import elmokit


def environment() -> dict[str, str | int]:
    """Returns the versions and the machine that computed a result."""
    return {
        "elmokit": elmokit.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "processors": os.cpu_count() or 0,
        "threads": torch.get_num_threads(),
    }
