"""Output in parts, so that a run that is killed goes on where it was.

While `elmo embed` writes OUT there is a folder OUT.parts with part files (npz, readable by
`open_embeddings`), the LSTM state after the last part, and a manifest. A part counts once the
manifest lists it; files that are not listed are left-overs of a crash and are replaced. At the end
the parts are joined in the format of OUT beside them, that file is renamed to OUT, and the folder
is removed. Every step can be cut off and repeated.
"""

import contextlib
import json
import logging
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

from elmokit import __version__
from elmokit.embedding.manifest import (
    START_AFRESH,
    Digest,
    Manifest,
    Part,
    Stage,
    move_into_place,
    part_name,
    write_atomically,
)
from elmokit.embedding.place import (
    ELSEWHERE,
    LOCK,
    MANIFEST,
    check_place,
    claim,
    disk_errors,
    parts_directory,
    remove_beginnings,
)
from elmokit.embedding.stored import open_embeddings
from elmokit.embedding.writers import EmbeddedRow, Layout, Writer, writer_for
from elmokit.embedding.writers.npz import NpzWriter
from elmokit.errors import InputError, OutputError

_logger = logging.getLogger(__name__)

_OWN_FILES = re.compile(r"(\d{6,}\.(npz|state)|manifest\.json)(\.tmp)?|joined|lock")
_JOINED = "joined"


