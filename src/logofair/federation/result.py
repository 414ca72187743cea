"""The result of a run: what was required, whether it holds, and all that a site needs to make its own policy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from logofair._version import __version__
from logofair.calibration.levels import GroupMaps
from logofair.columns.checks import Floats, listed
from logofair.federation.exchanges.final import FinalFigures
from logofair.federation.exchanges.totals import Totals
from logofair.federation.global_side import GlobalRequirements
from logofair.federation.plan import Members, Plan
from logofair.federation.published import published_pooling
from logofair.fitting.pooling import GroupPriors
from logofair.policy.info import (
    CertificateInfo,
    FederationInfo,
    OwnRowsInfo,
    PoolingInfo,
    PublishedInfo,
    RequirementsInfo,
    added_to_rows,
    no_rule,
    reached_and_bound,
    relief_sentence,
    tiny,
)
from logofair.records import plain
from logofair.requirements import SELECTED
from logofair.solvers.certificate import LARGEST_VIOLATION, Certificate, TolerancePrices
from logofair.solvers.problem import gap_of

_NAMED = 9  # sites listed by name


@dataclass(frozen=True)
class ExcludedSite:
    """A site that was excluded: why, and in which exchange.

    Examples
    --------
    >>> from logofair.federation import Server, make_plan
    >>> server = Server.start(make_plan(groups=["F", "M"]), ["north", "south"], absent=["east"])
    >>> server.excluded[0].site, server.excluded[0].reason
    ('east', 'did not come')
    """

    site: str
    reason: str
    number: int
    purpose: str
    # Whether it was lost when its rows had been counted: calibrators, and what small cells borrow, still know them.
    known: bool = False


@dataclass(frozen=True, eq=False)
class RunResult:
    """What a run has found; publish it, and keep it for sites that join later.

    Parameters
    ----------
    plan : Plan
        What was agreed on.
    sites : tuple of str
        Whose rows the global requirements are about.
    excluded : tuple of ExcludedSite
        Who was excluded on the way.
    exchanges : mapping of str to int
        Exchanges by purpose (calibration, pooling, totals, answers or steps, final).
    accuracy, bound : float
        Expected accuracy of the stored policies on the sites' calibration rows, measured by the sites; no rule of
        score, group and site within the requirements has more than ``bound`` there. With costs: the cost per row, and
        no rule has less.
    global_gaps : array
        Global gaps of the stored policies, one per constrained rate, in the user's units.
    violation : float
        Largest excess over a global requirement.
    exceeding : int
        Sites whose stored policy misses a local requirement (0).
    rounds : int
        Rounds of answers or of Algorithm 1.
    bound_prices : array
        The prices of the global rates that prove the bound, (groups, rates).
    prices, weights : arrays
        The mixture: which answers count, and how much.
    mass, positives : arrays
        Totals of the roster per group.
    maps, priors
        Group-level calibrators and what small cells borrow from, where there are any.
    own : array
        With pooling, on the sites' own rows alone and per group: weight accepted, positives expected among them, and in
        all, (groups, 3).
    rates : array
        The global rates of the stored policies, (groups, rates), in the order of ``plan.global_rates``.
    today : array
        What is accepted where nothing is required, (groups, rates of today).

    Examples
    --------
    >>> from logofair.engines.inprocess import run
    >>> from logofair.federation import SiteColumns, make_plan
    >>> rows = SiteColumns(sensitive_features=["F", "F", "M", "M"], scores=[0.9, 0.3, 0.6, 0.1])
    >>> plan = make_plan(groups=["F", "M"], calibration="none", smallest_cell=1, run="demo")
    >>> print(run(plan, {"north": rows, "south": rows}).result.summary())  # doctest: +ELLIPSIS
    Run demo: 2 sites (north, south), 8 rows (F 4, M 4)
    Required: selection rate gap <= 0.02 per site. selection rate gap <= 0.02 overall.
    Holds: Expected accuracy ...
    """

    plan: Plan
    sites: tuple[str, ...]
    excluded: tuple[ExcludedSite, ...]
    exchanges: Mapping[str, int]
    accuracy: float
    bound: float
    global_gaps: Floats
    violation: float
    exceeding: int
    rounds: int
    bound_prices: Floats
    prices: Floats
    weights: Floats
    mass: Floats
    positives: Floats
    maps: GroupMaps | None
    priors: GroupPriors | None
    own: Floats
    rates: Floats
    today: Floats

    @property
    def required(self) -> GlobalRequirements:
        """What was required over all sites, in numbers."""
        return GlobalRequirements(self.plan, self.mass, self.positives, self.today)

    @property
    def objective(self) -> str:
        """What ``accuracy`` is: "accuracy" or "cost"."""
        return self.plan.objective

    @property
    def pooling(self) -> PoolingInfo:
        """What small cells borrow; how much of a cell at most is known to its site alone."""
        return published_pooling(self.maps, self.priors)

    @property
    def own_accuracy(self) -> float | None:
        """Expected accuracy, or cost, on the sites' own rows alone.

        A cost is that of the plan's pair, whatever sites have set themselves; None where the plan has several, since
        which rows are whose is not known from totals.
        """
        if not self.own.size:
            return self.accuracy
        if self.plan.site_costs:
            return None
        accepted, positives, _ = self.own.sum(axis=0)
        constant, slope = self.plan.row_worth
        gain = float((slope * positives + constant * accepted) / self.mass.sum())
        return replace(self.required, positives=self.own[:, 2]).reported(gain)

    @property
    def own_global_gaps(self) -> Floats:
        """Global gaps on the sites' own rows alone, as ``global_gaps``."""
        if not self.own.size or not self.global_gaps.size:
            return self.global_gaps
        accepted, positives, of_all = self.own.T
        compared = len(self.plan.constrained)
        rates, units = self.plan.group_rates[:compared], self.plan.global_tolerances[1]
        counts = np.isfinite(replace(self.required, positives=of_all).tolerance[:, :compared])
        base = [rate.denominator(self.mass, of_all) for rate in rates]
        above = [rate.numerator(accepted, positives) for rate in rates]
        shares = np.divide(above, base, out=np.zeros((len(rates), len(self.mass))), where=np.array(base) > 0).T
        return np.asarray(gap_of(shares, counts, axis=0) / units)

    @property
    def certificate(self) -> Certificate:
        """Accuracy, bound, gap and violation; local prices stay with the sites.

        By how much a site exceeds a local tolerance stays there too: the violation is infinite where one does.
        """
        _, units = self.plan.global_tolerances
        return Certificate(
            primal=self.accuracy,
            dual=self.bound,
            optimality_gap=self.bound - self.accuracy if self.objective == "accuracy" else self.accuracy - self.bound,
            violation=math.inf if self.exceeding else self.violation,
            prices=TolerancePrices(
                np.array(list(self.prices_by_name.values())), np.zeros((0, len(self.plan.local_rates)))
            ),
            basis="eta",
            precision=LARGEST_VIOLATION / float(min([1.0, *units.tolist()])),
            largest_optimality_gap=self.plan.optimality_gap * self.plan.cost_unit,
            pooling=self.pooling.prior,
            objective=self.objective,
            cost_unit=self.plan.cost_unit,
        )

    @property
    def prices_by_name(self) -> dict[str, float]:
        """What a unit less of each global requirement wins at most, as it is typed."""
        return {str(item): price for item, price in self.required.prices(self.bound_prices).items()}

    @property
    def holds(self) -> bool:
        """Whether the certificate holds: every requirement is met, and the optimality gap is the one agreed on."""
        return self.certificate.holds

    @property
    def rounding(self) -> float:
        """How far rates may be off because the totals of secure sums are rounded; 0 without them."""
        if not self.plan.secure:
            return 0.0
        step = 0.5 * len(self.sites) * Totals.steps_of([(1,), (1,), (1, 0), (0,)])[1]  # of the expected positives
        shares = 0.5 * len(self.sites) * FinalFigures.steps_of([(1,), (1, 1), (1,), (0,), (0, 3)])[1]
        off = [2.0 * shares]
        for rate in self.plan.group_rates:
            base = rate.denominator(self.mass, self.positives)
            slope = abs(float(rate.denominator(np.zeros(1), np.ones(1))[0]))
            off += (2.0 * slope * step / base[base > 0]).tolist()
        return float(max(off))

    def summary(self) -> str:
        """Return the result in a few lines for people."""
        return "\n".join([self.heading, *(f"{label}: {sentence}" for label, sentence in self.sentences())])

    @property
    def heading(self) -> str:
        """Run, sites and rows in one line."""
        sites, about = self.sites, "about " if self.plan.privacy is not None else ""
        more = f" and {len(sites) - _NAMED:,} more" if len(sites) > _NAMED else ""
        groups = ", ".join(f"{group} {mass:,.0f}" for group, mass in zip(self.plan.groups, self.mass, strict=True))
        return (
            f"Run {self.plan.run}: {len(sites):,} {'site' if len(sites) == 1 else 'sites'} "
            f"({', '.join(sites[:_NAMED])}{more}), {about}{self.mass.sum():,.0f} rows ({groups})"
        )

    def sentences(self) -> Iterator[tuple[str, str]]:
        """What was required, what holds, how the numbers came together, and warnings, as (label, sentence)."""
        yield from self._figures()
        yield from self._ways()
        yield from self._warnings()

    def _figures(self) -> Iterator[tuple[str, str]]:
        certificate = self.certificate
        yield "Required", self.plan.summary()
        yield (
            "Holds" if certificate.holds else "Found",
            f"Expected {self._bounded()} (optimality gap {tiny(certificate.optimality_gap)}, "
            f"violation {tiny(self.violation)}), in calibrated chances on the sites' calibration rows"
            f"{added_to_rows(certificate.pooling)}.",
        )
        for requirement, gap in zip(self.plan.constrained, self.global_gaps, strict=True):
            if requirement.tolerance is not None:
                yield "Gaps", f"{requirement.rate.name} over all sites: {gap:.5f} of {requirement.tolerance:g} allowed."
        for name, own in self.required.by_name(self.rates, self.required.limited).items():
            rates = ", ".join(f"{group} {rate:.5f}" for group, rate in own.items())
            yield "Rates", f"{name} over all sites: {rates}.{self._ratio_of_nothing(name, own)}"
        for name, price in self.prices_by_name.items():
            if price > 1e-9:
                yield "Price", relief_sentence(price, str(name), self.objective)

    def _bounded(self) -> str:
        """What was reached, and that nothing is beyond, up to the bound."""
        reached, bound = reached_and_bound(self.accuracy, self.bound, self.objective, 5)
        none = f"{no_rule('eta')} within the requirements"
        if self.objective == "accuracy":
            return f"accuracy {reached}; {none} exceeds {bound}"
        return f"cost {reached} per person; {none} is below {bound}"

    def _ratio_of_nothing(self, name: str, own: Mapping[str, float]) -> str:
        """That a ratio says nothing where all rates are 0."""
        ratio = any(r.ratio is not None and r.rate.name == name for r in self.plan.constrained)
        return " All are 0, of which a ratio says nothing." if ratio and max(own.values(), default=0.0) < 1e-9 else ""

    def _own_rows(self) -> str:
        """What holds on the sites' own rows, in a sentence."""
        gaps = "".join(
            f", {requirement.rate.name} {gap:.5f}"
            for requirement, gap in zip(self.plan.constrained, self.own_global_gaps, strict=True)
        )
        costs = "" if self.objective == "accuracy" else " at the plan's costs"
        own = [] if self.own_accuracy is None else [f"expected {self.objective} {self.own_accuracy:.5f}{costs}"]
        if SELECTED.terms in [each.terms for each in self.plan.combinations] and self.own.size:
            own.append(f"share of people selected {self.own[:, 0].sum() / self.mass.sum():.5f}")
        own += [f"gaps over all sites:{gaps[1:]}"] if gaps else []
        alone = f"On the sites' own rows alone: {', '.join(own)}; gaps" if own else "Gaps"
        return f"{alone} inside a site stand in its own policy."

    def _ways(self) -> Iterator[tuple[str, str]]:
        """How the numbers came together."""
        counts = ", ".join(f"{purpose} {count}" for purpose, count in self.exchanges.items())
        if self.priors is not None:
            yield "Pooling", f"{self.pooling.summary()} {self._own_rows()}"
        yield from self._of_few_rows()
        if self.plan.smallest_cell > 1:
            yield (
                "Cells",
                f"A group with fewer than {self.plan.smallest_cell} rows at a site is in none of these figures and "
                "takes the merged rule there; the site's own policy names it.",
            )
        yield "Exchanges", f"{sum(self.exchanges.values())} in all: {counts}."
        if self.plan.secure:
            yield "Sums", "Secure: the server saw sums over 3 sites or more; see docs/THREATS.md for what they tell."
        privacy = self.plan.privacy
        if privacy is not None:
            yield (
                "Privacy",
                f"All numbers come from one noised histogram per site (epsilon {privacy.epsilon:g}, delta "
                f"{privacy.delta:g}); the requirements are met on these counts, and real rows differ from them. No "
                "cell borrows from other sites.",
            )

    def _of_few_rows(self) -> Iterator[tuple[str, str]]:
        """Whose calibration was not measured by itself."""
        if self.maps is None:
            return
        names = np.array([str(group) for group in self.plan.groups])
        for place in np.unique(self.maps.places).tolist():
            few = names[self.maps.places == place].tolist()
            if place >= 0 and len(few) > 1:
                yield "Calibration", f"{listed(few, len(few))} have few rows each and were calibrated as one group."
            elif place < 0:
                others = "the map of the other groups" if len(few) < names.size else "the scores as they are"
                yield (
                    "NOT MEASURED",
                    f"How scores of {listed(few, len(few))} relate to labels over all sites: too few rows, or sites "
                    f"that have both labels; every site started from {others}.",
                )

    def _warnings(self) -> Iterator[tuple[str, str]]:
        """Who is missing, and what was not reached."""
        for each in self.excluded:
            # Whoever is still in the roster was counted: only the confirmation of the result did not come.
            rest = "it may not have its policy yet" if each.site in self.sites else "the figures are about the others"
            if each.known and (self.maps is not None or self.priors is not None):
                rest += ", whose calibrators and priors were made together with it"
            yield "Excluded", f"{each.site}: {each.reason} (during {each.purpose}); {rest}."
        certificate = self.certificate
        if not certificate.meets_requirements:
            inside = f", and {self.exceeding:,} sites miss a requirement inside" if self.exceeding else ""
            yield (
                "WARNING",
                f"A requirement over all sites is exceeded by up to {self.violation:.5f}{inside}: algorithm1 may miss "
                "its tolerances; use the exact solver to keep them.",
            )
        elif not certificate.holds and self.plan.solver is None:
            yield (
                "WARNING",
                "Every requirement is met, but the optimality gap is still above "
                f"{certificate.largest_optimality_gap:g}, the one agreed on, after {self.rounds:,} "
                f"{'round' if self.rounds == 1 else 'rounds'}: a better rule may exist; allow more rounds.",
            )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for files: what was required of whom, and what holds."""
        published: dict[str, Any] = plain(self.published())
        named = {"sites": list(self.sites), "requirements": self.plan.published_requirements().as_dict()}
        run: dict[str, Any] = published.pop("run")
        return published | run | named

    def published(self) -> PublishedInfo:
        """What the sites are sent of it: the roster as a number and a fingerprint, its names only with secure sums."""
        who, certificate = Members.of(self.sites, named=self.plan.secure), self.certificate
        names = [r.rate.name for r in self.plan.constrained]
        return PublishedInfo(
            logofair=__version__,
            run=FederationInfo(
                run=self.plan.run,
                sites=who.number,
                roster=who.digest,
                names=who.names,
                excluded=tuple({"site": e.site, "reason": e.reason, "during": e.purpose} for e in self.excluded),
                exchanges=dict(self.exchanges),
                rounds=self.rounds,
                global_gaps=dict(zip(names, self.global_gaps.tolist(), strict=True)),
                prices=self.prices_by_name,
                groups=dict(zip(map(str, self.plan.groups), self.mass.tolist(), strict=True)),
                secure_sums=self.plan.secure,
                global_rates=self.required.by_name(self.rates, self.required.limited),
                today=self.required.today_by_name,
            ),
            requirements=RequirementsInfo.of(self.plan.published_requirements()),
            certificate=CertificateInfo(
                primal=self.accuracy,
                dual=self.bound,
                optimality_gap=certificate.optimality_gap,
                violation=self.violation,
                basis=certificate.basis,
                holds=certificate.holds,
                rounding=self.rounding,
                objective=self.objective,
                pooling=certificate.pooling,
            ),
            pooling=self.pooling,
            own_rows=OwnRowsInfo(self.own_accuracy, dict(zip(names, self.own_global_gaps.tolist(), strict=True))),
        )
