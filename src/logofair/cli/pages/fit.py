"""A fit as a page for people, and as plain values."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console
from rich.table import Table
from rich.text import Text

import logofair
from logofair.cli.options import constrained, typed_command
from logofair.cli.pages.console import counted, lined, notes, print_page, titled
from logofair.cli.requiring import Required
from logofair.columns.labels import encode
from logofair.errors import InputError
from logofair.files.inputs import ColumnNames
from logofair.files.rows import DataRows
from logofair.files.values import known_label, labels_by_text
from logofair.fitting.solution import Solution
from logofair.policy.info import ColumnsInfo
from logofair.progress import Progress, no_progress
from logofair.records import plain
from logofair.requirements import Tolerance, requirement_sentences

_HOW_TO_KNOW = (
    "Add --test FILE, or --test-where COLUMN=VALUE to leave rows of DATA out for a test; or --confidence 0.95 to "
    "certify what holds for new rows."
)


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


def write_report_page(
    path: Path,
    solution: Solution,
    rows: DataRows,
    wanted: FitOptions,
    progress: Progress = no_progress,
) -> None:
    """Write the report, with the trade-off where it can be drawn: for one notion."""
    from logofair.cli.pages.formats import heading_of
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
    heading = heading_of(**wanted.heading)
    (write,) = progress([write_report], "Writing the report", 1)
    write(path, solution, data=rows.source, command=typed_command(), frontier=trade_off, heading=heading)


Figures: TypeAlias = list[tuple[str, list[list[str]], list[tuple[str, str]]]]


def figures(solution: Solution, progress: Progress = no_progress) -> Figures:
    """Figures on other rows, then those on the calibration rows: title, table and sentences."""
    (found,) = progress(map(list, [solution.blocks()]), "Measuring", 1)
    return found


def show(
    solution: Solution,
    blocks: Figures,
    read: tuple[DataRows, DataRows | None],
    written: tuple[Path, Path | None],
    console: Console,
) -> None:
    """Print a fit: what is known of new rows, what was required, figures, what is proved."""
    rows, other = read
    groups = f"; {len(solution.policy.groups):,} groups"
    parts: list[Any] = [Text(str(solution.evidence), style="bold")]
    if solution.tested is None and solution.promises.confidence is None and solution.evidence.state != "nothing":
        parts += [Text(_HOW_TO_KNOW)]
    parts += ["", Text(f"{_rows_read(rows)}{groups}")]
    parts += [] if other is None else [Text(f"Tested on {_rows_read(other)}")]
    people = other is not None and other.ids is not None
    tested = "" if solution.tested is None else blocks[-2][0]  # before the calibration rows
    required = requirement_sentences(solution.requirements.as_dict())
    parts += ["", notes(titled("Requirements", required))]
    for title, lines, sentences in blocks:
        parts += ["", Text(title, style="bold")]
        parts += ["", _table(lines, people=people and title == tested), "", notes(sentences)] if lines else []
    parts += ["", notes(solution.notes())]
    print_page([*parts, "", notes(_next(solution, *written))], console)


def _rows_read(rows: DataRows) -> str:
    """Which rows were read, in words."""
    source = rows.source
    sites = "" if rows.sites is None else f" at {counted(len(encode(rows.sites, 'sites').names), 'site')}"
    known = source.rows if rows.ids is None else len(set(rows.ids.tolist()))
    people = f" of {known:,} people" if known < source.rows else ""
    dropped = f" ({rows.dropped:,} left out for lack of a value)" if rows.dropped else ""
    where = f" where {source.columns['where']}" if "where" in source.columns else ""
    return f"{source.name}: {counted(source.rows, 'row')}{people}{where}{dropped}{sites}"


def _table(lines: list[list[str]], *, people: bool) -> Table:
    """A table of figures; ``people``: these and not rows are what they rest on."""
    head, *others = lines
    return lined([["people" if people and name == "rows" else name for name in head], *others])


def _next(solution: Solution, policy: Path, report: Path | None) -> Iterator[tuple[str, str]]:
    """What was written and what to do with it."""
    yield "Wrote", str(policy) if report is None else f"{policy} and {report}"
    name, ids = shlex.quote(str(policy)), " --id COLUMN" if solution.policy.mixtures.mixed.any() else ""
    yield from titled("Next", (f"logofair explain {name}", f"logofair apply {name} NEW{ids} --out decisions.csv"))


def as_dict(solution: Solution, rows: DataRows) -> dict[str, Any]:
    """Plain values, ready for JSON."""
    info, found = plain(solution.policy.info), solution.as_dict()
    if found["tested"] is not None:
        found["tested"] |= {"data": info["tested"]["data"]}
    about = {"data": info["data"], "rows_left_out": rows.dropped, "warnings": list(map(str, solution.warnings))}
    return found | about
