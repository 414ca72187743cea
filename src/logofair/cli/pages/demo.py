"""The demo's page and its report: of the variant that is fair inside each site and over all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from logofair.auditing import FEW_ROWS, Measured
from logofair.cli.demo_run import BASE, Comparison
from logofair.cli.options import typed, typed_command
from logofair.cli.pages.console import counted, grid, notes, print_page, spoken, titled
from logofair.cli.pages.figures import findings
from logofair.policy.info import added_to_rows, tiny
from logofair.report import ReportHeading, in_memory, write_report
from logofair.requirements import Ratio, Tolerance
from logofair.tradeoff import frontier

_NAMED = 3  # undefined rates listed by name


def show(comparison: Comparison, console: Console) -> None:
    """Print a comparison."""
    lines = [*_shown(comparison), *_reading(comparison), *_cautions(comparison)]
    print_page([_heading(comparison), "", _table(comparison), "", notes(lines)], console)


def _heading(comparison: Comparison) -> Text:
    settings, rows = comparison.settings, comparison.rows
    return Text(
        f"{comparison.data.capitalize()}: {sum(rows.values()):,} rows at {settings.sites:,} sites "
        f"(Dirichlet, alpha {settings.alpha:g}), seed {settings.random_state}\n"
        f"{rows['train']:,} rows to train the plain model (scikit-learn's logistic regression),\n"
        f"{rows['calibration']:,} to calibrate, {rows['test']:,} to test\n\n"
        f"Measured on the {rows['test']:,} test rows, which took no part in training or fit;\n"
        "below each figure its 95 % interval:"
    )


def _table(comparison: Comparison) -> Table:
    """Methods across; their tolerances, then rates, accuracy and gaps on the test rows downwards."""
    methods = comparison.outcomes
    heads = [f"{m.name}\n{_required(m.local_tolerance)}\n{_required(m.global_tolerance)}" for m in methods]
    table = grid("\nlocal tolerance\nglobal tolerance", *heads)
    audits = [outcome.audit for outcome in methods]
    for rate, row in audits[0].rates.items():
        for group in row:
            _add(table, f"{rate}, {group}", [audit.rates[rate][group] for audit in audits])
    _add(table, "accuracy", [audit.accuracy for audit in audits])
    _add(
        table,
        f"  less {BASE.lower()}'s",
        [None if m.difference is None else m.difference.accuracy for m in methods],
        "+",
    )
    _add(table, "local gap", [audit.headline_local.value for audit in audits])
    _add(table, "global gap", [audit.headline_global.value for audit in audits])
    return table


def _required(tolerance: Tolerance) -> str:
    return "-" if tolerance is None else typed(tolerance)


def _add(table: Table, name: str, figures: Sequence[Measured | None], sign: str = "") -> None:
    """Add a line of figures; the rows stand by the name where they are the same for all."""
    counts = {found.rows for found in figures if found is not None}
    same = len(counts) == 1
    cells = [_cell(found, sign, rows=not same) for found in figures]
    table.add_row(f"{name}\n  {counted(counts.pop() or 0, 'row')}" if same else name, *cells)


def _cell(found: Measured | None, sign: str, *, rows: bool) -> Text:
    """A figure, below it both ends of its interval and, where asked, its rows."""
    if found is None:
        return Text("-" if sign else "undefined")
    limits = "" if found.low is None else f"\n{found.low:{sign}.4f} to\n{found.high:{sign}.4f}"
    more = f"\n{counted(found.rows, 'row')}" if rows and found.rows is not None else ""
    return Text(f"{found:{sign}.4f}").append(Text(f"{limits}{more}", style="dim"))


def _shown(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """What the test rows show of every method beyond chance."""
    found = {outcome.name: findings(outcome.audit, has_sites=True) for outcome in comparison.outcomes}
    yield from titled("Shown", (f"{name}: {words}." for name, words in found.items() if words))
    checked = {outcome.name: outcome.sites for outcome in comparison.outcomes}
    checks = (f"{name}: {' '.join(str(check).split())}" for name, check in checked.items() if check is not None)
    yield from titled("Sites", checks)
    few = {outcome.name: outcome.audit.with_few_rows(local=True) for outcome in comparison.outcomes}
    yield from titled("Few", (f"{name}: {sentence}" for name, sentence in few.items() if sentence))


def _reading(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """What was required, and how to read the figures."""
    settings, rates = comparison.settings, [rate.name for rate in comparison.tested.local.rates]
    yield (
        "Gap",
        f"The largest difference in {' or '.join(rates)} between the groups "
        f"({', '.join(map(str, comparison.groups))}); local: at the worst site, global: over all rows.",
    )
    yield (
        "Required",
        f"{spoken(settings.notion).capitalize()} on the calibration rows in expectation, by calibrated score: for "
        f"LoGoFair_g {_wanted('global', settings.global_tolerance)}, for LoGoFair_l "
        f"{_wanted('local', settings.local_tolerance)}, for LoGoFair_l&g both. Other rows differ by chance, the more "
        "so the fewer there are.",
    )
    certificates = [each.certificate for each in comparison.outcomes if each.certificate is not None]
    gap, violation = (max(getattr(each, name) for each in certificates) for name in ("optimality_gap", "violation"))
    ratios = any(isinstance(each, Ratio) for each in (settings.local_tolerance, settings.global_tolerance))
    required = "requirement" if ratios else "tolerance"
    added = next((words for each in certificates if (words := added_to_rows(each.pooling))), "")
    yield (
        "Proof",
        f"On the calibration rows{added}, in calibrated chances, no rule of score, group and site within the "
        f"{required}s is more accurate by more than {tiny(gap)}, and no {required} is exceeded by more than "
        f"{tiny(violation)}.",
    )


def _wanted(side: str, tolerance: Tolerance) -> str:
    """What is required on a side."""
    if isinstance(tolerance, Ratio):
        return f"a smallest {side} rate of at least {tolerance.least:g} times the largest"
    return f"a {side} tolerance of {typed(tolerance)}"


def _cautions(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Which figures rest on little or nothing."""
    tested = comparison.tested
    least, small, sites = tested.smallest, tested.small_sites, len(tested.sites)
    fewest = f"the fewest: {least.rows:,}, {least.rate} of group {least.group!r} at site {least.site!r}"
    yield (
        "Small",
        f"At {small:,} of {sites:,} sites some rate rests on fewer than {FEW_ROWS} test rows ({fewest}), so that "
        "its gap is mostly chance."
        if small
        else f"Every rate rests on {FEW_ROWS} test rows or more ({fewest}).",
    )
    if undefined := tested.undefined:
        more = f"; and {len(undefined) - _NAMED:,} more" if len(undefined) > _NAMED else ""
        yield "Undefined", f"On the test rows the {'; '.join(undefined[:_NAMED])}{more}. Such gaps are left out."


def write_demo_report(path: Path, comparison: Comparison) -> Path:
    """Write the report of a comparison and return where it is."""
    settings, rows, test = comparison.settings, comparison.calibration_rows, comparison.test_rows
    trade_off = frontier(
        rows.scores,
        rows.labels,
        groups=rows.groups,
        sites=rows.sites,
        notion=settings.notion,
        chosen=(settings.local_tolerance, settings.global_tolerance),
        random_state=settings.random_state,
        test_rows={"scores": test.scores, "labels": test.labels, "groups": test.groups, "sites": test.sites},
    )
    tested = comparison.fair.test(test.scores, test.labels, groups=test.groups, sites=test.sites)
    write_report(
        path,
        tested,
        data=in_memory(comparison.data, comparison.fair),
        command=typed_command(),
        frontier=trade_off,
        heading=ReportHeading(purpose="a demonstration on public data", made=date.today().isoformat()),
    )
    return path
