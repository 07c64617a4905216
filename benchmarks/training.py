"""Compare elmokit's training on a CPU with simple-elmo 0.9.2's, which is bilm-tf's: speed, quality.

Usage: python benchmarks/training.py [--quality] [--output results.json]
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tyro

from environments import ensure
from lineup import working_folder
from machine import describe_machine
from report import make_report, print_heading, write_report
from training_quality import measure_quality, print_quality
from training_setup import BASELINE, QUALITY, SPEED, Settings, make_text
from training_speed import measure_speed, print_speed


def main(settings: Settings) -> None:
    """Measure, print the table and check the result against what is required."""
    pythons = {
        BASELINE: ensure(BASELINE, settings.environments),
        "elmokit": Path(sys.executable),
    }
    machine = describe_machine()  # before our own load
    with working_folder() as folder:
        text = make_text(settings, folder)
        print(text.describe(), flush=True)
        measure, print_results = (
            (measure_quality, print_quality) if settings.quality else (measure_speed, print_speed)
        )
        results, versions = measure(settings, text, pythons, folder)
    report = make_report(
        settings,
        machine,
        versions=versions,
        model=QUALITY if settings.quality else SPEED,
        text=text.describe(),
        results=results,
    )
    print_heading(report)
    print_model(report)
    failure = print_results(results)
    write_report(report, settings.output)
    if failure is not None:
        raise SystemExit(failure)


def print_model(report: Mapping[str, Any]) -> None:
    """Print what was trained on what."""
    model = report["model"]
    print(
        f"cell {model['cell_dim']}, projection {model['projection_dim']}, "
        f"{sum(count for _, count in model['filters']):,} filters, "
        f"{model['num_highway']} highway, batch {model['batch_size']}, window {model['window']}, "
        f"{model['num_negatives']:,} negatives, dropout {model['dropout']}; {report['text']}"
    )


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
