"""The demo's page and its report: of the variant that is fair inside each client and over all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from logofair.auditing import FEW_ROWS, Audit
from logofair.cli.options import typed
from logofair.cli.pages.console import figure, grid, notes, print_page, spoken, tiny
from logofair.experiments.comparison import Comparison, MethodResult, Settings
from logofair.report import in_memory, write_report
from logofair.tradeoff import frontier

__all__ = ["show", "write_demo_report"]


_NAMED = 3  # undefined rates listed by name


def show(comparison: Comparison, console: Console) -> None:
    """Print a comparison."""
    table = _table(comparison, tick=" ✓" if console.encoding.startswith("utf") else "")
    lines = [*_reading(comparison), *_cautions(comparison)]
    print_page([_heading(comparison), "", table, "", notes(lines)], console)


def _heading(comparison: Comparison) -> Text:
    settings, rows = comparison.settings, comparison.rows
    return Text(
        f"{comparison.data.capitalize()}: {sum(rows.values()):,} rows at {settings.clients:,} clients "
        f"(Dirichlet, alpha {settings.alpha:g}, {settings.scheme} scheme), seed {settings.random_state}\n"
        f"{rows['train']:,} rows to train FedAvg, {rows['calibration']:,} to calibrate, {rows['test']:,} to test"
    )


def _table(comparison: Comparison, tick: str) -> Table:
    """Methods down; figures on the test rows, then requirements and certificates across."""
    two_local = _splits_local(comparison)
    large = ["local\ngap 30+"] if two_local else []
    table = grid("\nmethod", "\naccuracy", "local\ngap", *large, "global\ngap", padding=1)
    table.add_column("requirements\nmet", overflow="fold")
    table.add_column("optimality\ngap, violation", overflow="fold")
    for outcome in comparison.outcomes:
        table.add_row(*_row(outcome, two_local, tick))
    return table


def _row(outcome: MethodResult, two_local: bool, tick: str) -> Iterator[str | Text]:
    """One method's cells; figures on whose side something was required are bold."""
    local = "" if outcome.local_tolerance is None else "bold"
    global_ = "" if outcome.global_tolerance is None else "bold"
    yield outcome.name
    yield figure(outcome.audit.accuracy)
    yield Text(figure(outcome.audit.local_gap), style=local)
    if two_local:
        yield Text(figure(outcome.audit.large_local_gap), style=local)
    yield Text(figure(outcome.audit.global_gap), style=global_)
    sides = [side for side, style in (("local", local), ("global", global_)) if style]
    certificate = outcome.certificate
    if certificate is None:
        yield from ("-", "-")
    else:
        yield f"{', '.join(sides) or 'none'}{tick}" if outcome.met else "no"
        yield f"{tiny(certificate.optimality_gap)}, {tiny(certificate.violation)}"


def _reading(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """What was required, and how to read the figures."""
    settings, rates = comparison.settings, [rate.name for rate in comparison.tested.local.rates]
    yield (
        "Gap",
        f"The largest difference in {' or '.join(rates)} between the groups "
        f"({', '.join(map(str, comparison.groups))}); local: at the worst client, global: over all rows.",
    )
    yield (
        "Requirements",
        f"{spoken(settings.notion).capitalize()} on the calibration rows in expectation, by calibrated score: for "
        f"LoGoFair_g a global tolerance of {typed(settings.global_tolerance)}, for LoGoFair_l a local tolerance of "
        f"{typed(settings.local_tolerance)}, for LoGoFair_l&g both.",
    )
    yield (
        "Test rows",
        "Accuracy and gaps are measured on them; they differ from the calibration rows by chance, the more so the "
        "fewer there are.",
    )
    yield (
        "Certificate",
        "On the calibration rows no rule that meets the requirements is more accurate by more than the optimality "
        "gap, and no tolerance is exceeded by more than the violation.",
    )


def _cautions(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Which figures rest on little or nothing."""
    clients, present = comparison.settings.clients, len(comparison.tested.clients)
    left_out = "; 'gap 30+' leaves such rates out" if _splits_local(comparison) else ""
    yield "Small", _small(comparison.tested, "test", f"so that its gap is mostly chance{left_out}")
    yield "", _small(comparison.calibrated, "calibration", "so that what is met there says little about new rows")
    undefined = comparison.tested.undefined
    if undefined:
        more = f"; and {len(undefined) - _NAMED:,} more" if len(undefined) > _NAMED else ""
        yield "Undefined", f"On the test rows the {'; '.join(undefined[:_NAMED])}{more}. Such gaps are left out."
    if present < clients:
        yield "Absent", f"{_of(clients - present, clients)} no test rows."
    if comparison.unmeasured:
        yield (
            "Unmeasured",
            f"{_of(comparison.unmeasured, clients)} calibration rows of fewer than two groups, so that there is no "
            "local gap to keep within a tolerance.",
        )


def _small(audit: Audit, part: str, consequence: str) -> str:
    """How many clients of a part are small, and its smallest cell."""
    least, small, clients = audit.smallest, audit.small_clients, len(audit.clients)
    fewest = f"the fewest: {least.rows:,}, {least.rate} of group {least.group!r} at client {least.client!r}"
    if not small:
        return f"Every rate rests on {FEW_ROWS} {part} rows or more ({fewest})."
    return (
        f"At {small:,} of {clients:,} clients some rate rests on fewer than {FEW_ROWS} {part} rows ({fewest}), "
        f"{consequence}."
    )


def _splits_local(comparison: Comparison) -> bool:
    """Whether some clients are small, but not all."""
    return 0 < comparison.tested.small_clients < len(comparison.tested.clients)


def _of(some: int, every: int) -> str:
    return f"{some:,} of {every:,} clients {'has' if some == 1 else 'have'}"


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
        random_state=settings.random_state,
    )
    tested = comparison.fair.test(test.scores, test.labels, groups=test.groups, clients=test.clients)
    write_report(
        path,
        tested,
        data=in_memory(comparison.data, comparison.fair),
        command=_command(settings),
        frontier=trade_off,
    )
    return path


def _command(settings: Settings) -> str:
    """The command that makes the same again."""
    words = {
        "--notion": settings.notion,
        "--local": typed(settings.local_tolerance),
        "--global": typed(settings.global_tolerance),
        "--clients": str(settings.clients),
        "--alpha": f"{settings.alpha:g}",
        "--seed": str(settings.random_state),
        "--scheme": settings.scheme,
    }
    return " ".join(["logofair demo", *(f"{name} {value}" for name, value in words.items())])
