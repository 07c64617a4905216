import pickle

import pytest
import torch
from checkpoint_samples import MANYLANGS_MODELS, copy_model, one_line

from elmokit.checkpoints import read


@pytest.fixture(params=MANYLANGS_MODELS)
def any_model(request, fixtures, tmp_path):
    return copy_model(fixtures / request.param, tmp_path / "model")


def test_pickles_of_both_formats_and_of_a_gpu_are_read(any_model, fixtures):
    """B_efml_char_cnn is of the old format, tagged cuda:0; here each becomes the other format."""
    expected = read(any_model)
    for name in ("token_embedder.pkl", "encoder.pkl"):
        tensors = torch.load(any_model / name, weights_only=True, map_location="cpu")
        zipped = (any_model / name).read_bytes().startswith(b"PK")
        torch.save(tensors, any_model / name, _use_new_zipfile_serialization=not zipped)
    copy = read(any_model)
    assert all(torch.equal(tensor, copy.tensors[name]) for name, tensor in expected.tensors.items())


class Attack:
    """Runs a command when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        import os

        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("kind", ["zip", "legacy", "bare"])
@pytest.mark.parametrize("name", ["token_embedder.pkl", "encoder.pkl"])
def test_malicious_pickles_run_nothing(both_model, tmp_path, kind, name):
    trace = tmp_path / "trace"
    if kind == "bare":
        (both_model / name).write_bytes(pickle.dumps(Attack(trace), protocol=2))
    else:
        torch.save(
            {"a": Attack(trace)}, both_model / name, _use_new_zipfile_serialization=kind == "zip"
        )
    with one_line(both_model / name, "system", "not loaded"):
        read(both_model)
    assert not trace.exists()


@pytest.mark.parametrize(
    "content",
    [[torch.zeros(2)], {"a": 1}, {1: torch.zeros(2)}, torch.zeros(2), None],
)
def test_pickles_of_something_else(both_model, content):
    torch.save(content, both_model / "encoder.pkl")
    with one_line(both_model / "encoder.pkl", "expected named tensors"):
        read(both_model)


@pytest.mark.parametrize("data", [b"", b"text", b"\x80\x02.", b"\x80\x02K\x01.", b"PK\x03\x04"])
def test_files_that_are_no_pickle(both_model, data):
    (both_model / "encoder.pkl").write_bytes(data)
    with one_line(both_model / "encoder.pkl"):
        read(both_model)
