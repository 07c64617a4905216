"""Builds the extension against the torch that is installed."""

import sys

import torch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

major, minor = torch.__version__.split(".")[:2]
flags = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"]
if sys.platform == "linux":
    flags.append("-fopenmp")
setup(
    ext_modules=[
        CppExtension(
            # Another torch looks for another name, and finds nothing rather than a crash.
            f"elmokit_kernels._for_torch_{major}_{minor}",
            ["csrc/lstm_steps.cpp"],
            extra_compile_args=flags,
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
