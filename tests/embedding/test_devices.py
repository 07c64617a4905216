import pytest
import torch

from elmokit.embedding.devices import find_device
from elmokit.errors import ConfigError


def test_auto_and_the_cpu_are_always_there():
    assert find_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    for name in ("cpu", "cpu:0", torch.device("cpu")):
        assert find_device(name).type == "cpu"


@pytest.mark.parametrize("name", ["gpu", "", "cuda:", "cuda:x", " cpu", "CPU", "cpu:-1"])
def test_a_name_that_torch_does_not_know_is_refused(name):
    with pytest.raises(ConfigError) as caught:
        find_device(name)
    assert str(caught.value) == (
        f"device: {name!r} cannot be used here (no such device); try auto or cpu"
    )


@pytest.mark.parametrize(
    "name",
    ["hpu", "privateuseone", "meta", "mkldnn", "opengl", "vulkan", "xla", "maia", "cuda:99"],
)
def test_a_device_that_is_not_there_is_one_short_line(name):
    with pytest.raises(ConfigError) as caught:
        find_device(name)
    message = str(caught.value)
    assert message.startswith(f"device: {name!r} cannot be used here (")
    assert message.endswith("); try auto or cpu")
    assert len(message) < 200
    assert "\n" not in message


@pytest.mark.parametrize("name", [None, 0, 3.5, ["cpu"]])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(ConfigError, match=r"^device: .* is no name of a device; try auto or cpu$"):
        find_device(name)
