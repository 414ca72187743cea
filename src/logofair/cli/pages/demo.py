"""The demo's report: the variant that is fair inside each client and across all, with the trade-off around it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from logofair.auditing.support import FEW_ROWS, Support
from logofair.experiments.comparison import Comparison, MethodResult, Settings
from logofair.report import NewRows, in_memory, write_report
from logofair.tradeoff import frontier

__all__ = ["show", "write_demo_report"]


_NAMED = 3  # undefined rates listed by name


def show(comparison: Comparison, console: Console) -> None:
    """Print a comparison, without the spaces that would fill lines up to the page's width.

    Examples
    --------
    >>> import numpy as np
    >>> from logofair.experiments.comparison import Settings, compare
    >>> from logofair.datasets import Dataset
    >>> features = np.random.default_rng(0).random((2000, 2))
    >>> data = Dataset("toy", features, ("a", "b"), features.sum(1) > 1, np.where(features[:, 0] > 0.4, "M", "F"))
    >>> show(compare(data, Settings(clients=2, alpha=5)), Console(width=80))  # doctest: +ELLIPSIS
    Toy: 2,000 rows at 2 clients (Dirichlet, alpha 5, plain scheme), seed 0
    700 rows to train FedAvg, 700 to calibrate, 600 to test
    ...
    """
    with console.capture() as captured:
        console.print(_heading(comparison), end="\n\n")
        console.print(_table(comparison, tick=" ✓" if console.encoding.startswith("utf") else ""))
        console.print()
        notes = Table.grid(padding=(0, 2, 0, 0))
        notes.add_column(style="bold", no_wrap=True)
        notes.add_column()
        for label, sentence in (*_reading(comparison), *_cautions(comparison)):
            notes.add_row(label, sentence)
        console.print(notes)
    console.file.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _heading(comparison: Comparison) -> Text:
    settings, rows = comparison.settings, comparison.rows
    return Text(
        f"{comparison.data.capitalize()}: {sum(rows.values()):,} rows at {settings.clients:,} clients "
        f"(Dirichlet, alpha {settings.alpha:g}, {settings.scheme} scheme), seed {settings.seed}\n"
        f"{rows['train']:,} rows to train FedAvg, {rows['calibration']:,} to calibrate, {rows['test']:,} to test"
    )


def _table(comparison: Comparison, tick: str) -> Table:
    """Methods down; figures on the test rows, then promises and certificates across."""
    two_local = _splits_local(comparison)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("\nmethod", overflow="fold")
    for header in ("\naccuracy", "local\ngap", *(["local\ngap 30+"] if two_local else []), "global\ngap"):
        table.add_column(header, justify="right", overflow="fold")
    table.add_column("promise\nkept", overflow="fold")
    table.add_column("certificate\ngap, violation", overflow="fold")
    for outcome in comparison.outcomes:
        table.add_row(*_row(outcome, two_local, tick))
    return table


def _row(outcome: MethodResult, two_local: bool, tick: str) -> Iterator[str | Text]:
    """One method's cells; figures whose side it promised are bold."""
    local = "" if outcome.local_promise is None else "bold"
    overall = "" if outcome.global_promise is None else "bold"
    yield outcome.name
    yield _figure(outcome.audit.accuracy)
    yield Text(_figure(outcome.audit.local_gap), style=local)
    if two_local:
        yield Text(_figure(outcome.large_gap), style=local)
    yield Text(_figure(outcome.audit.global_gap), style=overall)
    sides = [side for side, style in (("local", local), ("global", overall)) if style]
    certificate = outcome.certificate
    if certificate is None:
        yield from ("-", "-")
    else:
        yield f"{', '.join(sides)}{tick}" if outcome.kept else "no"
        yield f"{_tiny(certificate.optimality_gap)}, {_tiny(certificate.violation)}"


def _reading(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """What was promised, and how to read the figures."""
    settings = comparison.settings
    yield (
        "Gap",
        f"The largest difference in {' or '.join(comparison.test_support.rates)} between the groups "
        f"({', '.join(map(str, comparison.groups))}); local: at the worst client, global: over all rows.",
    )
    yield (
        "Requirements",
        f"{settings.notion.replace('_', ' ').capitalize()} on the calibration rows in expectation, by calibrated "
        f"score: LoGoFair_g keeps the global gap within {settings.global_tolerance:g}, LoGoFair_l every local gap "
        f"within {settings.local_tolerance:g}, LoGoFair_l&g both.",
    )
    yield (
        "Test rows",
        "Accuracy and gaps are measured on them; they differ from the calibration rows by chance, the more so the "
        "fewer there are.",
    )
    yield (
        "Certificate",
        "On the calibration rows no rule that keeps the promise is more accurate by more than the gap, and no "
        "tolerance is exceeded by more than the violation.",
    )


def _cautions(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Which figures rest on little or nothing."""
    clients, present = comparison.settings.clients, len(comparison.test_support.clients)
    left_out = "; 'gap 30+' leaves such clients out" if _splits_local(comparison) else ""
    yield "Small", _small(comparison.test_support, "test", f"so that its gap is mostly chance{left_out}")
    yield "", _small(comparison.calibration_support, "calibration", "so that a promise says little about new rows")
    undefined = comparison.outcomes[0].audit.undefined
    if undefined:
        more = f"; and {len(undefined) - _NAMED:,} more" if len(undefined) > _NAMED else ""
        yield "Undefined", f"On the test rows the {'; '.join(undefined[:_NAMED])}{more}. Such gaps are left out."
    if present < clients:
        yield "NoReply", f"{_of(clients - present, clients)} no test rows."
    if comparison.unpromised:
        yield (
            "Unpromised",
            f"{_of(comparison.unpromised, clients)} calibration rows of fewer than two groups, so that no local gap "
            "is promised there.",
        )


def _small(support: Support, part: str, consequence: str) -> str:
    """How many clients of a part are small, and its smallest cell."""
    rate, client, group, rows = support.smallest()
    fewest = f"the fewest: {rows:,}, {rate} of group {group!r} at client {client!r}"
    small, clients = int(support.small_clients.sum()), len(support.clients)
    if not small:
        return f"Every rate rests on {FEW_ROWS} {part} rows or more ({fewest})."
    return (
        f"At {small:,} of {clients:,} clients some rate rests on fewer than {FEW_ROWS} {part} rows ({fewest}), "
        f"{consequence}."
    )


def _splits_local(comparison: Comparison) -> bool:
    """Whether some clients are small, but not all."""
    small = comparison.test_support.small_clients
    return bool(small.any() and not small.all())


def _of(some: int, every: int) -> str:
    return f"{some:,} of {every:,} clients {'has' if some == 1 else 'have'}"


def _figure(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def _tiny(value: float) -> str:
    """A figure near 0; rounding may leave it a hair below."""
    return f"{value:.0e}" if value > 0 else "0"


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
