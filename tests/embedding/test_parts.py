import errno
import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from elmokit.embedding.parts import PartedOutput
from elmokit.embedding.place import claim, parts_directory
from elmokit.embedding.stored import open_embeddings
from elmokit.embedding.writers import writer_for
from elmokit.errors import MissingExtraError, OutputError
from embedding.rows import assert_same_rows, file_size_limit, make_row, names, odd_rows

SETTINGS = {"layers": "all", "pooling": "none", "input_sha256": "ab12"}
FORMATS = ["a.h5", "a.npz", "a.parquet", "a.jsonl"]


class Death(BaseException):
    """Stands for the end of the process."""


def run(out, rows, part_rows=4, **options):
    """Embeds rows as the command does, without its last steps when it dies."""
    output = PartedOutput.open(out, settings=SETTINGS, **options)
    try:
        while output.num_rows_done < len(rows) and not output.is_complete:
            first = output.num_rows_done
            state = f"after {first + part_rows}".encode()
            if first:
                assert output.last_state() == f"after {first}".encode()
            output.write(rows[first : first + part_rows], summary={"rows": part_rows}, state=state)
        output.finish()
    finally:
        output.close()  # the system does this for a dead process


def resume_until_done(out, rows, **options):
    try:
        run(out, rows, resume=True, **options)
    except OutputError as error:
        if "already complete" not in str(error):  # it died between the last two calls of all
            raise


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch):
    """Leaves out waiting for the disk; that it would be waited for is a test below."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def rows():
    return odd_rows()


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The content of an uninterrupted output, by format."""
    folder = tmp_path_factory.mktemp("whole")
    for name in FORMATS:
        run(folder / name, odd_rows())
    return {name: (folder / name).read_bytes() for name in FORMATS}


@pytest.mark.parametrize("name", FORMATS)
def test_a_run_leaves_its_output_alone(tmp_path, rows, name):
    run(tmp_path / name, rows)
    assert names(tmp_path) == [name]
    with open_embeddings(tmp_path / name) as stored:
        assert_same_rows(stored, rows)
        if name != "a.jsonl":
            assert stored.settings.items() >= SETTINGS.items()
            assert stored.settings["layout"] == "per-sentence"


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("part_rows", [1, 3, 100])
def test_the_output_does_not_depend_on_its_parts(tmp_path, rows, expected, name, part_rows):
    run(tmp_path / name, rows, part_rows)
    assert (tmp_path / name).read_bytes() == expected[name]


def test_a_ragged_file_is_written_as_such(tmp_path, rows):
    run(tmp_path / "a.h5", rows, layout="ragged")
    with open_embeddings(tmp_path / "a.h5") as stored:
        assert_same_rows(stored, rows)
        assert stored.settings["layout"] == "ragged"


def test_an_input_without_rows_gives_an_output_without_rows(tmp_path):
    run(tmp_path / "a.h5", [])
    with open_embeddings(tmp_path / "a.h5") as stored:
        assert len(stored) == 0


def test_progress_is_known_and_goes_on_after_a_restart(tmp_path, rows, caplog):
    out = tmp_path / "a.npz"
    with PartedOutput.open(out, settings=SETTINGS) as output:
        assert (output.num_rows_done, output.num_tokens_done, output.parts) == (0, 0, ())
        assert output.last_state() is None
        output.write(rows[:4], summary={"cut": 2, "unknown": 0}, state=b"one")
        output.write(rows[4:6], summary={"cut": 3}, state=b"two")
        first = output.state_path(output.parts[0])
        assert not first.exists()  # only the last state is of use
    with (
        caplog.at_level(logging.INFO),
        PartedOutput.open(out, settings=SETTINGS, resume=True) as output,
    ):
        assert (output.num_rows_done, output.num_tokens_done) == (6, 18)
        assert [part.num_rows for part in output.parts] == [4, 2]
        assert output.summary == {"cut": 5, "unknown": 0}
        assert output.last_state() == b"two"
        assert output.state_path(output.parts[1]).read_bytes() == b"two"
        assert not output.is_complete
    assert "6 rows are done; going on with row 6" in caplog.text


