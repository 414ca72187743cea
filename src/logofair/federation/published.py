"""What a site checks of a published result before it stores it and explains it to anybody.

A site knows the plan, its own answers and the totals it was sent. From these follows what the result must say, and
between which limits the others' part of it can lie; a result beyond them is forged or damaged. By how much a forged
figure must be off to be noticed depends on how much of the roster the site is: a site that has most of the rows knows
the result nearly, one of many little more than that its figures fit together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from logofair.calibration.federated import GroupMaps
from logofair.columns.checks import Floats
from logofair.errors import InputError
from logofair.federation.exchange import GroupCounts, combination_limits, share_limits
from logofair.federation.global_side import GlobalRequirements
from logofair.federation.plan import Members, Plan
from logofair.fitting.pooling import GroupPriors
from logofair.policy.info import (
    CertificateInfo,
    FederationInfo,
    OwnRowsInfo,
    PoolingInfo,
    PublishedInfo,
)
from logofair.requirements import RequirementsInfo
from logofair.solvers.certificate import LARGEST_VIOLATION

if TYPE_CHECKING:
    from logofair.federation.exchanges.final import FinalFigures

# Rounding of sums, of stored rules and of fixed-point totals.
_ROUNDING = 1e-6
_EQUAL = 1e-12  # what is computed of the same numbers twice
# By how much policies may seem to beat their bound: rounding of sums and of stored rules.
BEATEN = 1e-7


@dataclass(frozen=True, eq=False)
class OwnFigures:
    """What a site (or several) has measured of its own stored policy, and of whom it was told that they take part."""

    plan: Plan
    required: GlobalRequirements  # over all sites, but for what is accepted today
    sites: tuple[str, ...]  # these, whose figures follow
    members: Members | None  # of the roster; None: not known
    roster: GroupCounts
    others: GroupCounts  # of it: the rows of everybody else
    measured: FinalFigures  # of the sites together
    pooling: PoolingInfo  # as it was sent
    today: Floats  # what they accept where nothing is required, (groups, rates of today)
    prices: Floats | None  # that were answered, (answers, groups, global rates); None: not known


def published_pooling(maps: GroupMaps | None, priors: GroupPriors | None) -> PoolingInfo:
    """What small cells borrow; how much of a cell at most is known to its site alone."""
    about = PoolingInfo(strength=None if maps is None else maps.strength)
    if priors is None:
        return about
    largest = 1.0 if priors.kappa is None else None
    return replace(about, prior=priors.kind, kappa=priors.kappa, cells=priors.cells, largest_share=largest)


def contradiction(result: PublishedInfo, own: OwnFigures) -> str | None:
    """What in a published result cannot be, as the rest of a sentence about it; None: nothing."""
    run, proof = result.run, result.certificate
    try:
        members = Members(run.sites, run.roster, run.names)
    except InputError:
        return "it is malformed"
    figures = (
        _about_run(run, members, result.requirements, own),
        _about_today(run, own),
        _about_proof(run, proof, own),
        _beyond_own(run, proof, own),
        _about_pooling(result.pooling, result.own_rows, run, proof, own),
        _about_prices(run, own),
    )
    return next(chain(*figures), None)


def _about_run(run: FederationInfo, members: Members, requirements: RequirementsInfo, own: OwnFigures) -> Iterator[str]:
    """Where it is of another run than the site took part in, of other sites, rows or requirements."""
    plan, names = own.plan, set(members.names)
    if run.run != plan.run or run.secure_sums != plan.secure:
        yield "it is of another run"
    totals = dict(zip(map(str, plan.groups), own.roster.mass.tolist(), strict=True))
    if run.groups != totals:
        yield "it has other numbers of rows than the server said before"
    # One that only could not store its policy was counted all the same, and takes it later.
    without = {each.get("site") for each in run.excluded if each.get("during") != "publication"} & set(own.sites)
    if without or ((names or plan.secure) and not names >= set(own.sites)):
        yield "it leaves this site out"
    if own.members is not None:  # these, or some of them: as far as is known of both
        if names and own.members.names:
            within = names <= set(own.members.names)
        else:
            missing = own.members.number - members.number
            within = missing == 0 if members.digest == own.members.digest else 0 < missing <= len(run.excluded)
        if not within:
            yield "it is about sites that were not in the roster"
    if requirements != plan.published_requirements().info:
        yield "it has other requirements than the plan"
    if plan.secure:
        return
    # There are exchanges for all that the plan asks, and rounds for the exchanges. A result's file, unlike what is
    # sent, counts the publication too.
    exact = plan.solver is None
    counts = {purpose: count for purpose, count in run.exchanges.items() if purpose != "publication"}
    purposes = {"totals", "answers", "final"} | ({"calibration"} if plan.calibration != "none" else set())
    purposes |= ({"pooling"} if plan.pooling != "none" else set()) | (set() if exact else {"steps"})
    fit = counts.keys() == purposes and min(counts.values()) >= 1
    if fit and run.excluded:  # exchanges of a roster that lost a site were counted too, and its rounds began anew
        fit = 0 < run.rounds <= counts["answers" if exact else "steps"]
    elif fit and plan.solver is None:
        fit = counts["totals"] == counts["final"] == 1 and counts["answers"] == run.rounds
    elif fit and plan.solver is not None:  # before its steps it asks how long they may be, unless the plan says
        steps = run.rounds + (plan.solver.step is None)
        fit = counts["totals"] == counts["final"] == counts["answers"] == 1 and counts["steps"] == steps
        fit = fit and run.rounds == plan.solver.rounds
    if not fit:
        yield "its exchanges and rounds contradict each other"


def _about_today(run: FederationInfo, own: OwnFigures) -> Iterator[str]:
    """Where the others cannot accept as much today, or as little, as it says."""
    rates, roster, names = own.plan.over_all.today, own.roster, list(map(str, own.plan.groups))
    slack = _ROUNDING * (1.0 + roster.sites / float(roster.mass.sum()))
    low, high = share_limits(rates, own.others, roster)
    for k, rate in enumerate(rates):
        base = rate.denominator(roster.mass, roster.positives)
        accepted = np.divide(own.today[:, k], base, out=np.zeros(base.shape), where=base > 0)
        for group, said in run.today.get(rate.name, {}).items():
            a = names.index(group) if group in names else 0  # other names are refused below
            if not low[a, k] - slack <= said - accepted[a] <= high[a, k] + slack:
                yield f"it says that the {rate.name} of {group} is {said:.4f} today, which this site's own rows exclude"


def _about_proof(run: FederationInfo, proof: CertificateInfo, own: OwnFigures) -> Iterator[str]:
    """Where its own figures do not fit together."""
    plan = own.plan
    if list(run.global_gaps) != [r.rate.name for r in plan.over_all.compared]:
        yield "it has gaps of other rates than the plan requires"
        return
    required = own.required.with_today(run.today)
    rates = None if required is None else required.from_names(run.global_rates)
    if required is None or rates is None:
        yield "it has other rates than the plan limits"
        return
    gaps = dict(zip(run.global_gaps, required.gaps(rates).tolist(), strict=True))
    compared = [r.rate.name for r in plan.over_all.compared if r.rate.name in run.global_rates]
    if any(abs(run.global_gaps[name] - gaps[name]) > _EQUAL for name in compared):
        yield "its rates and their gaps contradict each other"
    excess = max(
        [required.excess(rates), *(run.global_gaps[r.rate.name] - r.tolerance for r in plan.over_all.compared)]
    )
    precision = LARGEST_VIOLATION / float(np.min([1.0, *plan.over_all.units]))
    if abs(excess - proof.violation) > precision:
        yield f"it claims a violation of {proof.violation:.5f}, and its gaps have one of {excess:.5f}"
    if plan.solver is None and proof.violation > precision:
        yield f"it misses a requirement by {proof.violation:.5f}"
    rounding, sign = BEATEN * plan.cost_scale.unit, 1.0 if plan.objective == "accuracy" else -1.0
    # Algorithm 1 may exceed tolerances, and so its bound.
    gap, bound = proof.optimality_gap, proof.dual
    if gap is None or bound is None or proof.holds is None:
        yield "it has no bound"
        return
    beaten = plan.solver is None and gap < -rounding
    if beaten or sign * (bound - proof.primal) != gap:
        claims = f"{proof.objective} {proof.primal:.5f}, bound {bound:.5f}"
        yield f"its {claims} and optimality gap contradict each other"
    rounded = proof.rounding != 0.0 and not plan.secure
    if (proof.objective, proof.basis, proof.empty_ratios) != (plan.objective, "eta", 0) or rounded or proof.looks_away:
        yield "it counts something else than the plan"
    holds = gap <= plan.optimality_gap * plan.cost_scale.unit and proof.violation <= precision
    if proof.holds and not holds:
        yield "it claims to hold, and its own figures do not"
    if holds and not proof.holds and plan.solver is None:  # Algorithm 1 may miss requirements inside other sites
        yield "it claims not to hold, and its own figures do"


def _about_pooling(
    pooling: PoolingInfo, borrowed: OwnRowsInfo, run: FederationInfo, proof: CertificateInfo, own: OwnFigures
) -> Iterator[str]:
    """Where it says something else of what cells borrow than was sent, or of what holds without it."""
    plan, required = own.plan, own.required
    if pooling != own.pooling or proof.pooling != own.pooling.prior:
        yield "it has another pooling than was sent"
    if plan.pooling == "none":
        if (borrowed.accuracy, dict(borrowed.global_gaps)) != (proof.primal, dict(run.global_gaps)):
            yield "nobody borrows, and its figures on the sites' own rows are others"
        return
    units = dict(zip((r.rate.name for r in plan.over_all.compared), plan.over_all.units.tolist(), strict=True))
    gaps = borrowed.global_gaps
    if gaps.keys() != units.keys() or not all(0.0 <= gap <= (1.0 + _ROUNDING) / units[r] for r, gap in gaps.items()):
        yield "its gaps on the sites' own rows cannot be"
    if (borrowed.accuracy is None) != bool(plan.site_costs):
        yield "its figures on the sites' own rows are incomplete"
    if borrowed.accuracy is not None:
        constant, slope = plan.cost_scale.row_gain
        accepted, among, positives = own.measured.own.T
        total, unit = float(own.roster.mass.sum()), plan.cost_scale.unit
        gain = float((constant * accepted + slope * among).sum()) / total
        # The others decide all of their rows right, none of them positive; or all of them wrong.
        right = replace(required, positives=positives).reported(gain)
        others = float(own.others.mass.sum()) / total * (1.0 + _ROUNDING) + _ROUNDING
        ends = (right, right - others) if plan.objective == "accuracy" else (right, right + others * unit)
        least, most = min(ends) - _ROUNDING * unit, max(ends) + _ROUNDING * unit
        if not least <= borrowed.accuracy <= most:
            yield f"its {plan.objective} on the sites' own rows is not between {least:.4f} and {most:.4f}"


def _about_prices(run: FederationInfo, own: OwnFigures) -> Iterator[str]:
    """Where its prices are none at which the sites have answered, though its bound was found at such prices."""
    required = own.required.with_today(run.today)
    if required is None or own.prices is None:
        return
    published, precision = list(run.prices.values()), _ROUNDING * own.plan.cost_scale.unit
    answered = (required.prices(each) for each in own.prices)
    known = (list(each.values()) for each in answered if list(map(str, each)) == list(run.prices))
    if not any(np.allclose(published, each, 0, precision) for each in known):
        yield "it has other prices than were sent"


def _beyond_own(run: FederationInfo, proof: CertificateInfo, own: OwnFigures) -> Iterator[str]:
    """Where the others cannot have made up for what this site measured."""
    roster, others = own.roster, own.others
    total = float(roster.mass.sum())
    slack = _ROUNDING * (1.0 + roster.sites / total)
    constant, slope = own.plan.cost_scale.row_gain
    gain = float(own.measured.gain[0])
    worst = gain + constant * float((others.mass - others.positives).sum()) / total
    best = gain + (constant + slope) * float(others.positives.sum()) / total
    least, most = sorted(map(own.required.reported, (worst, best)))
    if not least - slack * own.plan.cost_scale.unit <= proof.primal <= most + slack * own.plan.cost_scale.unit:
        article, form = ("an", ".2%") if own.plan.objective == "accuracy" else ("a", ".4f")
        yield (
            f"it claims {article} {own.plan.objective} of {proof.primal:{form}}, which with this site's own figures "
            f"lies between {least:{form}} and {most:{form}}"
        )
    units = own.plan.over_all.units
    low, high = (own.measured.shares + each for each in share_limits(own.plan.over_all.group_rates, others, roster))
    yield from _beyond_own_rates(run, own, low, high, slack)
    counts = own.required.regions.compared[0]
    for k, (name, gap) in enumerate(run.global_gaps.items()):
        if counts[:, k].any():
            lows, highs = low[counts[:, k], k], high[counts[:, k], k]
            least, most = max(lows.max() - highs.min(), 0.0) / units[k], (highs.max() - lows.min()) / units[k]
            if not least - slack / units[k] <= gap <= most + slack / units[k]:
                yield (
                    f"it claims a gap of {gap:.4f} in the {name} over all sites, which with this site's own figures is "
                    f"at least {least:.4f} and at most {most:.4f}"
                )


def _beyond_own_rates(run: FederationInfo, own: OwnFigures, low: Floats, high: Floats, slack: float) -> Iterator[str]:
    """Where a rate that is limited over all, or everybody's share, is not what this site's own figures allow."""
    required = own.required
    if own.plan.over_all.combinations:
        others = combination_limits(own.plan.over_all.combinations, own.others, own.roster)
        low, high = (
            required.columns(each, own.measured.combinations + more)
            for each, more in zip((low, high), others, strict=True)
        )
    lows, highs = (required.by_name(each) for each in (low, high))
    for name, rates in run.global_rates.items():
        for group, rate in rates.items():
            least, most = lows[name][group], highs[name][group]
            if not least - slack <= rate <= most + slack:
                yield (
                    f"it claims a {name} of {rate:.4f} ({group}) over all sites, which with this site's own figures is "
                    f"at least {least:.4f} and at most {most:.4f}"
                )
