"""An audit of files: their rows counted, the notions measured, a page for people, and plain values.

No file needs to fit into memory: each becomes a small table with a line per site, group, label and decision, and its
columns are checked on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.text import Text

from logofair.auditing import Audit, Comparison, Gap, Measured
from logofair.auditing.against import ComparedRules
from logofair.auditing.files import FileAudit, data_source
from logofair.auditing.measure import text, value_of
from logofair.auditing.result import RuleAudit, cost_text
from logofair.cli.options import TOLERANCE, typed_command
from logofair.cli.pages.console import counted as number_of
from logofair.cli.pages.console import grid, notes, spoken, titled
from logofair.cli.pages.figures import gap_lines, interval_text, rates_table, text_or_undefined
from logofair.columns.checks import Floats
from logofair.columns.labels import plain
from logofair.files.inputs import ColumnNames
from logofair.outcomes import FEW_ROWS

if TYPE_CHECKING:
    from logofair.report import ReportHeading

_GROUPS = 8
_WORST = 5
_MANY = 50  # sites; where most of them are small, a count of them replaces the list of the worst


def write_report_page(path: Path, found: FileAudit, data: Sequence[str], heading: ReportHeading) -> None:
    """Write an audit as a report."""
    from logofair.report import write_audit_report

    compared = found.compared
    write_audit_report(
        path,
        found.measured,
        data=data_source(found, data),
        command=typed_command(),
        tolerance=_report_tolerance(found),
        heading=heading,
        policy=None if compared is None else compared.policy,
        comparison=None if compared is None else next(iter(compared.by_notion.values())),
    )


def _report_tolerance(found: FileAudit) -> float:
    """The one tolerance of a report: the smallest by which sites are judged, the usual one where there is none."""
    limits = [found.tolerance_of(name) for name in found.measured.by_notion]
    return min((float(np.min(limit)) for limit in limits if limit is not None), default=TOLERANCE)


def page_parts(found: FileAudit, *, worst: int | None, word: str | None, report: Path | None) -> list[Any]:
    """The page, part by part; ``worst``: how many sites to list, by default none where most of very many are small.

    ``word`` is what being accepted is called, ``report`` the report that was written.
    """
    audits = found.measured.by_notion
    gaps = [line for name, audit in audits.items() for line in gap_lines(name, audit, found.tolerance_of(name))]
    parts: list[Any] = [_heading(found, word), "", rates_table(found.measured.rates, found.counts), ""]
    if found.measured.accuracy is not None:
        parts += [Text(f"Accuracy {found.measured.accuracy}"), *_cost_lines(found.measured), ""]
    parts += [notes(gaps)]
    if found.measured.requirements:
        parts += ["", notes(titled("Required", map(str, found.measured.requirements)))]
    if found.compared is not None:
        parts += ["", *_comparison(found.compared)]
    most = _listed(found) if worst is None else worst
    if len(found.counted.sites) > 1 and most:
        parts += ["", *_worst(found, most)]
    written = [] if report is None else [("Wrote", str(report))]
    return [*parts, "", notes([*_reading(found), *written])]


def _cost_lines(measured: RuleAudit) -> Iterator[Text]:
    if measured.costs is not None:
        yield Text(f"Cost {cost_text(measured.cost)}. {measured.costs.summary()}")


def _heading(found: FileAudit, word: str | None) -> Text:
    counted, columns, compared = found.counted, found.columns, found.compared
    sizes = counted.tally.rows.sum((0, 2))
    groups = [f"{name} {size:,}" for name, size in zip(counted.groups, sizes.tolist(), strict=True)]
    more = f" and {len(groups) - _GROUPS} more" if len(groups) > _GROUPS else ""
    separator = ", " if len(columns.group) == 1 else "; "
    sites = "" if counted.sites == (None,) else f" at {number_of(len(counted.sites), 'site')}"
    dropped = f" ({counted.dropped:,} left out for lack of a value)" if counted.dropped else ""
    where = f" where {columns.conditions}" if columns.where else ""
    rows, shown = number_of(counted.rows, "row"), separator.join(groups[:_GROUPS])
    lines = [f"{found.data}: {rows}{where}{dropped}{sites}; {shown}{more}"]
    if compared is not None:
        lines.append(f"Policy {compared.name}: {compared.sentence}.")
    lines.append(f"{(word or 'accepted').capitalize()} ({_rule(found)}): {text_or_undefined(found.measured.accepted)}")
    return Text("\n".join(lines))


def _rule(found: FileAudit) -> str:
    """What decides, in words."""
    if found.compared is not None:
        return f"by {found.compared.name}, in expectation over its coins"
    return rule_words(found.columns, found.threshold)


def rule_words(columns: ColumnNames, threshold: float | None) -> str:
    """Which decisions are meant where no policy decides: those of a column, or scores from the threshold on."""
    return f"decisions {columns.decision!r}" if columns.decision else f"score {columns.score!r} >= {threshold:g}"


def _comparison(compared: ComparedRules) -> Iterator[Any]:
    """The policy against another rule, every figure paired on the same rows."""
    yield Text(f"{compared.against} -> {compared.name} on the same rows", style="bold")
    first = next(iter(compared.by_notion.values()))
    lines = [] if first.accuracy is None else [("accuracy", first.sentence("accuracy"))]
    lines += [] if first.cost is None else [("cost per person", first.sentence("cost"))]
    lines.append(("accepted", first.sentence("accepted")))
    for name, found in compared.by_notion.items():
        lines.append((f"{spoken(name)} gap", _paired(found, local=False)))
        lines += [("  inside sites", _paired(found, local=True))] if len(found.first.sites) > 1 else []
    yield notes(lines)


def _paired(found: Comparison, *, local: bool) -> str:
    """Both rules' gaps; where what is told first leaves small groups out, that and then the paired gap with them."""
    every = found.sentence("local_gap" if local else "global_gap")
    both = (found.first, found.second)
    if not any(audit.with_few_rows(local=local) for audit in both):
        return every
    before, after = (text((audit.headline_local if local else audit.headline_global).value) for audit in both)
    return f"{before} -> {after}; with groups of fewer than {FEW_ROWS} rows {every}"


