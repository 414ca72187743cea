"""A fit as a page for people, and as plain values."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

import logofair
from logofair.auditing import FEW_ROWS, Gap
from logofair.auditing.measure import tally_of
from logofair.auditing.result import RuleAudit
from logofair.cli.options import constrained, typed
from logofair.cli.pages.console import figure, grid, notes, print_page, share, spoken, titled
from logofair.columns.checks import Floats
from logofair.errors import InputError
from logofair.files.inputs import MISSING, ColumnNames
from logofair.files.rows import DataRows
from logofair.files.values import known_label, labels_by_text
from logofair.fitting.solution import Solution
from logofair.notions import NOTIONS
from logofair.policy.info import ColumnsInfo
from logofair.requirements import requirement_sentences

__all__ = [
    "FitOptions",
    "annotated",
    "as_dict",
    "before_and_after",
    "repeat_command",
    "show",
    "solve",
    "write_report_page",
]


_COUNTED_IN = {"eta": "calibrated chances", "labels": "labels"}


@dataclass(frozen=True)
class FitOptions:
    """What is to be fair, and how the rules are found.

    Free tolerances are infinite; in ``notion``, which maps names to tolerances of their own, None is to have none.
    """

    notion: Mapping[str, float | None]
    local_tolerance: float
    global_tolerance: float
    local_for: Mapping[str, float | None]
    calibration: str | None
    basis: str
    solver: str
    seed: int | None

    def notions(self) -> dict[str, dict[str, float | None]]:
        """Per side the notions with their tolerances."""
        sides = {"local": self.local_tolerance, "global": self.global_tolerance}
        return {
            side: {name: constrained(usual if own is None else own) for name, own in self.notion.items()}
            for side, usual in sides.items()
        }

    def method(self, rows: DataRows) -> str:
        """The calibration asked for, or the best there is."""
        return self.calibration or ("none" if rows.labels is None else "beta")

    def single(self, rows: DataRows) -> dict[Any, float | None] | None:
        """Tolerances of single clients, found by how their names are typed."""
        if not self.local_for:
            return None
        if rows.clients is None:
            raise InputError("--local-for: names a client, but the data have none; add --client.")
        known = labels_by_text(list(dict.fromkeys(rows.clients.tolist())), "--client")
        return {known_label(name, known, "--local-for"): t for name, t in self.local_for.items()}


def solve(rows: DataRows, wanted: FitOptions) -> Solution:
    """Fit on the rows read."""
    return logofair.fit(
        rows.scores,
        rows.labels,
        groups=rows.groups,
        clients=rows.clients,
        notion=wanted.notions(),  # type: ignore[arg-type]  # a mapping of mappings by side
        local_tolerance=constrained(wanted.local_tolerance),
        global_tolerance=constrained(wanted.global_tolerance),
        client_tolerances=wanted.single(rows),
        solver=wanted.solver,
        calibration=wanted.method(rows),
        basis=wanted.basis,
        sample_weight=rows.weights,
        random_state=wanted.seed,
    )


def annotated(solution: Solution, rows: DataRows, columns: ColumnNames, *, by_file: bool) -> Solution:
    """Add to the policy what apply and explain want to know."""
    info = replace(
        solution.policy.info,
        columns=ColumnsInfo(columns.score, tuple(columns.group), columns.client, columns.scale, by_file, columns.na),
        data=rows.source,
    )
    return replace(solution, policy=replace(solution.policy, info=info))


def write_report_page(path: Path, solution: Solution, rows: DataRows, wanted: FitOptions, command: str) -> None:
    """Write the report, with the trade-off where it can be drawn: for one notion."""
    from logofair.report import write_report
    from logofair.tradeoff import frontier

    trade_off = None
    if len(wanted.notion) == 1:
        (name,) = wanted.notion
        sides = wanted.notions()
        trade_off = frontier(
            rows.scores,
            rows.labels,
            groups=rows.groups,
            clients=rows.clients,
            notion=name,
            client_tolerances=wanted.single(rows),
            chosen=(sides["local"][name], sides["global"][name]),
            calibration=wanted.method(rows),
            basis=wanted.basis,
            sample_weight=rows.weights,
            random_state=wanted.seed,
        )
    write_report(path, solution, data=rows.source, command=command, frontier=trade_off)


def repeat_command(
    data: Sequence[str], columns: ColumnNames, wanted: FitOptions, out: Path, report: Path | None
) -> str:
    """The command that makes the same rules again, and with a seed the same coins."""
    words = ["logofair", "fit", *data]
    for role in ("score", "label", "client", "weight", "positive"):
        words += [f"--{role}", value] if (value := getattr(columns, role)) is not None else []
    words += [word for name in columns.group for word in ("--group", name)]
    words += ["--scale", columns.scale] if columns.scale != "chance" else []
    words += ["--drop-missing"] if columns.drop_missing else []
    if columns.na != MISSING:
        words += [word for text in columns.na or ("none",) for word in ("--na", text)]
    words += [word for name, value in columns.where for word in ("--where", f"{name}={value}")]
    for name, own in wanted.notion.items():
        words += ["--notion", name if own is None else f"{name}={typed(constrained(own))}"]
    for side, tolerance in (("--local", wanted.local_tolerance), ("--global", wanted.global_tolerance)):
        words += [side, typed(constrained(tolerance))]
    words += [word for name, own in wanted.local_for.items() for word in ("--local-for", f"{name}={typed(own)}")]
    words += ["--calibration", wanted.calibration] if wanted.calibration else []
    words += ["--basis", wanted.basis] if wanted.basis != "eta" else []
    words += ["--solver", wanted.solver] if wanted.solver != "exact" else []
    words += ["--seed", str(wanted.seed)] if wanted.seed is not None else []
    return shlex.join([*words, "--out", str(out), *(["--report", str(report)] if report else [])])


def before_and_after(solution: Solution, names: Sequence[str]) -> tuple[RuleAudit, RuleAudit]:
    """Measure score >= 1/2 and the policy on the calibration rows with labels, for the notions required."""
    rows, policy = solution.rows, solution.policy
    clients = rows.clients.labels if policy.has_clients else None
    fair = policy.probabilities(rows.scores, groups=rows.groups.labels, clients=clients)
    return _measured(solution, (rows.scores >= 0.5).astype(np.float64), names), _measured(solution, fair, names)


def _measured(solution: Solution, chance: Floats, names: Sequence[str]) -> RuleAudit:
    rows = solution.rows
    tally = tally_of(chance, rows.labels, rows.weights, rows.groups, rows.clients)
    return RuleAudit.of(tally, rows.groups.names, rows.clients.names, [NOTIONS[name] for name in names])


def show(
    solution: Solution,
    compared: tuple[RuleAudit, RuleAudit],
    rows: DataRows,
    written: tuple[Path, Path | None],
    console: Console,
) -> None:
    """Print a fit."""
    source, policy = rows.source, solution.policy
    clients = f" at {len(policy.clients):,} clients" if policy.has_clients else ""
    dropped = f" ({rows.dropped:,} left out for lack of a value)" if rows.dropped else ""
    where = f" where {source.columns['where']}" if "where" in source.columns else ""
    heading = f"{source.name}: {source.rows:,} rows{where}{dropped}{clients}; {len(policy.groups):,} groups"
    parts: list[Any] = [Text(heading), "", _table(solution, *compared), "", notes(list(_sentences(solution)))]
    print_page([*parts, "", notes(list(_next(solution, *written)))], console)


def _table(solution: Solution, before: RuleAudit, after: RuleAudit) -> Table:
    """Accuracy and gaps before and after, side by side."""
    counted = "on these rows" if solution.rows.labels is None else "on these rows, by label"
    table = grid(counted, "score >= 1/2", "fair", "rows", left=1)
    size = f"{solution.rows.scores.size:,}"
    table.add_row("accepted", share(before.accepted), share(after.accepted), size)
    if solution.rows.labels is not None:
        table.add_row("accuracy", figure(before.accuracy), figure(after.accuracy), size)
    several = len(solution.policy.clients) > 1
    for name, new in after.by_notion.items():
        old = before.by_notion[name]
        lines = {f"{spoken(name)}, over all": (old.worst_global, new.worst_global)}
        if several:
            lines["  at the worst client"] = worst = (old.worst_local, new.worst_local)
            if worst != (large := (old.worst_large, new.worst_large)):
                lines[f"  the worst with {FEW_ROWS}+ rows"] = large
        for what, gaps in lines.items():
            table.add_row(what, *map(_gap, gaps), "" if gaps[1].rows is None else f"{gaps[1].rows:,}")
    return table


def _gap(gap: Gap) -> str:
    """A gap and where it is."""
    where = "" if gap.client is None else f"{gap.client}  "
    return "undefined" if gap.value is None else f"{where}{gap.value:.4f}"


def _sentences(solution: Solution) -> Iterator[tuple[str, str]]:
    """Requirements, certificate, coins, prices and warnings."""
    c = solution.certificate
    yield from titled("Requirements", requirement_sentences(solution.requirements.as_dict()))
    met = "all are met" if c.violation <= c.precision else f"one is missed by {c.violation:.4f}"
    yield (
        "Proof",
        f"On the calibration rows, counted in {_COUNTED_IN[c.basis]}, {met}; expected accuracy is {c.primal:.4f}, "
        f"and no rule that meets them reaches more than {c.dual:.4f} (optimality gap "
        f"{max(c.optimality_gap, 0.0):.0e}).",
    )
    yield "Coins", solution.coins_summary()
    yield from titled("Price", solution.price_sentences())
    apart = "; gaps above are counted with labels, the requirements with chances, so they differ a little too"
    differ = apart if c.basis == "eta" and solution.rows.labels is not None else ""
    yield "New rows", f"will differ by chance, the more so the fewer there are{differ}."
    yield from titled("Warning", map(str, solution.warnings))


def _next(solution: Solution, policy: Path, report: Path | None) -> Iterator[tuple[str, str]]:
    """What was written and what to do with it."""
    yield "Wrote", str(policy) if report is None else f"{policy} and {report}"
    name, ids = shlex.quote(str(policy)), " --id COLUMN" if solution.policy.mixtures.mixed.any() else ""
    yield from titled("Next", (f"logofair explain {name}", f"logofair apply {name} NEW{ids} --out decisions.csv"))


def as_dict(solution: Solution, compared: tuple[RuleAudit, RuleAudit], rows: DataRows) -> dict[str, Any]:
    """Plain values, ready for JSON."""
    return solution.as_dict() | {
        "data": solution.policy.info.as_dict()["data"],
        "rows_left_out": rows.dropped,
        "before": compared[0].as_dict(),
        "after": compared[1].as_dict(),
        "warnings": list(map(str, solution.warnings)),
    }
