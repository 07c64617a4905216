import io
import struct
import tarfile
import tracemalloc
import zipfile

import pytest
from checkpoint_samples import one_line

from elmokit.checkpoints import archive
from embedding.rows import file_size_limit

OUTSIDE = [
    "../escaped",
    "a/../../escaped",
    "/tmp/escaped",
    "..\\escaped",
    "\\escaped",
    "C:\\escaped",
    "C:escaped",
    "",
]


@pytest.fixture
def target(tmp_path):
    (tmp_path / "deep/target").mkdir(parents=True)
    return tmp_path / "deep/target"


def tree(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def tar(path, *members, mode="w"):
    """Writes a tar file of (TarInfo or name, content) pairs."""
    with tarfile.open(path, mode) as file:
        for info, content in members:
            if isinstance(info, str):
                info = tarfile.TarInfo(info)
                info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return path


def special(name, kind, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info, b""


def zipped(path, *members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members:
            file.writestr(name, content)
    return path


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_paths_that_lead_outside_are_refused(tmp_path, target, name, kind):
    members = [("fine", b"x"), (name or "/", b"y")]
    path = (
        zipped(tmp_path / "a.zip", *members) if kind == "zip" else tar(tmp_path / "a.tar", *members)
    )
    with one_line(path, "outside"):
        archive.unpack(path, target)
    assert tree(tmp_path) == ["a." + kind, "deep", "deep/target", "deep/target/fine"]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_links_and_devices_in_tar_files_are_refused(tmp_path, target, kind):
    path = tar(tmp_path / "a.tar", special("weights.hdf5", kind, "/etc/passwd"))
    with one_line(path, "weights.hdf5 is a link or a device"):
        archive.unpack(path, target)
    assert tree(target) == []


def test_a_directory_that_is_a_link_is_not_written_through(tmp_path, target):
    path = tar(
        tmp_path / "a.tar", special("d", tarfile.SYMTYPE, str(tmp_path)), ("d/escaped", b"x")
    )
    with one_line(path, "link"):
        archive.unpack(path, target)
    assert not (tmp_path / "escaped").exists()


def test_links_in_zip_files_are_refused(tmp_path, target):
    info = zipfile.ZipInfo("weights.hdf5")
    info.external_attr = 0o120777 << 16
    path = zipped(tmp_path / "a.zip", (info, "/etc/passwd"))
    with one_line(path, "weights.hdf5 is a link"):
        archive.unpack(path, target)
    assert tree(target) == []


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_file_that_is_there_twice_is_refused(tmp_path, target, kind):
    members = [("a", b"1"), ("./a", b"2")]
    path = (
        zipped(tmp_path / "a.zip", *members) if kind == "zip" else tar(tmp_path / "a.tar", *members)
    )
    with one_line(path, "a twice"):
        archive.unpack(path, target)


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "tar.bz2", "tar.xz"])
def test_more_bytes_than_the_limit_are_refused(tmp_path, target, monkeypatch, kind):
    monkeypatch.setattr(archive, "MAX_BYTES", 50_000)
    members = [("a", bytes(30_000)), ("b", bytes(30_000))]
    path = tmp_path / f"a.{kind}"
    if kind == "zip":
        zipped(path, *members)
    else:
        tar(path, *members, mode=f"w:{kind[4:]}")
    with one_line(path, "unpacks to more than"):
        archive.unpack(path, target)
    assert sum(file.stat().st_size for file in target.rglob("*")) <= 50_000
    monkeypatch.setattr(archive, "MAX_BYTES", 100_000)
    archive.unpack(path, target.parent / "again")
    assert tree(target.parent / "again") == ["a", "b"]


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_a_ratio_beyond_that_of_weights_is_refused(tmp_path, target, monkeypatch, kind):
    monkeypatch.setattr(archive, "FREE_BYTES", 10_000)
    path, member = tmp_path / f"a.{kind}", ("zeros", bytes(10**6))
    zipped(path, member) if kind == "zip" else tar(path, member, mode="w:gz")
    with one_line(path, "unpacks to more than"):
        archive.unpack(path, target)
    monkeypatch.setattr(archive, "MAX_RATIO", 10_000)
    archive.unpack(path, target.parent / "again")


def test_a_zip_file_that_lies_about_sizes_is_caught(tmp_path, target, monkeypatch):
    monkeypatch.setattr(archive, "MAX_BYTES", 50_000)
    path = zipped(tmp_path / "a.zip", ("zeros", bytes(10**6)))
    true, false = struct.pack("<L", 10**6), struct.pack("<L", 100)
    path.write_bytes(path.read_bytes().replace(true, false))
    with one_line(path):
        archive.unpack(path, target)
    assert sum(file.stat().st_size for file in target.rglob("*")) <= 50_000


def test_holes_of_sparse_files_count(tmp_path, target, monkeypatch):
    """A tar member may declare a terabyte of zeros that the archive does not hold."""
    monkeypatch.setattr(archive, "MAX_BYTES", 50_000)
    info = tarfile.TarInfo("sparse")
    info.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.map": "0,0",
        "GNU.sparse.size": str(2**40),
        "GNU.sparse.realsize": str(2**40),
    }
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as file:
        file.addfile(info)
    with one_line(path, "unpacks to more than"):
        archive.unpack(path, target)


