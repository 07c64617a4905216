"""Where a model runs, and in which precision."""

import re
import warnings
from typing import Literal, get_args

import torch

from elmokit.embedding.int8 import quantize
from elmokit.errors import ConfigError
from elmokit.model import BiLM
from elmokit.nn.projected_lstm import ProjectedLSTM

Precision = Literal["fp32", "bf16", "int8"]
"""fp32: the reference. bf16: the LSTM's matrices are rounded to bfloat16, and on a GPU multiply in
it; all else stays float32.
int8 (CPU): the matrices of the LSTM, of the highways and of the token projection multiply in whole
numbers, by scales fixed when the model is prepared; all else stays float32."""


def find_device(name: str | torch.device) -> torch.device:
    """Reads a device name; "auto" is a CUDA device if there is one, else the CPU.

    Raises:
        ConfigError: The name is unknown, or this machine has no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not isinstance(name, str | torch.device):
        raise ConfigError(f"device: {name!r} is no name of a device; try auto or cpu")
    reason = "no such device"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some names are deprecated, and refused all the same
            device = torch.device(name)
            reason = ""
            torch.zeros(1, device=device).cpu()  # "meta" is known and holds no numbers
    except Exception as error:  # what a backend raises that is not there is its own affair
        reason = reason or re.split(r"\n|\. ", str(error))[0]
        raise ConfigError(
            f"device: {str(name)!r} cannot be used here ({reason}); try auto or cpu"
        ) from None
    return device


def prepare(bilm: BiLM, device: torch.device, precision: Precision) -> BiLM:
    """Returns the model frozen, on the device, in the precision; unchanged tensors are shared.

    Raises:
        ConfigError: The precision is unknown, or cannot be had for this model, device or machine.
    """
    if precision not in get_args(Precision):
        raise ConfigError(
            f"precision: {precision!r} is not one of {', '.join(get_args(Precision))}"
        )
    if precision == "int8" and device.type != "cpu":
        raise ConfigError(
            f"precision: int8 runs on the CPU only, not on {device}; use device cpu, or fp32"
        )
    model = bilm.frozen()
    model.network.use_products(None)
    if precision == "bf16":
        # The token encoder runs once per word type: rounding it would cost more than it saves.
        for name, parameter in model.network.named_parameters():
            if not name.startswith("token_encoder."):
                parameter.data = parameter.data.bfloat16().float()
    model = model.to(device, torch.float32)
    if precision == "bf16" and device.type == "cuda":
        multiply_in_bf16(model)
    if precision == "int8":
        quantize(model)
    return model


def multiply_in_bf16(bilm: BiLM) -> None:
    """Keeps the matrices of the paper's LSTM layers in bfloat16, in which they multiply then."""
    for module in bilm.network.modules():
        if isinstance(module, ProjectedLSTM):
            for parameter in module.parameters():
                if parameter.dim() == 2:
                    parameter.data = parameter.data.bfloat16()
