"""What score >= 1/2 and a policy do on the same rows: one table, its sentences and plain values, for every page.

Rates per group come first, then accuracy, then the gaps that are told first (between rates on 30 rows or more where
there are any), each with its interval and the rows it rests on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np

from logofair.auditing import Audit, Comparison, Gap, Measured, SiteCheck
from logofair.auditing.measure import text
from logofair.columns.checks import Floats, Label
from logofair.columns.labels import plain
from logofair.policy.info import FigureInfo, FindingInfo, TestedInfo
from logofair.requirements import Requirements, tolerance_of

_GROUPS = 12  # lines of a rate


def rows_of(found: Comparison) -> int:
    """How many rows were measured."""
    return int(found.second.global_.tally.rows.sum())


def figures_table(found: Comparison) -> list[list[str]]:
    """Lines of a table, the first its head: what, rows, score >= 1/2, the policy."""
    before, after = found.first, found.second
    lines = [["", "rows", "score >= 1/2", "fair"]]
    for rate, row in after.rates.items():
        lines.append([rate, "", "", ""])
        shown = sorted(row, key=lambda group: -_size(row[group]))[:_GROUPS]
        lines += [_line(f"  {group}", before.rates[rate][group], row[group]) for group in row if group in shown]
        if len(row) > len(shown):
            lines.append([f"  and {len(row) - len(shown):,} smaller groups", "", "", ""])
    accuracy = [] if after.accuracy is None else [_line("accuracy", before.accuracy, after.accuracy)]
    cost = [] if after.cost is None else [_line("cost per person", before.cost, after.cost)]
    lines += [_line("accepted", before.accepted, after.accepted), *accuracy, *cost]
    for name, (old, new) in _gaps(found).items():
        lines.append(_line(name, old.value, new.value))
    return lines


def _gaps(found: Comparison) -> dict[str, tuple[Gap, Gap]]:
    """The gaps that are told first, by what they are called: over all and, with several sites, at one of them."""
    before, after = found.first, found.second
    if not _several(after):
        return {"largest gap": (before.headline_global, after.headline_global)}
    return {
        "global gap": (before.headline_global, after.headline_global),
        "local gap": (before.headline_local, after.headline_local),
    }


def _several(audit: Audit) -> bool:
    return len(audit.sites) > 1


def _size(figure: Measured | None) -> int:
    return 0 if figure is None else figure.rows or 0


def _line(name: str, before: Measured | None, after: Measured | None) -> list[str]:
    return [name, "" if after is None else f"{after.rows:,}", _with_interval(before), _with_interval(after)]


def _with_interval(figure: Measured | None) -> str:
    return text(figure) if figure is None or not figure.interval else f"{text(figure)} ({figure.interval})"


def figure_sentences(found: Comparison, check: SiteCheck | None) -> Iterator[tuple[str, str]]:
    """What the figures show, each sentence with the figure it is about."""
    if found.accuracy is not None:
        yield "Accuracy", f"{found.sentence('accuracy')}."
    if found.cost is not None:
        yield "Cost", f"{found.sentence('cost')}."
    for name, (_, gap) in _gaps(found).items():
        yield name.capitalize(), _shown(gap)
        if small := found.second.with_few_rows(local=name == "local gap"):
            yield "", small
    if check is not None:
        yield "Sites", str(check)
    others = (str(each) for each in found.second.requirements if each.kind != "tolerance")
    yield from zip(chain(["Required"], repeat("")), others, strict=False)


def _shown(gap: Gap) -> str:
    """Where a gap is, and what it shows beyond chance."""
    if gap.value is None:
        return f"Undefined: {gap.reason}."
    pair = f"{gap.rate}, {gap.highest!r} over {gap.lowest!r}" if gap.value else gap.rate
    where = pair[:1].upper() + pair[1:] if gap.site is None else f"Largest at site {gap.site!r} ({pair})"
    chance = f" ({gap.chance})" if gap.site is not None and gap.chance else ""
    return f"{where}{f': {gap.finding}' if gap.finding else ''}{chance}."


def required_check(found: Audit, requirements: Requirements, sites: Sequence[Label | None]) -> SiteCheck | None:
    """How many sites are shown above or within what was required inside them; None where nothing was.

    ``sites`` are those the requirements are about; others are judged by the usual tolerance.
    """
    tolerance = _required(found, requirements, sites)
    return found.check_sites(tolerance) if _several(found) and np.isfinite(tolerance).any() else None


def _required(found: Audit, requirements: Requirements, sites: Sequence[Label | None]) -> Floats:
    """The tolerance of every (rate, site) of an audit, infinite where a gap is free."""
    place = {name: i for i, name in enumerate(sites)}
    known = np.array([place.get(name, len(sites)) for name in found.sites])
    usual = [tolerance_of(requirement) for requirement in requirements.local]
    own = np.vstack([requirements.tolerances, usual])[known]
    tolerance = np.full(found.local.gaps.shape, np.inf)
    for k, requirement in enumerate(requirements.local):
        at = found.local.rates.index(requirement.rate)
        tolerance[at] = np.minimum(tolerance[at], own[:, k])
    return tolerance


def unknown_sites(found: Audit, sites: Sequence[Label | None]) -> tuple[list[Label], int]:
    """The sites that a policy for ``sites`` does not know, and their rows."""
    known = set(sites)
    if known == {None}:
        return [], 0
    unknown = [place for place, name in enumerate(found.sites) if name not in known]
    return [found.sites[place] for place in unknown], int(found.local.tally.rows[unknown].sum())


def figures_as_dict(found: Comparison, check: SiteCheck | None) -> dict[str, Any]:
    """Plain values, ready for JSON: rates first."""
    before, after, change = found.first, found.second, found.as_dict()
    rates = {
        rate: {str(group): _both(before.rates[rate][group], row[group]) for group in row}
        for rate, row in after.rates.items()
    }
    headline = {"global": (before.headline_global, after.headline_global)}
    largest = {"global_gap": (before.worst_global, after.worst_global)}
    if _several(after):
        headline["local"] = before.headline_local, after.headline_local
        largest["local_gap"] = before.worst_local, after.worst_local
    return {
        "rows": rows_of(found),
        "fitted_rows": after.fitted_rows,
        "rates": rates,
        "accuracy": _both(before.accuracy, after.accuracy) | {"difference": change["accuracy"]},
        **({} if after.cost is None else {"cost": _both(before.cost, after.cost) | {"difference": change["cost"]}}),
        "requirements": [each.as_dict() for each in after.requirements],
        "accepted": _both(before.accepted, after.accepted) | {"difference": change["accepted"]},
        "gaps": {side: _both(*pair) for side, pair in headline.items()},
        "gaps_of_all_groups": {
            name.removesuffix("_gap"): _both(*pair) | {"difference": change[name]} for name, pair in largest.items()
        },
        "check": None if check is None else check.as_dict(),
        "by_site": after.by_site.as_dicts() if _several(after) else [],
    }


def _both(before: Measured | Gap | None, after: Measured | Gap | None) -> dict[str, Any]:
    return {name: None if value is None else value.as_dict() for name, value in (("before", before), ("after", after))}


def tested_info(found: Comparison, findings: Iterable[FindingInfo]) -> TestedInfo:
    """What a policy tells of its test; ``findings`` are what it shows of the requirements."""
    after = found.second
    local = after.headline_local if _several(after) else None
    return TestedInfo(
        rows=rows_of(found),
        accuracy=_figure_info(after.accuracy),
        cost=_figure_info(after.cost),
        global_gap=_figure_info(after.headline_global.value),
        local_gap=None if local is None else _figure_info(local.value),
        local_gap_site=None if local is None or local.site is None else str(plain(local.site)),
        findings=tuple(findings),
    )


def _figure_info(figure: Measured | None) -> FigureInfo | None:
    return None if figure is None else FigureInfo(**figure.as_dict())
