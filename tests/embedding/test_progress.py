import io
import logging
import sys

from elmokit.embedding import progress
from elmokit.embedding.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_plain_lines_away_from_a_terminal(monkeypatch, caplog):
    clock = iter([0.0, 10.0, 40.0, 40.0, 40.0, 40.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with caplog.at_level(logging.INFO), Progress(5_000, done=1_000) as bar:
        bar.advance(1_000)
        bar.advance(1_000)
    assert caplog.messages == ["3,000 tokens, 50 per second, 60% done, 0.7 minutes left"]


def test_a_bar_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress(100) as bar:
        bar.advance(60)
        bar.advance(40)
    assert "100%" in terminal.getvalue()
    assert "tok/s" in terminal.getvalue()


def test_no_total_for_standard_input(monkeypatch, caplog):
    clock = iter([0.0, 40.0, 40.0, 40.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with caplog.at_level(logging.INFO), Progress(None) as bar:
        bar.advance(80)
    assert caplog.messages == ["80 tokens, 2 per second"]
