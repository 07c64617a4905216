"""Where the results of an analysis go: NAME.json, NAME.png and NAME.svg in one folder."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmokit.embedding.embedder import Embedder
from elmokit.embedding.manifest import write_atomically
from elmokit.embedding.place import disk_errors
from elmokit.errors import OutputError
from elmokit.model import BiLM
from elmokit.tasks.fingerprint import fingerprint
from elmokit.tasks.results import environment

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an analysis found, in every form."""

    name: str
    """The analysis: stem of its files."""
    summary: str
    """One sentence with the main number."""
    header: tuple[str, ...]
    """Names of the table's columns."""
    rows: tuple[tuple[str, ...], ...]
    """The table."""
    data: Mapping[str, Any]
    """Everything, as JSON values."""
    draw: Callable[[], "Figure"]
    """Draws the figure."""
    pages: Mapping[str, str] = field(default_factory=dict)
    """Further files: name -> text."""

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files."""
        return (*(f"{self.name}.{kind}" for kind in ("json", "png", "svg")), *self.pages)


def check_folder(folder: Path, name: str, *, overwrite: bool) -> None:
    """Refuses a place for results before anything is computed.

    Raises:
        OutputError: It is a file, cannot be made, or holds results of that name already.
    """
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: is a file; give a folder with -o")
    if not folder.parent.is_dir():
        raise OutputError(f"{folder}: there is no folder {folder.parent}; create it first")
    if not os.access(folder if folder.exists() else folder.parent, os.W_OK):
        raise OutputError(f"{folder}: cannot be written; make it writable, or give another with -o")
    if (folder / f"{name}.json").exists() and not overwrite:
        raise OutputError(
            f"{folder / name}.json: exists; use --overwrite to replace it, or give another folder"
        )


def model_facts(bilm: BiLM) -> dict[str, str]:
    """Returns which model it is, as JSON values."""
    return {"name": bilm.title, "sha256": fingerprint(bilm)}


def write_report(report: Report, folder: Path, emb: Embedder | None = None) -> list[Path]:
    """Writes the files of a report, each whole or not at all, the JSON file last.

    Args:
        report: The report.
        folder: Where they go.
        emb: The model that was looked at; None where the report's data tell it.

    Returns:
        The files.

    Raises:
        OutputError: The disk is full or refuses.
        MissingExtraError: matplotlib is not installed.
    """
    from elmokit.analysis.drawing import render

    model = {} if emb is None else {"model": model_facts(emb.bilm)}
    result = {
        "analysis": report.name,
        "summary": report.summary,
        **model,
        **report.data,
        "environment": environment(),
    }
    files = {f"{report.name}.{kind}": data for kind, data in render(report.draw()).items()}
    texts = {
        **report.pages,
        f"{report.name}.json": json.dumps(result, indent=1, ensure_ascii=False),
    }
    # UTF-8 has no surrogates; the escapes that are written in their place mean the same in JSON.
    files |= {name: text.encode("utf-8", "backslashreplace") for name, text in texts.items()}
    with disk_errors(folder, "or give another folder with -o"):
        folder.mkdir(exist_ok=True)
        for name, data in files.items():
            write_atomically(folder / name, data)
    return [folder / name for name in report.files]
