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
from logofair.auditing.figures import FEW_ROWS, Figure, NotionFigures, figures_of
from logofair.auditing.measure import Tally, tally_of
from logofair.auditing.result import value_of
from logofair.cli.pages.audit import grid, notes, print_page, words
from logofair.errors import InputError
from logofair.files.inputs import ColumnNames
from logofair.files.rows import DataRows
from logofair.files.values import known_label, labels_by_text
from logofair.fitting.solution import Solution
from logofair.notions import NOTIONS
from logofair.policy.info import ColumnsInfo, DataInfo

__all__ = [
    "FitOptions",
    "Stage",
    "annotated",
    "as_dict",
    "before_and_after",
    "repeat_command",
    "show",
    "solve",
    "write_report_page",
]


@dataclass(frozen=True)
class FitOptions:
    """What is to be fair, and how the rules are found."""

    notion: Mapping[str, float | None]
    local_tolerance: float | None
    global_tolerance: float | None
    local_for: Mapping[str, float | None]
    calibration: str | None
    solver: str
    seed: int

    def notions(self) -> dict[str, dict[str, float | None]]:
        """Per side the notions with their tolerances."""
        sides = {"local": self.local_tolerance, "global": self.global_tolerance}
        return {
            side: {name: usual if own is None else own for name, own in self.notion.items()}
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
    """Fit on the rows read.

    Examples
    --------
    >>> import numpy as np
    >>> from logofair.files.tables import DataSource
    >>> source = DataSource("toy", ("toy.csv",), "0", 4, {})
    >>> scores, groups = np.array([0.9, 0.6, 0.4, 0.2]), np.array(["F", "F", "M", "M"])
    >>> rows = DataRows(scores, None, groups, None, None, 0, source)
    >>> wanted = FitOptions({"demographic_parity": None}, 0.02, None, {}, None, "exact", 0)
    >>> solve(rows, wanted).certificate.holds
    True
    """
    return logofair.fit(
        rows.scores,
        rows.labels,
        groups=rows.groups,
        clients=rows.clients,
        notion=wanted.notions(),  # type: ignore[arg-type]  # a mapping of mappings by side
        local_tolerance=wanted.local_tolerance,
        global_tolerance=wanted.global_tolerance,
        client_tolerances=wanted.single(rows),
        solver=wanted.solver,
        calibration=wanted.method(rows),
        sample_weight=rows.weights,
        random_state=wanted.seed,
    )


def annotated(solution: Solution, rows: DataRows, columns: ColumnNames, *, by_file: bool) -> Solution:
    """Add to the policy what apply and explain want to know."""
    source = rows.source
    info = replace(
        solution.policy.info,
        columns=ColumnsInfo(columns.score, tuple(columns.group), columns.client, columns.scale, by_file),
        data=DataInfo(source.name, source.files, source.fingerprint, source.rows, dict(source.columns)),
        prices=tuple(solution.prices()),
        warnings=tuple(map(str, solution.warnings)),
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
            sample_weight=rows.weights,
            random_state=wanted.seed,
        )
    write_report(path, solution, data=rows.source, command=command, frontier=trade_off)


def repeat_command(
    data: Sequence[str], columns: ColumnNames, wanted: FitOptions, out: Path, report: Path | None
) -> str:
    """The command that makes the same policy again."""
    import shlex

    words = ["logofair", "fit", *data]
    for role in ("score", "label", "client", "weight", "positive"):
        words += [f"--{role}", value] if (value := getattr(columns, role)) is not None else []
    words += [word for name in columns.group for word in ("--group", name)]
    words += ["--scale", columns.scale] if columns.scale != "chance" else []
    words += ["--drop-missing"] if columns.drop_missing else []
    words += [word for name, value in columns.where for word in ("--where", f"{name}={value}")]
    for name, own in wanted.notion.items():
        words += ["--notion", name if own is None else f"{name}={own:g}"]
    for side, tolerance in (("--local", wanted.local_tolerance), ("--global", wanted.global_tolerance)):
        words += [side, _typed(tolerance)]
    words += [word for name, own in wanted.local_for.items() for word in ("--local-for", f"{name}={_typed(own)}")]
    words += ["--calibration", wanted.calibration] if wanted.calibration else []
    words += ["--solver", wanted.solver] if wanted.solver != "exact" else []
    words += ["--seed", str(wanted.seed)] if wanted.seed else []
    return shlex.join([*words, "--out", str(out), *(["--report", str(report)] if report else [])])


def _typed(tolerance: float | None) -> str:
    return "none" if tolerance is None else f"{tolerance:g}"


@dataclass(frozen=True, eq=False)
class Stage:
    """Accuracy, acceptance and gaps of one rule on the calibration rows, counted with labels."""

    accuracy: float | None
    accepted: float
    notions: tuple[NotionFigures, ...]

    def as_dict(self, tolerance: float) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        names = ("global", "largest_local", "largest_local_30_rows")
        found = {n.notion.name: n.as_dict(tolerance) for n in self.notions}
        gaps = {name: {key: values[key] for key in names} for name, values in found.items()}
        return {"accuracy": self.accuracy, "accepted": self.accepted, "gaps": gaps}


def before_and_after(solution: Solution, names: Sequence[str]) -> tuple[Stage, Stage]:
    """Measure score >= 1/2 and the policy on the calibration rows, for the notions promised.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, groups=["a", "a", "b", "b"], calibration="none")
    >>> before, after = before_and_after(solution, ["demographic_parity"])
    >>> before.notions[0].whole.value, round(after.notions[0].whole.value, 2)
    (1.0, 0.02)
    """
    rows, policy = solution.rows, solution.policy
    clients = rows.clients.labels if policy.has_clients else None
    fair = policy.probabilities(rows.scores, groups=rows.groups.labels, clients=clients)
    return _stage(solution, (rows.scores >= 0.5).astype(np.float64), names), _stage(solution, fair, names)


def _stage(solution: Solution, chance: Any, names: Sequence[str]) -> Stage:
    rows = solution.rows
    tally: Tally = tally_of(chance, rows.labels, rows.weights, rows.groups, rows.clients)
    measured = [NOTIONS[name] for name in names if tally.labelled or not NOTIONS[name].needs_labels]
    figures = tuple(figures_of(tally, notion, rows.groups.names, rows.clients.names) for notion in measured)
    accepted = float(tally.accepted.sum() / tally.mass.sum())
    return Stage(value_of(tally.merged().accuracy()[0]), accepted, figures)


def show(
    solution: Solution,
    compared: tuple[Stage, Stage],
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
    print_page([*parts, "", notes(list(_next(*written)))], console)


def _table(solution: Solution, before: Stage, after: Stage) -> Table:
    """Accuracy and gaps before and after, side by side."""
    counted = "on these rows" if solution.rows.labels is None else "on these rows, by label"
    table = grid(counted, "score >= 1/2", "fair", "rows", left=1)
    table.add_row("accepted", f"{before.accepted:.1%}", f"{after.accepted:.1%}", f"{solution.rows.scores.size:,}")
    if before.accuracy is not None and after.accuracy is not None:
        table.add_row("accuracy", f"{before.accuracy:.4f}", f"{after.accuracy:.4f}", f"{solution.rows.scores.size:,}")
    several = len(solution.policy.clients) > 1
    for old, new in zip(before.notions, after.notions, strict=True):
        name = words(new)
        table.add_row(f"{name}, over all", _gap(old.whole), _gap(new.whole), _rows(new.whole))
        if several:
            table.add_row("  at the worst client", _gap(old.worst), _gap(new.worst), _rows(new.worst))
        if several and (old.worst, new.worst) != (old.worst_solid, new.worst_solid):
            solid = old.worst_solid, new.worst_solid
            table.add_row(f"  the worst with {FEW_ROWS}+ rows", *map(_gap, solid), _rows(solid[1]))
    return table


def _gap(figure: Figure) -> str:
    """A gap and where it is."""
    where = "" if figure.client is None else f"{figure.client}  "
    return "undefined" if figure.value is None else f"{where}{figure.value:.4f}"


def _rows(figure: Figure) -> str:
    return "" if figure.rows is None else f"{figure.rows:,}"


def _sentences(solution: Solution) -> Iterator[tuple[str, str]]:
    """Requirements, certificate, coins, prices and warnings."""
    c = solution.certificate
    yield "Requirements", f"{solution.requirements.summary().replace('_', ' ')}."
    kept = "kept" if c.violation <= c.precision else f"missed by {c.violation:.4f}"
    yield (
        "Proof",
        f"On the calibration rows, in calibrated chances, the promise is {kept}; expected accuracy is {c.primal:.4f}, "
        f"and no rule that keeps it reaches more than {c.dual:.4f} (certified gap {max(c.optimality_gap, 0.0):.0e}).",
    )
    yield "Coins", solution.coins_summary()
    for place, sentence in enumerate(solution.prices()):
        yield "" if place else "Price", sentence
    yield (
        "New rows",
        "will differ by chance, the more so the fewer there are; gaps above are counted with labels, the promise with "
        "chances, so they differ a little too.",
    )
    for place, warning in enumerate(solution.warnings):
        yield "" if place else "Warning", str(warning)


def _next(policy: Path, report: Path | None) -> Iterator[tuple[str, str]]:
    """What was written and what to do with it."""
    yield "Wrote", str(policy) if report is None else f"{policy} and {report}"
    name = shlex.quote(str(policy))
    yield "Next", f"logofair explain {name}"
    yield "", f"logofair apply {name} NEW --out decisions.csv"


def as_dict(solution: Solution, compared: tuple[Stage, Stage], rows: DataRows) -> dict[str, Any]:
    """Plain values, ready for JSON."""
    found = solution.as_dict()
    return found | {
        "data": solution.policy.info.as_dict()["data"],
        "rows_left_out": rows.dropped,
        "before": compared[0].as_dict(0.0),
        "after": compared[1].as_dict(0.0),
        "warnings": list(map(str, solution.warnings)),
    }
