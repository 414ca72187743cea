"""What score >= 1/2 and a policy do on the same rows, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from logofair.auditing import Audit, Comparison, Gap, Measured, SiteCheck
from logofair.columns.checks import Floats, Label
from logofair.columns.labels import plain
from logofair.policy.info import FigureInfo, FindingInfo, TestedInfo
from logofair.requirements import Requirements, tolerance_of

_GROUPS = 12  # lines of a rate


def rows_of(found: Comparison) -> int:
    """How many rows were measured."""
    return int(found.second.global_.tally.rows.sum())


def _several(audit: Audit) -> bool:
    return len(audit.sites) > 1


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
