"""Checkpoints on disk: every published format of an ELMo model, behind one door.

A format is a table of native names, foreign names and invertible transforms; it returns a
`Checkpoint`, plain data without layers. Layers never open files, formats never build layers.
"""

from elmokit.checkpoints.checkpoint import Checkpoint
from elmokit.checkpoints.registry import (
    Description,
    Format,
    StoredDtype,
    convert,
    describe,
    detect,
    read,
    write,
)

__all__ = [
    "Checkpoint",
    "Description",
    "Format",
    "StoredDtype",
    "convert",
    "describe",
    "detect",
    "read",
    "write",
]
