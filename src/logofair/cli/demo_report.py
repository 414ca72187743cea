"""The demo's report: the variant that is fair inside each client and across all, with the trade-off around it."""

from __future__ import annotations

from pathlib import Path

from logofair.cli.comparison import Comparison, Settings
from logofair.frontier import frontier
from logofair.report import NewRows, in_memory, write_report

__all__ = ["write_demo_report"]


def write_demo_report(path: Path, comparison: Comparison) -> Path:
    """Write the report of a comparison and return where it is."""
    settings, rows, test = comparison.settings, comparison.calibration_rows, comparison.test_rows
    trade_off = frontier(
        rows.scores,
        rows.labels,
        groups=rows.groups,
        clients=rows.clients,
        notion=settings.notion,
        chosen=(settings.local_tolerance, settings.global_tolerance),
        random_state=settings.seed,
    )
    write_report(
        path,
        comparison.fair,
        data=in_memory(f"{comparison.data}, calibration rows", comparison.fair),
        command=_command(settings),
        new_rows=NewRows(test.scores, test.labels, test.groups, test.clients),
        frontier=trade_off,
    )
    return path


def _command(settings: Settings) -> str:
    """The command that makes the same again."""
    words = {
        "--notion": settings.notion,
        "--local": f"{settings.local_tolerance:g}",
        "--global": f"{settings.global_tolerance:g}",
        "--clients": str(settings.clients),
        "--alpha": f"{settings.alpha:g}",
        "--seed": str(settings.seed),
        "--scheme": settings.scheme,
    }
    return " ".join(["logofair demo", *(f"{name} {value}" for name, value in words.items())])
