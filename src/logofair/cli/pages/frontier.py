"""A frontier as a page for people: accuracy by tolerances, the knee, and what was measured of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from logofair.auditing import Audit, Measured
from logofair.auditing.result import NOT_TESTED
from logofair.cli.pages.console import counted, grid, notes, print_page, spoken, titled
from logofair.cli.pages.figures import findings
from logofair.fitting.solution import FitWarning
from logofair.policy.info import tiny
from logofair.tradeoff import Frontier, Point
from logofair.tradeoff.result import tolerance_text

_COLUMNS = 9  # tolerances beside each other on a page of 80 columns
_WARNINGS = 5
_NAMED = 3  # cells named in a warning; more are counted
_GROUPS = 8  # rates shown; a page of more would be read by nobody
_AXES = "Tolerances: local down, global across"
_UNTESTED = f"\n{NOT_TESTED.capitalize()}: add --test FILE"
_MEASURED = "Counted{}, {}. Below each figure its 95 % interval and rows:"


def show(surface: Frontier, data: str, written: Sequence[Path], console: Console) -> None:
    """Print a frontier."""
    expected: list[Any] = []
    for first in range(0, len(surface.global_tolerances), _COLUMNS):
        expected += [
            "",
            *([_AXES] if surface.has_sites else []),
            _table(surface, range(first, min(first + _COLUMNS, len(surface.global_tolerances)))),
        ]
    table = _measured_table(surface)
    labelled = surface.points[0].measured is not None and surface.points[0].measured.accuracy is not None
    counting = _MEASURED.format(" with labels" if labelled else "", surface.measured_on)
    measured = [] if table is None else ["", counting, table]
    # What other rows say comes first.
    parts = [_heading(surface, data), *(measured + expected if surface.test_rows else expected + measured)]
    lines = [*_reading(surface), *_cautions(surface), *(("Written", f"{path}") for path in written)]
    print_page([*parts, "", notes(lines)], console)


def _heading(surface: Frontier, data: str) -> Text:
    sites = f" at {counted(len(surface.sites), 'site')}" if surface.has_sites else ""
    tested = f" ({surface.test_rows:,} others to test on)" if surface.test_rows else ""
    groups = ", ".join(map(str, surface.groups[:8])) + (" ..." if len(surface.groups) > 8 else "")
    return Text(
        f"{data}: {surface.rows:,} rows{tested}{sites}, groups {groups}\n"
        f"{spoken(surface.notions[0]).capitalize()}: {_unconstrained(surface)}"
        f"{'' if surface.test_rows else _UNTESTED}"
    )


def _unconstrained(surface: Frontier) -> str:
    """What the rule is worth that no tolerance binds."""
    objective, held = surface.objective, bool(surface.held.get("limits") or surface.held.get("capacities"))
    without = "any tolerance" if held else "any requirement"
    if objective.costs is None:
        return f"{objective.value(surface.unconstrained.value)} expected accuracy without {without}"
    return f"expected cost {objective.value(surface.unconstrained.value)} without {without}"


def _table(surface: Frontier, columns: range) -> Table:
    """Local tolerances down, global ones across; accuracy in % or cost per person, below it what is lost."""
    table = grid("local" if surface.has_sites else "", *(tolerance_text(surface.global_tolerances[j]) for j in columns))
    knee = surface.knee.point
    for i, local in enumerate(surface.local_tolerances):
        points = [surface.found(i, j) for j in columns]
        rows = "%\nlost" if surface.objective.costs is None else "cost\nmore"
        name = tolerance_text(local) if surface.has_sites else rows
        table.add_row(name, *(_cell(point, marked=point is not None and point is knee) for point in points))
    return table


def _cell(point: Point | None, *, marked: bool) -> Text:
    if point is None:
        return Text("no\nrule", style="dim")
    objective = point.objective
    loss = objective.short(max(point.loss, 0.0))
    sign = "" if not float(loss) else "-" if objective.costs is None else "+"
    figure = Text(f"{'*' if marked else ''}{objective.short(point.value)}", style="bold" if marked else "")
    return figure.append(Text(f"\n{sign}{loss}", style="dim"))


def _shown(surface: Frontier) -> dict[str, Audit]:
    """The points to measure: the strictest, the knee and the loosest, each once, beside their tolerances."""
    points = {"strictest": surface.points[0], "knee": surface.knee.point, "loosest": surface.points[-1]}
    found: dict[str, Audit] = {}
    for name, point in points.items():
        if point is not None and point.measured is not None and point.measured not in found.values():
            sides = (point.local_tolerance, point.global_tolerance)[0 if surface.has_sites else 1 :]
            found[f"{name}\n{' / '.join(map(tolerance_text, sides))}"] = point.measured
    return found


def _measured_table(surface: Frontier) -> Table | None:
    """Rates of the groups, accuracy and gaps of a few points, each with its interval and rows."""
    shown = _shown(surface)
    if not shown:
        return None
    table = grid("\n" + ("local / global" if surface.has_sites else "tolerance"), *shown)
    audits = list(shown.values())
    for rate in audits[0].rates:
        for group in surface.groups[:_GROUPS]:
            table.add_row(f"{rate}, {group}", *(_measured(audit.rates[rate][group]) for audit in audits))
    table.add_row("accuracy", *(_measured(audit.accuracy) for audit in audits))
    if surface.objective.costs is not None:
        table.add_row("cost per person", *(_measured(audit.cost) for audit in audits))
    if surface.has_sites:
        table.add_row("local gap", *(_measured(audit.headline_local.value) for audit in audits))
    name = "global gap" if surface.has_sites else "gap"
    table.add_row(name, *(_measured(audit.headline_global.value) for audit in audits))
    return table


def _measured(found: Measured | None) -> Text:
    """A figure, below it its interval and the rows it rests on."""
    if found is None:
        return Text("undefined")
    limits = f"{found.interval}\n" if found.interval else ""
    rows = "" if found.rows is None else counted(found.rows, "row")
    return Text(f"{found:.4f}").append(Text(f"\n{limits}{rows}", style="dim"))


def _reading(surface: Frontier) -> Iterator[tuple[str, str]]:
    """How to read the tables, and where the knee is."""
    yield from titled("Held", surface.held_sentences)
    yield "Knee", f"{surface.knee.sentence}{' It is marked *.' if surface.knee.point is not None else ''}"
    shown = {name.splitlines()[0].capitalize(): audit for name, audit in _shown(surface).items()}
    found = {name: findings(audit, has_sites=surface.has_sites) for name, audit in shown.items()}
    yield from titled("Shown", (f"{name}: {words}." for name, words in found.items() if words))
    each, free = ("pair of tolerances", " on that side") if surface.has_sites else ("tolerance", "")
    yield (
        "Table",
        f"Expected {surface.objective.scale} of the best rule within each {each}, below it {_lost(surface)}, on the "
        f"calibration rows; none: no requirement{free}.",
    )
    yield from titled("No rule", (point.summary(paired=surface.paired) for point in surface.infeasible[:_WARNINGS]))
    if len(surface.infeasible) > _WARNINGS:
        yield "", f"... and {len(surface.infeasible) - _WARNINGS:,} more points that no rule meets; --json lists them."
    if surface.has_sites:
        yield "Pooling", surface.pooling.summary()
    worst = max(point.certificate.optimality_gap for point in surface.points)
    excess = max(point.certificate.violation for point in surface.points)
    rules = "rule of score, group and site" if surface.basis == "eta" else "weighted threshold of the score"
    better, kept = ("more accurate", "tolerance") if surface.objective.costs is None else ("cheaper", "requirement")
    yield (
        "Proof",
        f"At every point no {rules} within the {kept}s is {better} by more than {tiny(worst)}, and no "
        f"{kept} is exceeded by more than {tiny(excess)}; on {surface.points[0].certificate.measured_on}, counted "
        f"in {'calibrated chances' if surface.basis == 'eta' else 'labels'}.",
    )


def _lost(surface: Frontier) -> str:
    return "the percentage points lost" if surface.objective.costs is None else "what the tolerances add to it"


def _cautions(surface: Frontier) -> Iterator[tuple[str, str]]:
    """What the figures do not say."""
    yield from titled("Small", map(_warning, surface.warnings[:_WARNINGS]))
    if len(surface.warnings) > _WARNINGS:
        yield "", f"... and {len(surface.warnings) - _WARNINGS} more such warnings; --json lists them."
    if len(surface.groups) > _GROUPS:
        yield "Groups", f"{len(surface.groups) - _GROUPS:,} more; --json lists the rates of all."


def _warning(warning: FitWarning) -> str:
    """A warning, with a count in place of many names."""
    if warning.count <= _NAMED:
        return str(warning)
    those = "sites where a gap cannot be measured" if warning.kind == "unmeasured gap" else "groups at sites"
    return f"{warning.count:,} {those}: {warning.finding}."
