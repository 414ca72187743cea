"""A fit as it is asked for on the command line: options to arguments, files to rows, the policy's notes."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import logofair
from logofair.errors import InputError
from logofair.files.inputs import ColumnNames
from logofair.files.rows import DataRows
from logofair.files.values import CostsText, costs_by_site
from logofair.fitting.solution import Solution
from logofair.policy.info import ColumnsInfo
from logofair.progress import Progress, no_progress
from logofair.records import plain
from logofair.requirements import DEFAULT, short_way

if TYPE_CHECKING:
    from logofair.tradeoff import Frontier


@dataclass(frozen=True)
class FitOptions:
    """What is to be fair, how the rules are found and tested, and how the report is headed."""

    short_way: Mapping[str, Any]  # what was given of a notion and two tolerances
    require: tuple[str, ...]
    costs: CostsText | None
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

    @property
    def heading(self) -> dict[str, str | None]:
        """What the options of a report say."""
        return {name: getattr(self, name) for name in ("title", "purpose", "author", "decision_word")}

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

    def costs_of(self, rows: DataRows) -> Any:
        """What errors cost, as the library takes it."""
        return costs_by_site(self.costs, None if rows.sites is None else list(dict.fromkeys(rows.sites.tolist())))

    @property
    def chosen(self) -> tuple[str, tuple[float | None, float | None]]:
        """The notion of the short way, and the tolerances that it requires; None: none."""
        notion = self.short_way.get("notion", "demographic_parity")
        given = [self.short_way.get(name, DEFAULT) for name in ("notion", "local_tolerance", "global_tolerance")]
        required = {item.scope.is_global: item.bound for item in short_way(*given, alone=bool(self.require))[0]}
        local, global_ = (required.get(side) for side in (False, True))
        return notion, (local, global_)  # type: ignore[return-value]  # numbers, as they were made of some


def solve(rows: DataRows, wanted: FitOptions, progress: Progress = no_progress) -> Solution:
    """Fit on the rows read."""
    return logofair.fit(
        rows.scores,
        rows.labels,
        sensitive_features=rows.groups,
        sites=rows.sites,
        **wanted.short_way,
        require=wanted.require,
        costs=wanted.costs_of(rows),
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
            sensitive_features=other.groups,
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


def trade_off(rows: DataRows, wanted: FitOptions, progress: Progress = no_progress) -> Frontier:
    """The frontier that stands in the report: of the short way's notion."""
    from logofair.tradeoff import frontier

    notion, chosen = wanted.chosen
    return frontier(
        rows.scores,
        rows.labels,
        sensitive_features=rows.groups,
        sites=rows.sites,
        notion=notion,
        chosen=chosen,
        require=wanted.require,
        costs=wanted.costs_of(rows),
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