def test_a_state_that_is_gone_is_named(tmp_path, rows):
    with PartedOutput.open(tmp_path / "a.npz", settings=SETTINGS) as output:
        output.write(rows, state=b"x")
        output.state_path(output.parts[0]).unlink()
        with pytest.raises(OutputError, match=r"000000\.state: No such file .*; use --overwrite"):
            output.last_state()


def test_resuming_nothing_starts_afresh(tmp_path, rows, caplog):
    with caplog.at_level(logging.INFO):
        run(tmp_path / "a.npz", rows, resume=True)
    assert "nothing to resume; starting afresh" in caplog.text
    assert (tmp_path / "a.npz").exists()


def kill_at(step, monkeypatch, *, before):
    """Lets the process die at the n-th call that changes the disk, before or after the call."""
    count = 0

    def deadly(name):
        real = getattr(os, name)

        def call(*arguments, **options):
            nonlocal count
            count += 1
            if count == step and before:
                raise Death
            result = real(*arguments, **options)
            if count == step:
                raise Death
            return result

        return call

    for name in ("fsync", "replace", "unlink", "mkdir", "rmdir"):
        monkeypatch.setattr(os, name, deadly(name))


def test_a_file_is_on_disk_before_it_is_renamed_and_then_the_folder(tmp_path, rows, monkeypatch):
    calls = []

    def sync(descriptor):
        calls.append(("sync", Path(f"/proc/self/fd/{descriptor}").readlink()))

    def replace(old, new):
        calls.append(("replace", Path(old), Path(new)))
        real(old, new)

    real = os.replace
    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", replace)
    run(tmp_path / "a.h5", rows)
    places = [place for place, call in enumerate(calls) if call[0] == "replace"]
    assert len(places) == 3 * 3 + 3 + 1  # part, state, manifest; three stages; the output
    for place in places:
        _, old, new = calls[place]
        assert calls[place - 1] == ("sync", old)
        assert calls[place + 1] == ("sync", new.parent)
    assert calls[places[-2]][1:] == (tmp_path / "a.h5.parts/joined", tmp_path / "a.h5")


@pytest.mark.parametrize(
    ("name", "before", "overwrite"),
    [
        ("a.h5", False, False),
        ("a.jsonl", True, False),
        ("a.jsonl", False, True),
        ("a.jsonl", True, True),
    ],
)
def test_a_death_at_any_step_loses_nothing(
    tmp_path, rows, expected, monkeypatch, name, before, overwrite
):
    out = tmp_path / name
    for step in range(1, 200):
        if overwrite:
            out.write_text("old")
        try:
            with monkeypatch.context() as context:
                kill_at(step, context, before=before)
                run(out, rows, part_rows=6, overwrite=overwrite)
        except Death:
            content = out.read_bytes() if out.exists() else None
            assert content in ((b"old" if overwrite else None), expected[name])
            if content == b"old" and not (parts_directory(out) / "manifest.json").exists():
                with pytest.raises(OutputError, match="already complete; use --overwrite"):
                    run(out, rows, resume=True)
                run(out, rows, overwrite=True)
            resume_until_done(out, rows, part_rows=6)
            assert out.read_bytes() == expected[name]
            shutil.rmtree(parts_directory(out), ignore_errors=True)  # at most an empty folder
            out.unlink()
        else:
            break
    assert 30 < step < 199


def test_a_death_while_a_file_is_written_loses_nothing(tmp_path, rows, expected):
    def dying(number):
        yield from rows[:number]
        raise Death

    out = tmp_path / "a.h5"
    output = PartedOutput.open(out, settings=SETTINGS)
    output.write(rows[:4], state=b"after 4")
    with pytest.raises(Death):
        output._writer.write(output.directory / "joined", dying(3), {})
    (output.directory / "000001.npz.tmp").write_bytes(b"half")
    (output.directory / "000001.npz").write_bytes(b"not listed")
    output.close()
    run(out, rows, resume=True)
    assert out.read_bytes() == expected["a.h5"]


