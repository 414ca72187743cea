"""A fit as it is asked for on the command line: options to arguments, files to rows, the policy's notes."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import logofair
from logofair.cli.options import constrained
from logofair.cli.requiring import Required
from logofair.errors import InputError
from logofair.files.inputs import ColumnNames
from logofair.files.rows import DataRows
from logofair.files.values import known_label, labels_by_text
from logofair.fitting.solution import Solution
from logofair.policy.info import ColumnsInfo
from logofair.progress import Progress, no_progress
from logofair.records import plain
from logofair.requirements import Tolerance

if TYPE_CHECKING:
    from logofair.tradeoff import Frontier


@dataclass(frozen=True)
class FitOptions:
    """What is to be fair, how the rules are found and tested, and how the report is headed.

    Free tolerances are infinite; in ``notion``, which maps names to tolerances of their own, None is to have none.
    """

    notion: Mapping[str, Tolerance]
    local_tolerance: Tolerance
    global_tolerance: Tolerance
    local_for: Mapping[str, Tolerance]
    calibration: str | None
    basis: str
    pooling: str
    confidence: float | None
    solver: str
    seed: int | None
    test: Sequence[str] = ()
    test_where: tuple[tuple[str, str], ...] = ()
    title: str | None = None
    purpose: str | None = None
    author: str | None = None
    decision_word: str | None = None
    required: Required = field(default_factory=Required)

    @property
    def heading(self) -> dict[str, str | None]:
        """What the options of a report say."""
        return {name: getattr(self, name) for name in ("title", "purpose", "author", "decision_word")}

    def notions(self) -> dict[str, dict[str, Tolerance]]:
        """Per side the notions with their tolerances."""
        sides = {"local": self.local_tolerance, "global": self.global_tolerance}
        return {
            side: {name: constrained(usual if own is None else own) for name, own in self.notion.items()}
            for side, usual in sides.items()
        }

    def check_pooling(self) -> None:
        """Raise where promises are wanted of rules that all sites share."""
        if self.confidence is not None and self.pooling == "full" and self.basis == "eta":
            raise InputError(
                "--pooling full: given together with --confidence, whose promises rest on labelled rows of each site "
                "alone; use one of the two."
            )

    def method(self, rows: DataRows) -> str:
        """The calibration asked for, or the best there is."""
        return self.calibration or ("none" if rows.labels is None else "beta")

    def single(self, rows: DataRows) -> dict[Any, Tolerance] | None:
        """Tolerances of single sites, found by how their names are typed."""
        if not self.local_for:
            return None
        if rows.sites is None:
            raise InputError("--local-for: names a site, but the data have none; add --site.")
        known = labels_by_text(list(dict.fromkeys(rows.sites.tolist())), "--site")
        return {known_label(name, known, "--local-for"): t for name, t in self.local_for.items()}


def solve(rows: DataRows, wanted: FitOptions, progress: Progress = no_progress) -> Solution:
    """Fit on the rows read."""
    return logofair.fit(
        rows.scores,
        rows.labels,
        groups=rows.groups,
        sites=rows.sites,
        notion=wanted.notions(),  # type: ignore[arg-type]  # a mapping of mappings by side
        local_tolerance=constrained(wanted.local_tolerance),
        global_tolerance=constrained(wanted.global_tolerance),
        site_tolerances=wanted.single(rows),
        **wanted.required.arguments(rows),
        solver=wanted.solver,
        calibration=wanted.method(rows),
        basis=wanted.basis,
        pooling=wanted.pooling,
        confidence=wanted.confidence,
        ids=rows.ids,
        sample_weight=rows.weights,
        random_state=wanted.seed,
        progress=progress,
    )


def measured_on(other: DataRows, solution: Solution) -> Solution:
    """Test a solution on other rows, and note in its policy which."""
    try:
        solution = solution.test(
            other.scores,
            other.labels,
            groups=other.groups,
            sites=other.sites,
            sample_weight=other.weights,
            ids=other.ids,
        )
    except InputError as error:
        raise InputError(f"--test: {error}") from None
    info = solution.policy.info
    assert info.tested is not None
    return solution.with_info(replace(info, tested=replace(info.tested, data=other.source)))


def annotated(solution: Solution, rows: DataRows, columns: ColumnNames) -> Solution:
    """Add to the policy what apply and explain want to know."""
    info = replace(
        solution.policy.info,
        columns=ColumnsInfo(columns.score, tuple(columns.group), columns.site, columns.scale, columns.na),
        data=rows.source,
    )
    return solution.with_info(info)


def trade_off(rows: DataRows, wanted: FitOptions, progress: Progress = no_progress) -> Frontier | None:
    """The frontier that stands in the report, where it can be drawn: for one notion."""
    from logofair.tradeoff import frontier

    if len(wanted.notion) != 1:
        return None
    (name,) = wanted.notion
    sides = wanted.notions()
    return frontier(
        rows.scores,
        rows.labels,
        groups=rows.groups,
        sites=rows.sites,
        notion=name,
        site_tolerances=wanted.single(rows),
        chosen=(sides["local"][name], sides["global"][name]),
        **wanted.required.arguments(rows),
        calibration=wanted.method(rows),
        basis=wanted.basis,
        pooling="none" if wanted.confidence is not None else wanted.pooling,  # as the certificate
        sample_weight=rows.weights,
        random_state=wanted.seed,
        progress=progress,
    )


def next_command(solution: Solution, policy: Path) -> str:
    """What to do with a policy."""
    ids = " --id COLUMN" if solution.policy.mixtures.mixed.any() else ""
    return f"logofair apply {shlex.quote(str(policy))} NEW.csv{ids} --out decisions.csv"


def values_of(solution: Solution, rows: DataRows) -> dict[str, Any]:
    """Plain values, ready for JSON."""
    info, found = plain(solution.policy.info), solution.as_dict()
    if found["tested"] is not None:
        found["tested"] |= {"data": info["tested"]["data"]}
    return found | {"data": info["data"], "rows_left_out": rows.dropped}