def _listed(found: FileAudit) -> int:
    """How many of the worst sites to list where nobody said: none where most of very many are small."""
    sites = len(found.counted.sites)
    small = sum(bool(np.isnan(audit.local.large.gaps).any(0).sum() * 2 > sites) for audit in _columns(found).values())
    return 0 if sites > _MANY and small else _WORST


def _worst(found: FileAudit, most: int) -> Iterator[Any]:
    """The sites whose largest gap has the highest lower limit, each with that gap."""
    gaps = [max(each, key=_weight) for each in zip(*map(_headline_gaps, _columns(found).values()), strict=True)]
    order = sorted(range(len(gaps)), key=lambda place: _weight(gaps[place]), reverse=True)[:most]
    counted = found.counted
    yield Text(
        f"Worst sites, {len(order)} of {len(counted.sites):,}, by the lower limit of their largest gap",
        style="bold",
    )
    table = grid("site", "gap", "95%", found.counts, "rate", "groups")
    table.columns[4].justify = table.columns[5].justify = "left"
    table.columns[5].no_wrap = False
    for place in order:
        gap = gaps[place]
        pair = f"{gap.highest} over {gap.lowest}" if gap.value else ""
        rows = "" if gap.value is None else f"{gap.value.rows:,}"
        table.add_row(str(gap.site), text(gap.value), interval_text(gap.value), rows, gap.rate, pair)
    yield table


def _headline_gaps(audit: Audit) -> list[Gap]:
    """The largest gap at every site: between rates on 30 rows or more where the site has such a gap."""
    pairs = zip(audit.local.large.by_site(), audit.site_gaps, strict=True)
    return [every if large.value is None else large for large, every in pairs]


def _weight(gap: Gap) -> tuple[float, float]:
    """By what gaps are ranked: what is shown beyond chance, then what was found."""
    return (-1.0, -1.0) if gap.value is None else (gap.value.low or 0.0, float(gap.value))


