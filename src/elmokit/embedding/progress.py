"""How far a long run is: a bar on a terminal, plain log lines elsewhere."""

import logging
import sys
import time
from types import TracebackType
from typing import Self

from tqdm import tqdm

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_LINES = 30.0


class Progress:
    """Counts tokens towards a total, with rate and time left; a context manager."""

    def __init__(self, total: int | None, done: int = 0) -> None:
        """Begins counting.

        Args:
            total: Tokens in all; None if unknown.
            done: Tokens of an earlier run.
        """
        self.total = total
        self.done = done
        self._before = done
        self._started = self._last_line = time.monotonic()
        self._bar = (
            tqdm(total=total, initial=done, unit="tok", unit_scale=True, dynamic_ncols=True)
            if sys.stderr is not None and sys.stderr.isatty()
            else None
        )

    @property
    def rate(self) -> float:
        """Tokens per second of this run."""
        return (self.done - self._before) / max(time.monotonic() - self._started, 1e-9)

    def advance(self, tokens: int) -> None:
        """Counts tokens that are done."""
        self.done += tokens
        if self._bar is not None:
            self._bar.update(tokens)
        elif time.monotonic() - self._last_line > _SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            logger.info("%s", self._line())

    def _line(self) -> str:
        line = f"{self.done:,} tokens, {self.rate:,.0f} per second"
        if self.total:
            minutes = (self.total - self.done) / max(self.rate, 1e-9) / 60
            line += f", {self.done / self.total:.0%} done, {minutes:,.1f} minutes left"
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
