import signal

import pytest

from elmokit.training.signals import noted


def send(*numbers):
    for number in numbers:
        signal.raise_signal(number)


@pytest.fixture
def said():
    return []


def test_the_first_signal_is_noted_and_handlers_come_back(said):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with noted(said.append, impatient=True) as signals:
        assert signals.number is None
        send(signal.SIGTERM, signal.SIGINT)
        assert signals.number == signal.SIGTERM
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


def test_a_second_interruption_leaves_at_once(said):
    with pytest.raises(KeyboardInterrupt), noted(said.append, impatient=True):
        send(signal.SIGINT, signal.SIGINT)
    assert said == ["interrupted: finishing the step and keeping it; Ctrl-C again leaves at once"]


def test_torchrun_passes_an_interruption_on_as_a_second_one(said):
    with noted(said.append, impatient=False) as signals:
        send(signal.SIGINT, signal.SIGINT)
        assert signals.number == signal.SIGINT
    assert said == ["interrupted: finishing the step and keeping it"] * 2


def test_what_is_ignored_stays_ignored(said):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with noted(said.append, impatient=True) as signals:
            send(signal.SIGINT)
            assert (signals.number, said) == (None, [])
    finally:
        signal.signal(signal.SIGINT, before)
