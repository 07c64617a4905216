"""What every benchmark prints and writes: a heading, tables in Markdown, one JSON file."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def settings_of(settings: Any) -> dict[str, Any]:
    """Return a dataclass of settings without its paths, which say nothing elsewhere."""
    values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    return {
        name: value
        for name, value in values.items()
        if not isinstance(value, Path) and name != "output"
    }


def make_report(settings: Any, machine: Mapping[str, Any], **parts: Any) -> dict[str, Any]:
    """Return the report of a run, ready for JSON.

    Args:
        settings: A dataclass.
        machine: From `describe_machine`.
        parts: `versions` by contender, and what was measured.
    """
    date = datetime.now(UTC).date().isoformat()
    return {"date": date, "machine": machine, "settings": settings_of(settings)} | parts


def print_heading(report: Mapping[str, Any]) -> None:
    """Print on what was measured and with which releases."""
    settings, machine = report["settings"], report["machine"]
    print(
        f"\n{report['date']}, {machine['processor']}, {settings['num_threads']} threads of "
        f"{machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, "
        f"load {machine['load']} before"
    )
    releases = report["versions"].values()
    for line in dict.fromkeys(_in_line(numbers) for numbers in releases):
        print(line)


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table in Markdown: the first column is text, the others are numbers."""
    print(f"\n| {' | '.join(header)} |")
    print(f"|---|{'---:|' * (len(header) - 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def write_report(report: Mapping[str, Any], path: Path | None) -> None:
    """Write every number as JSON, if there is a path."""
    if path is not None:
        path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def _in_line(releases: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in releases.items())
