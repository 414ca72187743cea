"""From rows read to a policy: the fit, what the policy file tells about it, and the command that repeats it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import logofair
from logofair.cli.data import Columns
from logofair.cli.data_rows import DataRows
from logofair.cli.data_values import by_spelling, known_label
from logofair.inputs import InputError
from logofair.solution import Solution

__all__ = ["Wishes", "annotated", "repeat_command", "solve", "write_report_page"]


@dataclass(frozen=True)
class Wishes:
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
        known = by_spelling(list(dict.fromkeys(rows.clients.tolist())), "--client")
        return {known_label(name, known, "--local-for"): t for name, t in self.local_for.items()}


def solve(rows: DataRows, wanted: Wishes) -> Solution:
    """Fit on the rows read.

    Examples
    --------
    >>> import numpy as np
    >>> from logofair.tables import DataSource
    >>> source = DataSource("toy", ("toy.csv",), "0", 4, {})
    >>> scores, groups = np.array([0.9, 0.6, 0.4, 0.2]), np.array(["F", "F", "M", "M"])
    >>> rows = DataRows(scores, None, groups, None, None, 0, source)
    >>> wanted = Wishes({"demographic_parity": None}, 0.02, None, {}, None, "exact", 0)
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


def annotated(solution: Solution, rows: DataRows, columns: Columns, *, by_file: bool) -> Solution:
    """Add to the policy what apply and explain want to know."""
    about = dict(solution.policy.about) | {
        "columns": {
            "score": columns.score,
            "group": list(columns.group),
            "client": columns.client,
            "scale": columns.scale,
            "client is the file name": by_file,
        },
        "data": vars(rows.source) | {"files": list(rows.source.files), "columns": dict(rows.source.columns)},
        "prices": solution.prices(),
        "warnings": list(solution.warnings),
    }
    return replace(solution, policy=replace(solution.policy, about=about))


def write_report_page(path: Path, solution: Solution, rows: DataRows, wanted: Wishes, command: str) -> None:
    """Write the report, with the trade-off where it can be drawn: for one notion."""
    from logofair.frontier import frontier
    from logofair.report import write_report

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


def repeat_command(data: Sequence[str], columns: Columns, wanted: Wishes, out: Path, report: Path | None) -> str:
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
