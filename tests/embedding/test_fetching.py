import contextlib

import pytest
import torch

from elmokit.embedding import fetching
from elmokit.embedding.fetching import fetched


def test_elsewhere_than_on_a_gpu_nothing_is_read_ahead():
    log = []

    def results():
        for number in range(3):
            log.append(f"computed {number}")
            yield number, torch.full((2,), number)

    for number, tensor in fetched(results(), torch.device("cpu")):
        log.append(f"used {number}")
        assert tensor.tolist() == [number] * 2
    assert log == [f"{done} {number}" for number in range(3) for done in ("computed", "used")]


class Event:
    """Notes when it is waited for."""

    def __init__(self, log, number):
        self.log, self.number = log, number

    def synchronize(self):
        self.log.append(f"waited for {self.number}")


def test_on_a_gpu_a_copy_is_waited_for_once_the_next_is_queued(monkeypatch):
    log = []

    def copy(tensor, beside):
        assert beside == "beside"
        log.append(f"copying {tensor}")
        return f"host {tensor}", Event(log, tensor)

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: "beside")
    monkeypatch.setattr(fetching, "_copy", copy)
    found = []
    for result in fetched(((str(n), n) for n in range(3)), torch.device("cuda:0")):
        log.append(f"used {result[0]}")
        found.append(result)
    assert found == [("0", "host 0"), ("1", "host 1"), ("2", "host 2")]
    assert log == [
        *("copying 0", "copying 1", "waited for 0", "used 0"),
        *("copying 2", "waited for 1", "used 1", "waited for 2", "used 2"),
    ]
    assert not list(fetched(iter(()), torch.device("cuda:0")))


def test_a_copy_comes_after_what_is_computed_and_keeps_its_memory(monkeypatch):
    log = []

    class Here(torch.Tensor):
        def record_stream(self, stream):
            assert stream is beside
            log.append("in use beside")

    class Beside:
        def wait_stream(self, stream):
            log.append(f"waits for {stream}")

        def record_event(self):
            log.append("event")
            return "event"

    @contextlib.contextmanager
    def on(stream):
        log.append("on")
        yield
        log.append("off")

    beside, empty = Beside(), torch.empty
    monkeypatch.setattr(torch, "empty", lambda shape, dtype, pin_memory: empty(shape, dtype=dtype))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: "here")
    monkeypatch.setattr(torch.cuda, "stream", on)
    host, copied = fetching._copy(torch.arange(3.0).as_subclass(Here), beside)
    assert host.tolist() == [0, 1, 2]
    assert copied == "event"
    assert log == ["waits for here", "on", "event", "off", "in use beside"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_real_gpu_gives_what_it_computed():
    device = torch.device("cuda", torch.cuda.current_device())
    expected = [torch.randn(1000, 1000) for _ in range(5)]
    results = ((number, whole.to(device) * 2) for number, whole in enumerate(expected))
    for number, tensor in fetched(results, device):
        assert tensor.device.type == "cpu"
        assert torch.equal(tensor, expected[number] * 2)