def test_long_headers_count(tmp_path, target, monkeypatch):
    monkeypatch.setattr(archive, "MAX_BYTES", 10**6)
    info = tarfile.TarInfo("a")
    info.pax_headers = {"comment": "x" * 10**7}
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as file:
        file.addfile(info)
    tracemalloc.start()
    with one_line(path, "unpacks to more than"):
        archive.unpack(path, target)
    assert tracemalloc.get_traced_memory()[1] < 5 * 10**6
    tracemalloc.stop()


def test_more_files_than_the_limit_are_refused(tmp_path, target, monkeypatch):
    monkeypatch.setattr(archive, "MAX_MEMBERS", 3)
    for path in (
        zipped(tmp_path / "a.zip", *((str(i), b"") for i in range(4))),
        tar(tmp_path / "a.tar", *((str(i), b"") for i in range(4))),
    ):
        with one_line(path, "more than 3 files"):
            archive.unpack(path, target)
        for file in target.iterdir():
            file.unlink()


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "tar.bz2", "tar.xz"])
def test_damaged_archives_are_one_line(tmp_path, target, kind):
    path, members = tmp_path / f"a.{kind}", [("a", bytes(range(256)) * 100), ("b", b"x" * 5000)]
    zipped(path, *members) if kind == "zip" else tar(path, *members, mode=f"w:{kind[4:]}")
    data = path.read_bytes()
    for size in (5, 20, len(data) // 2):
        path.write_bytes(data[:size])
        with one_line(path):
            archive.unpack(path, target)
        for file in target.iterdir():
            file.unlink()


def test_encrypted_zip_files_are_one_line(tmp_path, target):
    path = zipped(tmp_path / "a.zip", ("a", b"x" * 100))
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    path.write_bytes(data)
    with one_line(path, "encrypted"):
        archive.unpack(path, target)


@pytest.mark.parametrize("data", [b"", b"text", b"\x89HDF\r\n\x1a\n" + bytes(100)])
def test_other_files_are_no_archives(tmp_path, target, data):
    path = tmp_path / "weights.hdf5"
    path.write_bytes(data)
    with one_line(path, "neither a directory nor a zip or tar file", "options="):
        archive.unpack(path, target)


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_full_disk_is_told_with_the_place_that_is_full(tmp_path, target, kind):
    make = zipped if kind == "zip" else tar
    path = make(tmp_path / f"a.{kind}", ("big", b"x" * 50_000))
    message = f"{path}: cannot be unpacked: File too large; free some space ({target.parent}), or"
    with file_size_limit(10_000), one_line(message):
        archive.unpack(path, target)
