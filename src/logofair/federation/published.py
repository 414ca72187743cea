"""What a site checks of a published result before it stores it and explains it to anybody.

A site knows the plan, its own answers and the totals it was sent. From these follows what the result must say, and
between which limits the others' part of it can lie; a result beyond them is forged or damaged. By how much a forged
figure must be off to be noticed depends on how much of the roster the site is: a site that has most of the rows knows
the result nearly, one of many little more than that its figures fit together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from logofair.columns.checks import Floats
from logofair.federation.plan import Members, Plan
from logofair.federation.reply_checks import GroupCounts, share_limits
from logofair.policy.info import CertificateInfo, FederationInfo, RequirementsInfo, record_from
from logofair.solvers.certificate import LARGEST_VIOLATION
from logofair.solvers.problem import groups_compared

# Rounding of sums, of stored rules and of fixed-point totals.
_ROUNDING = 1e-6
# By how much policies may seem to beat their bound: rounding of sums and of stored rules.
BEATEN = 1e-7


@dataclass(frozen=True, eq=False)
class OwnFigures:
    """What a site (or several) has measured of its own stored policy, and of whom it was told that they take part."""

    plan: Plan
    sites: tuple[str, ...]  # these, whose figures follow
    members: Members | None  # of the roster; None: not known
    own: GroupCounts
    roster: GroupCounts
    gain: float  # above rejecting everybody, as a share of all rows
    shares: Floats  # of each group's global rates, (groups, rates)

    @property
    def others(self) -> GroupCounts:
        """The rows of everybody else."""
        mass, positives = (
            np.maximum(total - own, 0.0)
            for total, own in (
                (self.roster.mass, self.own.mass),
                (self.roster.positives, self.own.positives),
            )
        )
        return GroupCounts(mass, positives, self.roster.clients)


def contradiction(result: Mapping[str, Any], own: OwnFigures) -> str | None:
    """What in a published result cannot be, as the rest of a sentence about it; None: nothing."""
    try:
        run = record_from(FederationInfo, {name: result[name] for name in FederationInfo.__match_args__})
        members = Members(run.sites, run.roster, run.names)
        proof = record_from(CertificateInfo, result["certificate"])
        requirements = RequirementsInfo.from_dict(result["requirements"])
    except (LookupError, TypeError, ValueError, AttributeError):
        return "it is malformed"
    about = _about_run(run, own), _about_others(members, requirements, own)
    return next(chain(*about, _about_proof(run, proof, own), _beyond_own(run, proof, own)), None)


def _about_others(members: Members, requirements: RequirementsInfo, own: OwnFigures) -> Iterator[str]:
    """Where it is about other sites than those of the roster, or requires something else of them."""
    plan, names = own.plan, set(members.names)
    if (names or plan.secure) and not names >= set(own.sites):
        yield "it leaves this site out"
    if own.members is not None and not members.within(own.members):
        yield "it is about sites that were not in the roster"
    # Without names, those whose tolerance is another are whom it says, but for the site itself.
    single = names or {*own.sites, *(site for site, _ in requirements.client_tolerances)}
    if requirements != RequirementsInfo.from_dict(plan.requirements(sorted(single)).as_dict()):
        yield "it has other requirements than the plan"


def _about_run(run: FederationInfo, own: OwnFigures) -> Iterator[str]:
    """Where it is of another run than the site took part in, or counts other rows."""
    plan = own.plan
    if run.run != plan.run or run.secure_sums != plan.secure:
        yield "it is of another run"
    totals = dict(zip(map(str, plan.groups), own.roster.mass.tolist(), strict=True))
    known = run.groups.keys() == totals.keys()
    if not known or any(abs(run.groups[name] - mass) > _ROUNDING * (1.0 + mass) for name, mass in totals.items()):
        yield "it has other numbers of rows than the server said before"


def _about_proof(run: FederationInfo, proof: CertificateInfo, own: OwnFigures) -> Iterator[str]:
    """Where its own figures do not fit together."""
    plan = own.plan
    if list(run.global_gaps) != [r.rate.name for r in plan.constrained]:
        yield "it has gaps of other rates than the plan requires"
        return
    excess = max([0.0, *(run.global_gaps[r.rate.name] - float(r.tolerance or 0.0) for r in plan.constrained)])
    precision = LARGEST_VIOLATION / float(np.min([1.0, *plan.global_tolerances[1]]))
    if abs(excess - proof.violation) > precision:
        yield f"it claims a violation of {proof.violation:.5f}, and its gaps have one of {excess:.5f}"
    if plan.solver is None and proof.violation > precision:
        yield f"it exceeds a tolerance by {proof.violation:.5f}"
    # Algorithm 1 may exceed tolerances, and so its bound.
    beaten = plan.solver is None and proof.optimality_gap < -BEATEN
    if beaten or abs(proof.dual - proof.primal - proof.optimality_gap) > BEATEN:
        yield f"its accuracy {proof.primal:.5f}, bound {proof.dual:.5f} and optimality gap contradict each other"
    if proof.holds and (proof.optimality_gap > plan.optimality_gap + BEATEN or proof.violation > precision):
        yield "it claims to hold, and its own figures do not"


def _beyond_own(run: FederationInfo, proof: CertificateInfo, own: OwnFigures) -> Iterator[str]:
    """Where the others cannot have made up for what this site measured."""
    roster, others = own.roster, own.others
    total = float(roster.mass.sum())
    slack = _ROUNDING * (1.0 + roster.clients / total)
    baseline = 1.0 - float(roster.positives.sum()) / total
    least = baseline + own.gain - float((others.mass - others.positives).sum()) / total
    most = baseline + own.gain + float(others.positives.sum()) / total
    if not least - slack <= proof.primal <= most + slack:
        yield (
            f"it claims an accuracy of {proof.primal:.2%}, which with this site's own figures lies between {least:.2%} "
            f"and {most:.2%}"
        )
    rates, (tolerances, units) = own.plan.global_rates, own.plan.global_tolerances
    low, high = (own.shares + each for each in share_limits(rates, others, roster))
    counts = groups_compared(rates, roster.mass / total, roster.positives / total, tolerances)
    for k, (name, gap) in enumerate(run.global_gaps.items()):
        if counts[:, k].any():
            lows, highs = low[counts[:, k], k], high[counts[:, k], k]
            least, most = max(lows.max() - highs.min(), 0.0) / units[k], (highs.max() - lows.min()) / units[k]
            if not least - slack / units[k] <= gap <= most + slack / units[k]:
                yield (
                    f"it claims a gap of {gap:.4f} in the {name} over all sites, which with this site's own figures is "
                    f"at least {least:.4f} and at most {most:.4f}"
                )
