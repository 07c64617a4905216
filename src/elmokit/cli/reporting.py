"""Where the results of an analysis go, and how they are told."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from elmokit.cli.printing import say, say_table

if TYPE_CHECKING:
    from elmokit.analysis.output import Report
    from elmokit.embedding.embedder import Embedder


@dataclass(frozen=True, kw_only=True)  # without slots, or it could not be mixed with others
class ReportSettings:
    """What commands have in common whose results may be kept."""

    folder: Annotated[
        Path | None, tyro.conf.arg(name="output", aliases=["-o"], metavar="FOLDER")
    ] = None
    """Folder for the results, as JSON, PNG and SVG files; without it there is only the table."""
    overwrite: bool = False
    """Replace results that the folder holds."""


def tell(report: "Report", folder: Path | None, emb: "Embedder | None" = None) -> None:
    """Prints a report and writes its files.

    Args:
        report: The report.
        folder: Where its files go; None for none.
        emb: The model that was looked at; None where the report's data tell it.
    """
    from elmokit.analysis.output import write_report

    files = [] if folder is None else write_report(report, folder, emb)
    say_table(report.header, report.rows)
    say(report.summary)
    if files:
        say(f"written: {', '.join(str(path) for path in files)}")