class PartedOutput:
    """The output of one run, written part by part and joined at the end.

    Made by `open`; a context manager. Leaving it without `finish` keeps the parts for a resumed
    run; if there are none and an error ends the run, nothing is left behind. A second process on
    the same output is refused (not on Windows).
    """

    def __init__(self, out: Path, writer: Writer, manifest: Manifest, lock: IO[bytes]) -> None:
        self.out = out
        """The output; where it is a link, the file that this leads to."""
        self.directory = parts_directory(out)
        self._writer = writer
        self._manifest = manifest
        self._lock = lock

    @classmethod
    def open(
        cls,
        out: str | Path,
        *,
        settings: Mapping[str, Any],
        layout: Layout = "per-sentence",
        overwrite: bool = False,
        resume: bool = False,
    ) -> Self:
        """Begins a run, or goes on with one that was cut off.

        Args:
            out: The output file; its suffix says the format. Where it is a link, the file that it
                leads to is written, and the parts lie beside that.
            settings: Name -> JSON value of everything that decides what the output holds. They are
                kept in the output (JSON Lines has no place for them), and a resumed run must have
                the same. `pooling`, if given and not "none", says that rows have one vector each.
                Layout and elmokit's version are added here.
            layout: See `elmokit.embedding.writers.hdf5`; "ragged" is for HDF5 only.
            overwrite: An old output is replaced once the new one is complete; parts of an
                unfinished run are dropped.
            resume: Goes on with an unfinished run; begins one if there is none and no output.

        Raises:
            OutputError: The suffix is unknown; an old output or unfinished run is in the way; the
                run to resume is complete, damaged, or had other settings; another process
                writes this output; the folder is missing or not writable.
            MissingExtraError: The format's package is not installed.
        """
        writer = writer_for(Path(out), layout)
        settings = json.loads(
            json.dumps({**settings, "layout": layout, "elmokit_version": __version__})
        )
        out = check_place(out, overwrite=overwrite, resume=resume)
        with disk_errors(out, ELSEWHERE):
            lock = claim(out)
            try:
                check_place(out, overwrite=overwrite, resume=resume)  # now nobody else changes it
                manifest = _resumed(out, settings) if resume else None
                output = cls(out, writer, manifest or Manifest(settings=settings), lock)
                output._settle(is_new=manifest is None)
            except BaseException:
                remove_beginnings(out)
                lock.close()
                raise
        return output

    @property
    def parts(self) -> tuple[Part, ...]:
        """The finished parts, in order."""
        return self._manifest.parts

    @property
    def num_rows_done(self) -> int:
        """Rows in finished parts: the next row to write."""
        return self._manifest.num_rows

    @property
    def num_tokens_done(self) -> int:
        """Tokens in finished parts."""
        return sum(part.num_tokens for part in self.parts)

    @property
    def summary(self) -> Mapping[str, int]:
        """The counters given to `write`, summed over all finished parts."""
        total: Counter[str] = Counter()
        for part in self.parts:
            total.update(part.summary)
        return total

    @property
    def is_complete(self) -> bool:
        """Whether the resumed run had written all rows, so that only `finish` remains."""
        return self._manifest.stage != "writing"

    def state_path(self, part: Part) -> Path:
        """Returns where the state after a part is; only that of the last part is kept."""
        return _state_path(self.directory, part)

    def last_state(self) -> bytes | None:
        """Returns the state that was given with the last part, if any.

        Raises:
            OutputError: It cannot be read.
        """
        if not self.parts or self.parts[-1].state is None:
            return None
        path = self.state_path(self.parts[-1])
        try:
            return path.read_bytes()
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}; {START_AFRESH}") from error

    def write(
        self,
        rows: Sequence[EmbeddedRow],
        *,
        summary: Mapping[str, int] | None = None,
        state: bytes | None = None,
    ) -> None:
        """Writes the next part; when this returns it is on disk and counts.

        Args:
            rows: The rows from number `num_rows_done` on.
            summary: Counters to be summed over parts.
            state: The LSTM state after these rows, if it is carried on.

        Raises:
            OutputError: The disk is full or refuses; earlier parts are kept.
        """
        first = self.num_rows_done
        if [row.index for row in rows] != list(range(first, first + len(rows))):
            raise ValueError(f"the rows of a part must be numbered from {first} on without a gap")
        name = part_name(len(self.parts))
        path = self.directory / name
        temporary = path.with_name(f"{name}.tmp")
        with self._disk_errors():
            NpzWriter().write(temporary, rows, self._manifest.settings)
            part = Part(
                name=name,
                first_row=first,
                num_rows=len(rows),
                num_tokens=sum(len(row.tokens) for row in rows),
                summary=dict(summary or {}),
                file=Digest.of(temporary),
                state=None if state is None else Digest.of_bytes(state),
            )
            move_into_place(temporary, path)
            if state is not None:
                write_atomically(self.state_path(part), state)
            self._save(self._manifest.with_part(part))
            for earlier in self.parts[-2:-1]:
                self.state_path(earlier).unlink(missing_ok=True)

    def finish(self) -> None:
        """Joins the parts into the output and removes them.

        Raises:
            OutputError: The disk is full or refuses, or a part is damaged; the parts are kept.
        """
        with self._disk_errors():
            if self._manifest.stage == "writing":
                self._advance("written")
            if self._manifest.stage == "written":
                self._join()
                self._advance("joined")
            self._remove_directory()
        self.close()

    def close(self) -> None:
        """Lets other processes have the output; finished parts stay."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if kind is not None and not self.parts and not self._lock.closed:
            with contextlib.suppress(OSError):
                self._remove_directory()
        self.close()

    def _settle(self, *, is_new: bool) -> None:
        """Makes the folder of parts agree with the manifest."""
        if is_new:
            self._refuse_strangers()
            self._save(self._manifest)
        self._remove_files(keep_parts=True)

    def _refuse_strangers(self) -> None:
        """Makes sure that a folder of the right name is ours before its files are removed."""
        for path in sorted(self.directory.iterdir()):
            if not _OWN_FILES.fullmatch(path.name) or path.is_symlink() or not path.is_file():
                raise OutputError(f"{path}: does not belong in a folder of parts; move it away")

    def _join(self) -> None:
        joined = self.directory / _JOINED
        try:
            self._writer.write(joined, self._stored_rows(), self._manifest.settings)
            move_into_place(joined, self.out)
        except Exception:
            with contextlib.suppress(OSError):
                joined.unlink(missing_ok=True)  # a full disk needs the space
            raise

    def _stored_rows(self) -> Iterator[EmbeddedRow]:
        """Reads the rows of all parts, one at a time."""
        for part in self.parts:
            try:
                with open_embeddings(self.directory / part.name) as stored:
                    for row in range(part.num_rows):
                        yield stored.row(row)
            except InputError as error:
                raise OutputError(f"{error}; {START_AFRESH}") from error

    def _advance(self, stage: Stage) -> None:
        self._save(self._manifest.with_stage(stage))

    def _save(self, manifest: Manifest) -> None:
        manifest.save(self.directory / MANIFEST)
        self._manifest = manifest

    def _remove_files(self, *, keep_parts: bool) -> None:
        """Removes own files from the folder of parts, but for the manifest and the lock."""
        keep = {MANIFEST, LOCK}
        if keep_parts:
            keep |= {part.name for part in self.parts}
            keep |= {self.state_path(part).name for part in self.parts[-1:]}
        for path in self.directory.iterdir():
            if path.name not in keep and _OWN_FILES.fullmatch(path.name):
                path.unlink()

    def _remove_directory(self) -> None:
        self._remove_files(keep_parts=False)
        (self.directory / MANIFEST).unlink()  # last, since the stage stands there
        if sys.platform == "win32":
            self._lock.close()  # there an open file cannot be removed
        (self.directory / LOCK).unlink()
        try:
            self.directory.rmdir()
        except OSError as error:
            _logger.warning("%s stays: %s", self.directory, error.strerror)

    def _disk_errors(self) -> contextlib.AbstractContextManager[None]:
        if not self.num_rows_done:
            return disk_errors(self.out, ELSEWHERE)
        kept = f"{self.num_rows_done:,} rows are kept in {self.directory}"
        return disk_errors(self.out, f"and use --resume ({kept})")


def _state_path(directory: Path, part: Part) -> Path:
    return (directory / part.name).with_suffix(".state")


def _resumed(out: Path, settings: Mapping[str, Any]) -> Manifest | None:
    """Returns the manifest of the run to go on with; None if there is none."""
    directory = parts_directory(out)
    path = directory / MANIFEST
    if not path.exists():
        _logger.info("%s: there is nothing to resume; starting afresh", out)
        return None
    manifest = Manifest.load(path)
    manifest.check_settings(settings, out)
    if manifest.stage == "joined":
        return manifest if out.exists() else None
    for part in manifest.parts:
        part.file.check(directory / part.name)
    for part in manifest.parts[-1:]:
        if part.state is not None:
            part.state.check(_state_path(directory, part))
    number = f"{manifest.num_rows:,}"
    _logger.info("%s: %s rows are done; going on with row %s", out, number, number)
    return manifest