def test_a_killed_process_is_resumed(tmp_path, rows, expected):
    program = f"""
import sys
from embedding.rows import odd_rows
from elmokit.embedding.parts import PartedOutput
output = PartedOutput.open(sys.argv[1], settings={SETTINGS})
for first in (0, 4):
    output.write(odd_rows()[first:first + 4], state=f"after {{first + 4}}".encode())
print("two parts", flush=True)
sys.stdin.read()
"""
    out = tmp_path / "a.npz"
    tests = Path(__file__).parents[1]
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(out)],
        env={"PYTHONPATH": f"{tests.parent / 'src'}{os.pathsep}{tests}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout.readline() == b"two parts\n"
        with pytest.raises(OutputError, match="another process is writing it"):
            PartedOutput.open(out, settings=SETTINGS, resume=True)
        process.kill()
    run(out, rows, resume=True)
    assert out.read_bytes() == expected["a.npz"]


def test_a_second_writer_is_refused(tmp_path, rows):
    out = tmp_path / "a.npz"
    with PartedOutput.open(out, settings=SETTINGS) as output:
        for options in ({"resume": True}, {"overwrite": True}):
            with pytest.raises(OutputError, match=r"a\.npz: another process is writing it"):
                PartedOutput.open(out, settings=SETTINGS, **options)
        output.write(rows)
        output.finish()
    assert len(open_embeddings(out)) == len(rows)


def test_a_file_system_without_locks_gives_a_warning(tmp_path, rows, monkeypatch, caplog):
    def refuse(*arguments):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", refuse)
    run(tmp_path / "a.npz", rows)
    assert "no locks (Function not implemented)" in caplog.text


def test_old_output_stays_until_the_new_one_is_complete(tmp_path, rows):
    out = tmp_path / "a.npz"
    out.write_bytes(b"old")
    with PartedOutput.open(out, settings=SETTINGS, overwrite=True) as output:
        output.write(rows)
        assert out.read_bytes() == b"old"
    with PartedOutput.open(out, settings=SETTINGS, resume=True) as output:
        assert out.read_bytes() == b"old"
        output.finish()
    with open_embeddings(out) as stored:
        assert_same_rows(stored, rows)


def test_overwriting_drops_an_unfinished_run(tmp_path, rows):
    out = tmp_path / "a.npz"
    with PartedOutput.open(out, settings={**SETTINGS, "layers": "top"}) as output:
        output.write(rows[:4], state=b"x")
    with PartedOutput.open(out, settings=SETTINGS, overwrite=True) as output:
        assert output.num_rows_done == 0
        assert names(output.directory) == ["lock", "manifest.json"]


def test_a_resumed_run_must_have_the_same_settings(tmp_path, rows):
    out = tmp_path / "a.h5"
    with PartedOutput.open(out, settings=SETTINGS) as output:
        output.write(rows[:4])
    changed = {**SETTINGS, "layers": [0], "dtype": "float16"}
    message = r'\(dtype: nothing -> "float16"; layers: "all" -> \[0\]; layout: "per-sentence" -> "r'
    with pytest.raises(OutputError, match=message):
        PartedOutput.open(out, settings=changed, layout="ragged", resume=True)
    run(out, rows, resume=False, overwrite=True)


def test_a_missing_extra_is_known_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError):
        PartedOutput.open(tmp_path / "a.parquet", settings=SETTINGS)
    assert names(tmp_path) == []


