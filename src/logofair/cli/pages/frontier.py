"""A frontier as a page for people: accuracy by tolerances, the knee, and what held-out rows say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from logofair.auditing import FEW_ROWS
from logofair.cli.pages.console import counted, grid, notes, print_page, spoken, tiny, titled
from logofair.tradeoff import Frontier, HeldOut, Point
from logofair.tradeoff.result import tolerance_text

__all__ = ["show"]


_COLUMNS = 9  # tolerances beside each other on a page of 80 columns
_WARNINGS = 5
_AXES = "Tolerances: local down, global across"


def show(surface: Frontier, data: str, written: Sequence[Path], console: Console) -> None:
    """Print a frontier."""
    parts: list[Any] = [_heading(surface, data)]
    for first in range(0, len(surface.global_tolerances), _COLUMNS):
        parts += [
            "",
            *([_AXES] if surface.has_clients else []),
            _table(surface, range(first, min(first + _COLUMNS, len(surface.global_tolerances)))),
        ]
    if surface.held_out_rows:
        parts += ["", _held_out_table(surface)]
    lines = [*_reading(surface), *_cautions(surface), *(("Written", f"{path}") for path in written)]
    print_page([*parts, "", notes(lines)], console)


def _heading(surface: Frontier, data: str) -> Text:
    sites = f" at {len(surface.clients):,} clients" if surface.has_clients else ""
    kept = f" ({surface.held_out_rows:,} more kept back)" if surface.held_out_rows else ""
    groups = ", ".join(map(str, surface.groups[:8])) + (" ..." if len(surface.groups) > 8 else "")
    base = surface.unconstrained
    lines = [
        f"{data}: {surface.rows:,} rows{kept}{sites}, groups {groups}",
        f"{spoken(surface.notions[0]).capitalize()}: {100 * base.accuracy:.2f} % expected accuracy "
        "without any requirement",
    ]
    if surface.has_clients and base.local_gap is not None:
        where = (
            f"at client {base.local_gap_client!r}, whose smallest group has {counted(base.local_gap_rows or 0, 'row')}"
        )
        lines.append(f"Largest local gap then {base.local_gap:.4f} ({where})")
    if base.global_gap is not None:
        smallest = counted(base.global_gap_rows or 0, "row")
        lines.append(f"Gap over all rows then {base.global_gap:.4f} (smallest group: {smallest})")
    return Text("\n".join(lines))


def _table(surface: Frontier, columns: range) -> Table:
    """Local tolerances down, global ones across; accuracy in %, below it the points lost."""
    table = grid(
        "local" if surface.has_clients else "", *(tolerance_text(surface.global_tolerances[j]) for j in columns)
    )
    knee = surface.knee.point
    for i, local in enumerate(surface.local_tolerances):
        points = [surface.points[i * len(surface.global_tolerances) + j] for j in columns]
        name = tolerance_text(local) if surface.has_clients else "%\nlost"
        table.add_row(name, *(_cell(point, marked=point is knee) for point in points))
    return table


def _cell(point: Point, *, marked: bool) -> Text:
    loss = 100 * max(point.loss, 0.0)
    figure = Text(f"{'*' if marked else ''}{100 * point.accuracy:.2f}", style="bold" if marked else "")
    return figure.append(Text(f"\n-{loss:.2f}" if loss >= 0.005 else "\n0.00", style="dim"))


def _held_out_table(surface: Frontier) -> Table:
    """What the strictest, the marked and the loosest point do on rows kept back."""
    sides, local = (("local", "global"), ("local gap", "gap 30+")) if surface.has_clients else (("tolerance",), ())
    table = grid("held-out rows", *sides, "accuracy", *local, "global gap" if local else "gap")
    shown = {"strictest": surface.points[0], "knee": surface.knee.point, "loosest": surface.points[-1]}
    for name, point in shown.items():
        if point is not None and point.held_out is not None:
            both = (tolerance_text(point.local_tolerance), tolerance_text(point.global_tolerance))
            table.add_row(name, *both[-len(sides) :], *_measured(point.held_out, local=surface.has_clients))
    return table


def _measured(found: HeldOut, *, local: bool) -> Iterator[str]:
    yield "undefined" if found.accuracy is None else f"{100 * found.accuracy:.2f}"
    if local:
        yield _gap(found.local_gap, found.local_gap_rows)
        yield _gap(found.large_local_gap, found.large_local_gap_rows)
    yield _gap(found.global_gap, found.global_gap_rows)


def _gap(value: float | None, rows: int | None) -> str:
    """A gap and how many rows the smaller side of it rests on."""
    return "undefined" if value is None or rows is None else f"{value:.4f}\n({counted(rows, 'row')})"


def _reading(surface: Frontier) -> Iterator[tuple[str, str]]:
    """How to read the table, and where the knee is."""
    yield "Knee", f"{surface.knee.sentence}{' It is marked *.' if surface.knee.point is not None else ''}"
    each, free = ("pair of tolerances", " on that side") if surface.has_clients else ("tolerance", "")
    yield (
        "Table",
        f"Expected accuracy in % of the best rule within each {each}, below it the percentage points lost; "
        f"none: no requirement{free}.",
    )
    worst = max(point.certificate.optimality_gap for point in surface.points)
    excess = max(point.certificate.violation for point in surface.points)
    yield (
        "Proof",
        f"At every point no rule within the tolerances is more accurate by more than {tiny(worst)}, and no "
        f"tolerance is exceeded by more than {tiny(excess)}; on these rows, counted in "
        f"{'calibrated chances' if surface.basis == 'eta' else 'labels'}.",
    )


def _cautions(surface: Frontier) -> Iterator[tuple[str, str]]:
    """What the figures do not say."""
    large = f" 'gap 30+' compares only rates that rest on {FEW_ROWS} rows or more."
    if surface.held_out_rows:
        yield (
            "Held out",
            f"Counted with labels on {surface.held_out_rows:,} rows that took no part; below each gap the rows behind "
            f"the smaller side of it.{large if surface.has_clients else ''}",
        )
    else:
        yield "New rows", "They differ from these by chance; --test-share 0.3 measures on rows kept back."
    yield from titled("Small", surface.warnings[:_WARNINGS])
    if len(surface.warnings) > _WARNINGS:
        yield "", f"... and {len(surface.warnings) - _WARNINGS} more such warnings; --json lists them."
