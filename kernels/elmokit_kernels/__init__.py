"""The steps of elmokit's LSTM in C++; elmokit uses them by itself where they are installed."""

from importlib import import_module

import torch

_version = "_".join(torch.__version__.split(".")[:2])
_extension = import_module(f"{__name__}._for_torch_{_version}")
forward, backward = _extension.forward, _extension.backward
cell_of_halves, codes_of = _extension.cell_of_halves, _extension.codes_of