@pytest.mark.parametrize("damage", ["gone", "shorter", "changed", "another"])
@pytest.mark.parametrize(("number", "kind"), [(0, "npz"), (1, "npz"), (1, "state")])
def test_damage_is_found_before_the_run_goes_on(tmp_path, rows, damage, number, kind):
    out = tmp_path / "a.npz"
    with PartedOutput.open(out, settings=SETTINGS) as output:
        output.write(rows[:2], state=b"after 2")
        output.write(rows[2:4], state=b"after 4")
    path = parts_directory(out) / f"{number:06d}.{kind}"
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    elif damage == "shorter":
        path.write_bytes(content[:-1])
    elif damage == "changed":
        path.write_bytes(content[:3] + bytes([content[3] ^ 1]) + content[4:])
    else:
        shutil.copyfile(parts_directory(out) / f"{1 - number:06d}.npz", path)
    with pytest.raises(OutputError, match=rf"{path.name}: is (missing|damaged).*--overwrite"):
        PartedOutput.open(out, settings=SETTINGS, resume=True)
    with PartedOutput.open(out, settings=SETTINGS, overwrite=True) as output:
        assert output.num_rows_done == 0


def test_damage_after_that_is_found_when_the_parts_are_joined(tmp_path, rows):
    out = tmp_path / "a.npz"
    with PartedOutput.open(out, settings=SETTINGS) as output:
        output.write(rows)
        path = output.directory / "000000.npz"
        content = path.read_bytes()
        place = content.index(rows[0].vectors.tobytes())
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(OutputError, match=r"000000\.npz: damaged .*--overwrite"):
            output.finish()
    assert not out.exists()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_is_kept_and_the_file_it_leads_to_written(tmp_path, rows, expected, is_there):
    (tmp_path / "disk").mkdir()
    target, out = tmp_path / "disk" / "vectors", tmp_path / "a.h5"
    out.symlink_to(Path("disk") / "vectors")
    if is_there:
        target.write_bytes(b"old")
        with pytest.raises(OutputError, match="vectors: exists; use --overwrite"):
            PartedOutput.open(out, settings=SETTINGS)
    with PartedOutput.open(out, settings=SETTINGS, overwrite=is_there) as output:
        assert output.directory == tmp_path / "disk" / "vectors.parts"
        output.write(rows[:4], state=b"after 4")
    run(out, rows, resume=True)
    assert out.is_symlink()
    assert target.read_bytes() == expected["a.h5"]
    assert names(tmp_path) == ["a.h5", "disk"]
    assert names(tmp_path / "disk") == ["vectors"]


@pytest.mark.parametrize("left", [[], ["lock"], ["lock", "manifest.json.tmp"]])
def test_a_folder_of_a_run_that_never_began_is_in_nobodys_way(tmp_path, rows, expected, left):
    (tmp_path / "a.npz.parts").mkdir()
    for name in left:
        (tmp_path / "a.npz.parts" / name).touch()
    run(tmp_path / "a.npz", rows)
    assert (tmp_path / "a.npz").read_bytes() == expected["a.npz"]
    assert names(tmp_path) == ["a.npz"]