def _columns(found: FileAudit) -> Mapping[str, Audit]:
    """The notions that say something of their own: not those whose rates each have a notion of their own."""
    audits = found.measured.by_notion
    alone = {audit.local.rates[0] for audit in audits.values() if len(audit.local.rates) == 1}
    return {
        name: audit
        for name, audit in audits.items()
        if len(audit.local.rates) == 1 or not set(audit.local.rates) <= alone
    }


def _reading(found: FileAudit) -> Iterator[tuple[str, str]]:
    """How to read the figures."""
    yield "Gap", "The largest rate of a group minus the smallest. Rows: each of these two rates has at least so many."
    yield (
        "95%",
        "An interval so made holds the true figure in 19 of 20 cases. The lower end of a largest gap allows for its "
        "having been chosen as the largest.",
    )
    if found.columns.id is not None:
        same = f"Rows of the same {found.columns.id!r} at a site"
        yield "People", f"{same} count as one person in every interval and wherever a figure says how many it rests on."
    if found.compared is not None and found.compared.unknown:
        rows, are = number_of(found.compared.unknown, "row"), "is" if found.compared.unknown == 1 else "are"
        unknown = f"{rows} {are} of sites that the policy does not know"
        yield "Unknown", f"{unknown}; the rule of all sites taken as one decided there."
    if found.compared is not None and found.compared.against_in_fit in ("all", "some"):
        yield "Fit", f"{found.compared.against} was fitted on these rows or some of them, which favours it."
    if found.columns.label is None:
        yield "Labels", "None were named (--label), so accuracy and the notions that count by label are left out."


def as_dict(found: FileAudit) -> dict[str, Any]:
    """Plain values, ready for JSON: rates first, every figure with its interval and rows."""
    counted, measured = found.counted, found.measured.as_dict()
    return {
        "data": found.data,
        "files": found.files,
        "columns": found.columns.described(),
        "threshold": found.threshold,
        "tolerance": found.tolerance,
        "rows": counted.rows,
        "rows_left_out": counted.dropped,
        "groups": [plain(name) for name in counted.groups],
        "fitted_rows": any(audit.fitted_rows for audit in found.measured.by_notion.values()),
        "costs": None if found.measured.costs is None else found.measured.costs.as_dict(),
        **{name: measured[name] for name in ("rates", "accepted", "accuracy", "cost")},
        "requirements": [check.as_dict() for check in found.measured.requirements],
        "notions": {
            name: _notion_dict(audit, found.tolerance_of(name)) for name, audit in found.measured.by_notion.items()
        },
        "compared": None if found.compared is None else found.compared.as_dict(),
        "sites": list(_sites(found)),
    }


def _notion_dict(audit: Audit, tolerance: Floats | float | None) -> dict[str, Any]:
    """One notion's gaps, and how many sites are shown to be above the tolerance or within."""
    alone = len(audit.sites) == 1
    check = None if tolerance is None or alone else audit.check_sites(tolerance).as_dict()
    return audit.largest_as_dict() | {"check": check, "small": audit.small_as_dict()}


def _sites(found: FileAudit) -> Iterator[dict[str, Any]]:
    """Every site with its rates and gaps."""
    counted, audits = found.counted, found.measured.by_notion
    sizes, accuracy, costs = counted.tally.rows.sum(2), counted.tally.accuracy(), found.measured.costs
    cost = None if costs is None else counted.tally.cost(costs)
    for place, name in enumerate(counted.sites):
        rates = {rate: row for audit in audits.values() for rate, row in audit.local.measured_rates(place).items()}
        yield {
            "site": plain(name),
            "rows": int(sizes[place].sum()),
            "rows_by_group": sizes[place].tolist(),
            "rates": {
                rate: {str(group): _plain(figure) for group, figure in row.items()} for rate, row in rates.items()
            },
            "accuracy": value_of(accuracy[place]),
            "cost": None if cost is None else value_of(cost[place]),
            "gaps": {notion: audit.site_gaps[place].as_dict() for notion, audit in audits.items()},
        }


def _plain(figure: Measured | None) -> dict[str, Any] | None:
    return None if figure is None else figure.as_dict()
