import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from bundle_samples import block, message, shape_message, table, varint, write_bundle
from checkpoint_samples import one_line
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.checkpoints.tensor_bundle import read_index
from elmokit.errors import CheckpointError

TENSORS = {
    "a": torch.arange(6.0).reshape(2, 3),
    "a/b": torch.tensor(7.0),
    "a/b/c": torch.tensor([1, -2], dtype=torch.int64),
    "a/bc": torch.zeros(0, 4),
    "é": torch.tensor([0.5, -0.0, float("nan")]),
}


@pytest.fixture
def bundle(tmp_path):
    """Writes a bundle and returns its index."""

    def write(tensors=TENSORS, **settings):
        write_bundle(tmp_path / "m.ckpt-1", tensors, **settings)
        return tmp_path / "m.ckpt-1.index"

    return write


def assert_holds(index, tensors):
    bundle = read_index(index)
    assert bundle.entries.keys() == tensors.keys()
    for name, tensor in tensors.items():
        read = bundle.read(name)
        assert read.dtype == tensor.dtype
        assert read.shape == tensor.shape == bundle.stored[name].shape
        assert bundle.stored[name].dtype == str(tensor.dtype).removeprefix("torch.")
        assert torch.equal(read.reshape(-1).view(torch.uint8), tensor.reshape(-1).view(torch.uint8))


def complaint(index):
    """What reading all tensors complains of; nothing if they can be read."""
    try:
        bundle = read_index(index)
        [bundle.read(name) for name in bundle.entries]
    except CheckpointError as error:
        return str(error)
    return ""


# What is read


@pytest.mark.parametrize("kind", ["char", "word"])
def test_tensorflow_s_own_files_are_read_to_the_bit(fixtures, kind):
    with np.load(fixtures / f"G_training_steps_{kind}" / "before.npz") as data:
        expected = {name: torch.from_numpy(data[name]) for name in data.files}
    assert_holds(fixtures / f"E_training_{kind}" / "model.ckpt-80.index", expected)


@pytest.mark.parametrize("num_shards", [1, 2, 3, 9])
@pytest.mark.parametrize("block_size", [1, 2, 100])
def test_shards_and_blocks_make_no_difference(bundle, num_shards, block_size):
    assert_holds(bundle(num_shards=num_shards, block_size=block_size), TENSORS)


@pytest.mark.parametrize(
    "dtype",
    [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64],
)
def test_kinds_of_number(bundle, dtype):
    tensors = {"x": torch.tensor([[1, 2, 3]], dtype=dtype)}
    assert_holds(bundle(tensors), tensors)


@settings(max_examples=30)
@given(
    sizes=st.dictionaries(st.text("ab/é😀", min_size=1), st.lists(st.integers(0, 3), max_size=3)),
    num_shards=st.integers(1, 3),
    block_size=st.integers(1, 5),
)
def test_any_names_and_shapes(sizes, num_shards, block_size):
    tensors = {name: torch.rand(shape) for name, shape in sizes.items()}
    with tempfile.TemporaryDirectory() as place:
        prefix = Path(place, "x")
        write_bundle(prefix, tensors, num_shards=num_shards, block_size=block_size)
        assert_holds(prefix.with_name("x.index"), tensors)


@pytest.mark.parametrize("name", ["a\nb", "a\0", "a\u2028b"])
def test_names_stay_on_one_line(bundle, name):
    assert read_index(bundle({name: torch.ones(1)})).entries.keys() == {repr(name)}


# What is damaged


def test_a_truncated_index_is_one_line(bundle):
    index = bundle()
    data = index.read_bytes()
    for size in range(len(data)):
        index.write_bytes(data[:size])
        with one_line(index, "truncated"):
            read_index(index)


def test_a_damaged_index_never_gives_other_tensors(bundle):
    """The end of the footer and the block about the table carry no tensors and may be anything."""
    index = bundle()
    data, entries = index.read_bytes(), read_index(index).entries
    unseen = 0
    for position in range(len(data)):
        index.write_bytes(data[:position] + bytes([data[position] ^ 0x55]) + data[position + 1 :])
        message = complaint(index)
        if message:
            assert message.startswith(f"{index}: ")
            assert "\n" not in message
        else:
            assert read_index(index).entries == entries
            unseen += 1
    assert unseen < 60