def test_what_another_run_made_in_the_meantime_stays(tmp_path, rows, expected, monkeypatch):
    out = tmp_path / "a.npz"

    def late(path):
        monkeypatch.setattr("elmokit.embedding.parts.claim", claim)
        run(out, rows)
        return claim(path)

    monkeypatch.setattr("elmokit.embedding.parts.claim", late)
    with pytest.raises(OutputError, match=r"a\.npz: exists; use --overwrite"):
        PartedOutput.open(out, settings=SETTINGS)
    assert out.read_bytes() == expected["a.npz"]
    assert names(tmp_path) == ["a.npz"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("step", range(1, 12))
def test_a_disk_error_keeps_what_is_done(tmp_path, rows, expected, monkeypatch, step, number):
    count = 0
    real = os.fsync

    def fail(descriptor):
        nonlocal count
        count += 1
        if count == step:
            raise OSError(number, os.strerror(number))
        real(descriptor)

    out = tmp_path / "a.npz"
    with monkeypatch.context() as context:
        context.setattr(os, "fsync", fail)
        with pytest.raises(OutputError, match=os.strerror(number)) as caught:
            run(out, rows)
    message = str(caught.value)
    assert re.match(rf"cannot write {out}.*: .*; (free some space|make that|mend this) ", message)
    assert "\n" not in message
    run(out, rows, resume=True)
    assert out.read_bytes() == expected["a.npz"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_full_disk_at_the_end_keeps_the_parts_and_frees_the_rest(tmp_path, name):
    rows = [make_row(i, ["word"] * 30) for i in range(40)]
    out = tmp_path / name
    with PartedOutput.open(out, settings=SETTINGS) as output:
        for first in (0, 20):
            output.write(rows[first : first + 20])
        with file_size_limit(40_000), pytest.raises(OutputError, match="--resume") as caught:
            output.finish()
        assert "File too large; free some space and use --resume (40 rows" in str(caught.value)
        assert not (output.directory / "joined").exists()
    with PartedOutput.open(out, settings=SETTINGS, resume=True) as output:
        assert output.is_complete
        output.finish()
    with open_embeddings(out) as stored:
        assert_same_rows(stored, rows)


def test_a_full_disk_in_the_middle_keeps_earlier_parts(tmp_path):
    rows = [make_row(i, ["word"] * 30) for i in range(40)]
    out = tmp_path / "a.h5"
    with PartedOutput.open(out, settings=SETTINGS) as output:
        output.write(rows[:10])
        with file_size_limit(20_000), pytest.raises(OutputError, match="10 rows are kept in"):
            output.write(rows[10:])
        output.write(rows[10:])
        output.finish()
    with open_embeddings(out) as stored:
        assert_same_rows(stored, rows)


def test_an_error_before_the_first_part_leaves_nothing_behind(tmp_path):
    with pytest.raises(KeyError), PartedOutput.open(tmp_path / "a.h5", settings=SETTINGS):
        raise KeyError
    assert names(tmp_path) == []


def test_an_error_after_a_part_keeps_it(tmp_path, rows):
    out = tmp_path / "a.npz"

    def fail():
        with PartedOutput.open(out, settings=SETTINGS) as output:
            output.write(rows[:3])
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with PartedOutput.open(out, settings=SETTINGS, resume=True) as output:
        assert output.num_rows_done == 3


def test_rows_out_of_order_are_a_mistake_of_the_caller(tmp_path, rows):
    with PartedOutput.open(tmp_path / "a.npz", settings=SETTINGS) as output:
        with pytest.raises(ValueError, match="numbered from 0 on"):
            output.write(rows[1:])
        output.write(rows[:2])
        with pytest.raises(ValueError, match="numbered from 2 on"):
            output.write(rows[:2])


def test_strange_files_in_the_folder_of_parts_stay(tmp_path, rows, caplog):
    out = tmp_path / "a.npz"
    with PartedOutput.open(out, settings=SETTINGS) as output:
        (output.directory / "notes.txt").write_text("mine")
        output.write(rows)
        output.finish()
    assert names(parts_directory(out)) == ["notes.txt"]
    assert "a.npz.parts stays" in caplog.text


def test_memory_holds_no_more_than_one_part_at_a_time(tmp_path, monkeypatch):
    opened = []
    real = open_embeddings

    def tracked(path):
        assert all(reader._reader._archive.fp is None for reader in opened)
        opened.append(real(path))
        return opened[-1]

    monkeypatch.setattr("elmokit.embedding.parts.open_embeddings", tracked)
    run(tmp_path / "a.npz", odd_rows(), part_rows=2)
    assert len(opened) == 5


def test_writers_by_themselves_give_the_same_data(tmp_path, rows):
    run(tmp_path / "a.jsonl", rows)
    writer_for(tmp_path / "b.jsonl").write(tmp_path / "b.jsonl", rows, {})
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
