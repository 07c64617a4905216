"""Signals that ask a run to leave: noted, so that the step in progress can be finished and kept."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(slots=True)
class Noted:
    """What has come so far."""

    number: int | None = None
    """The first signal."""


@contextlib.contextmanager
def noted(say: Callable[[str], None], *, impatient: bool) -> Iterator[Noted]:
    """Notes SIGTERM and Ctrl-C instead of leaving at once; in the main thread only.

    Signals that the process was told to ignore, as `nohup` and `&` do, stay ignored.

    Args:
        say: Tells the user what Ctrl-C does.
        impatient: A second Ctrl-C leaves at once. Under torchrun one Ctrl-C comes twice, from the
            terminal and from torchrun, which ends by itself what does not leave.
    """
    found = Noted()

    def note(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            if impatient and found.number == signal.SIGINT:
                raise KeyboardInterrupt
            again = "; Ctrl-C again leaves at once" if impatient else ""
            say(f"interrupted: finishing the step and keeping it{again}")
        if found.number is None:
            found.number = number

    if threading.current_thread() is not threading.main_thread():
        yield found
        return
    handled = [s for s in _SIGNALS if signal.getsignal(s) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, note) for number in handled}
    try:
        yield found
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