def test_every_damaged_number_is_told(bundle):
    shard = read_index(bundle()).shards[0]
    data = shard.read_bytes()
    for position in range(len(data)):
        shard.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        with one_line(shard, "is damaged", "m.ckpt-1.index"):
            [read_index(shard.with_name("m.ckpt-1.index")).read(name) for name in TENSORS]


def test_a_truncated_file_of_numbers_is_one_line(bundle):
    index = bundle()
    shard = read_index(index).shards[0]
    data = shard.read_bytes()
    for size in (0, 3, len(data) - 1):
        shard.write_bytes(data[:size])
        with one_line(shard, "truncated", f"it has {size} bytes"):
            [read_index(index).read(name) for name in TENSORS]


def test_a_missing_shard_is_one_line(bundle):
    index = bundle(num_shards=3)
    shard = read_index(index).shards[1]
    assert shard.name == "m.ckpt-1.data-00001-of-00003"
    shard.unlink()
    with one_line(shard, "No such file"):
        [read_index(index).read(name) for name in TENSORS]


def test_a_missing_index_is_one_line(tmp_path):
    with one_line(tmp_path / "x.index", "No such file"):
        read_index(tmp_path / "x.index")


@pytest.mark.parametrize("data", [b"", b"{}", b"\0" * 200, b"\x89HDF\r\n" * 20])
def test_other_files_are_no_index(tmp_path, data):
    (tmp_path / "x.index").write_bytes(data)
    with one_line("x.index", "no index of a TensorFlow checkpoint"):
        read_index(tmp_path / "x.index")


# What is not read


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"compression": 1}, "its blocks are compressed"),
        ({"header": {2: 1}}, "big-endian"),
        ({"header": {3: message({1: 9, 2: 9})}}, "a reader of version 9; this one is 1"),
        ({"changes": {"a": {7: b""}}}, "a is cut into slices"),
    ],
)
def test_kinds_of_bundle_that_are_refused(bundle, settings, part):
    index = bundle(**settings)
    with one_line(index, part):
        read_index(index)


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({1: 7}, ["a holds TensorFlow's type 7"]),
        ({1: 0}, ["a holds TensorFlow's type 0"]),
        ({2: shape_message((2, 4))}, ["a has 24 bytes", "(2, 4) of float32 needs 32"]),
        ({2: shape_message((2, 2**64 - 3))}, ["a has 24 bytes"]),
        ({5: 2**62}, ["a has 4,611,686,018,427,387,904 bytes", "needs 24"]),
        ({4: 2**62}, ["data-00000-of-00001", "truncated"]),
        ({3: 77}, ["m.ckpt-1.data-00077-of-00001", "No such file"]),
        ({6: 0}, ["data-00000-of-00001", "a is damaged"]),
    ],
)
def test_entries_that_contradict_the_numbers(bundle, changes, parts):
    read = read_index(bundle(changes={"a": changes})).read
    assert read("a/b") == 7
    with one_line(*parts):
        read("a")


def test_blocks_in_disorder_are_refused(tmp_path):
    """Many handles on one block would make a small file endless."""
    content = block([(b"", message({1: 1}))])
    handles = block([(b"%d" % i, varint(0) + varint(len(content))) for i in range(3)])
    data = table([content, handles])
    place = len(content) + 5
    footer = varint(0) * 2 + varint(place) + varint(len(handles))
    (tmp_path / "x.index").write_bytes(data[:-48] + footer.ljust(40, b"\0") + data[-8:])
    with one_line("x.index", "blocks are not in order"):
        read_index(tmp_path / "x.index")


@settings(max_examples=200)
@given(
    contents=st.lists(
        st.binary(max_size=40)
        | st.lists(st.tuples(st.binary(max_size=4), st.binary(max_size=20)), max_size=4).map(block),
        min_size=1,
        max_size=3,
    )
)
def test_nonsense_with_right_checksums_is_one_line(contents):
    header = block([(b"", message({1: 1}))])
    with tempfile.TemporaryDirectory() as place:
        index = Path(place, "x.index")
        for blocks in ([header, *contents], contents):
            index.write_bytes(table(blocks))
            assert "\n" not in complaint(index)
