"""Requirements as sentences, out of tolerances, ratios, limits and capacities by side; goes when these do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from logofair.columns.checks import Label
from logofair.notions import EQUALIZED_ODDS, Rate
from logofair.requirement import TODAY, Requirement, Scope
from logofair.requirements import Requirements


def typed(required: Requirements, sites: Sequence[Label | None]) -> tuple[Requirement, ...]:
    """Every requirement as a sentence; ``sites`` are those of the tolerances."""
    return tuple(dict.fromkeys(_typed(required, sites)))


def _typed(required: Requirements, sites: Sequence[Label | None]) -> Iterator[Requirement]:
    alone = len(sites) == 1
    per_site = Scope("overall") if alone else Scope("per site")
    sides = {"local": per_site, "global": Scope("overall")}
    usual = [(r.rate, r.tolerance, r.ratio) for r in required.local]
    ratios = np.zeros_like(required.tolerances) if required.ratios is None else required.ratios
    for k, (rate, tolerance, ratio) in enumerate(usual):
        typed_so = (required.tolerances[:, k] == (np.inf if tolerance is None else tolerance)) & (
            ratios[:, k] == (ratio or 0.0)
        )
        others = [str(site) for site, own in zip(sites, typed_so, strict=True) if not own]
        for measure, value in (("gap", tolerance), ("ratio", ratio)):
            if value is not None and not alone:
                scope = Scope("per site", tuple(others))
                yield from _compared(measure, rate, value, scope, [u[0] for u in usual if u[1:] == (tolerance, ratio)])
        for site, own, t, r in zip(sites, typed_so, required.tolerances[:, k], ratios[:, k], strict=True):
            where = Scope("overall") if alone else Scope("at", (str(site),))
            if alone or not own:
                same = [
                    u[0] for j, u in enumerate(usual) if (required.tolerances[:, j] == required.tolerances[:, k]).all()
                ]
                if np.isfinite(t):
                    yield from _compared("gap", rate, float(t), where, same)
                if r > 0:
                    yield from _compared("ratio", rate, float(r), where, same)
    for each in required.global_:
        same = [r.rate for r in required.global_ if (r.tolerance, r.ratio) == (each.tolerance, each.ratio)]
        for measure, value in (("gap", each.tolerance), ("ratio", each.ratio)):
            if value is not None:
                yield from _compared(measure, each.rate, value, sides["global"], same)
    for limit in required.limits:
        yield Requirement(
            measure="rate",
            rates=(limit.rate,),
            who=() if limit.group is None else ((str(limit.group),),),
            relation=">=" if limit.kind == "floor" else "<=",
            bound=TODAY if limit.value is None else limit.value,
            scope=sides[limit.side],
        )
    for share in required.capacities:
        relation = "=" if share.least == share.most else "<="
        yield Requirement(measure="accepted", relation=relation, bound=share.most, scope=sides[share.side])


def _compared(measure: str, rate: Rate, value: float, scope: Scope, same: list[Rate]) -> Iterator[Requirement]:
    """A gap or a ratio of a rate; gaps of both rates of equalized odds are one requirement."""
    rates: tuple[Rate, ...] = (rate,)
    if measure == "gap" and rate in EQUALIZED_ODDS.rates and set(EQUALIZED_ODDS.rates) <= set(same):
        rates = EQUALIZED_ODDS.rates
    relation = "<=" if measure == "gap" else ">="
    yield Requirement(measure=measure, rates=rates, relation=relation, bound=value, scope=scope)
