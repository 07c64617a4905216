"""Files of torch.save that hold tensors and nothing else."""

import pickle
import re
import warnings
from pathlib import Path

import torch
from torch import Tensor

from elmokit.checkpoints.files import reason
from elmokit.errors import CheckpointError

_FOREIGN = re.compile(r"(?:GLOBAL|global|class|function) ([\w.]+)")


def read(path: Path) -> dict[str, Tensor]:
    """Reads named tensors from a pickle of any version of torch, onto the CPU.

    The pickle runs no code: anything but tensors in it is refused. The device that tensors were
    saved on does not matter.

    Raises:
        CheckpointError: The file is missing or damaged, or holds something else.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pickle versions that torch itself does not write
            data = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        foreign = _FOREIGN.search(str(error))
        if foreign is None:
            raise CheckpointError(
                f"{path}: the file is truncated or damaged, or no torch file"
            ) from None
        raise CheckpointError(
            f"{path}: asks for {foreign[1]}, which is no tensor; not loaded, since that would run "
            "its code"
        ) from None
    except Exception as error:  # a damaged pickle can raise anything that its instructions can
        raise CheckpointError(
            f"{path}: the file is truncated or damaged: {reason(error)}"
        ) from None
    if not isinstance(data, dict) or not all(
        isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in data.items()
    ):
        raise CheckpointError(f"{path}: expected named tensors, found {type(data).__name__}")
    return data
