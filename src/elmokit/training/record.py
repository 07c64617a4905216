"""What a run tells: JSON lines always, TensorBoard on demand, the console for people."""

import contextlib
import json
import logging
import math
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from elmokit.embedding.manifest import write_atomically
from elmokit.errors import OutputError
from elmokit.extras import needed

logger = logging.getLogger(__name__)

LOG = "log.jsonl"
"""Name of the file in a run's directory: one JSON object a line, with `kind` and `step`."""


class Record:
    """The log of a run; a context manager."""

    def __init__(self, run_dir: Path, *, step: int, tensorboard: bool) -> None:
        """Opens the log.

        Args:
            run_dir: The run's directory.
            step: Where the run begins or goes on; lines of later steps are dropped, since these
                steps are made again, and all lines if it begins.
            tensorboard: Whether to write for TensorBoard too, into `run_dir`/tensorboard.

        Raises:
            MissingExtraError: TensorBoard is wanted and not installed.
            OutputError: The disk is full or refuses.
        """
        self._path = run_dir / LOG
        self._board = _board(run_dir / "tensorboard", step) if tensorboard else None
        try:
            write_atomically(self._path, _lines_until(self._path, step) if step else b"")
            self._file = self._path.open("a", encoding="utf-8")
        except OSError as error:
            raise self._refusal(error) from None

    def write(self, kind: str, step: int, **values: Any) -> None:
        """Adds a line; numbers that are not finite become null.

        Raises:
            OutputError: The disk is full or refuses.
        """
        finite = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in values.items()
        }
        try:
            self._file.write(json.dumps({"kind": kind, "step": step, **finite}) + "\n")
            self._file.flush()
        except OSError as error:
            raise self._refusal(error) from None
        if self._board is not None:
            for name, value in finite.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    self._board.add_scalar(f"{kind}/{name}", value, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):  # each line was flushed, or its error told
            self._file.close()
        if self._board is not None:
            self._board.close()

    def _refusal(self, error: OSError) -> OutputError:
        return OutputError(
            f"{self._path}: cannot be written ({error.strerror}); free some space, then go on with "
            "--resume"
        )


def _lines_until(path: Path, step: int) -> bytes:
    """Returns the complete lines of steps up to `step`; the last may be cut by a crash."""
    kept = []
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else []:
        try:
            if line.endswith(b"\n") and json.loads(line)["step"] <= step:
                kept.append(line)
        except (ValueError, KeyError, TypeError):
            logger.warning("%s: dropped a line that is no record", path)
    return b"".join(kept)


def _board(directory: Path, step: int) -> Any:
    mend = 'pip install "elmokit[train]", or set it to false'
    with needed("tensorboard", f"tensorboard: is not installed; {mend}"):
        from torch.utils.tensorboard import SummaryWriter
    return SummaryWriter(str(directory), purge_step=step + 1)
