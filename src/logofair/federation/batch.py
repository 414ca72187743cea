"""A batch of sites that answer the server's requests in one pass; a client is a batch of one.

At given prices of the global rates (Lagrange multipliers) the sites' problems are separate, so one process solves many
of them in one vectorised pass. Each site's numbers are the same whoever else is in the batch.

A rule counts by two numbers in each cell (the rows of one group at one site): u is the share of the cell's rows that it
accepts, and v the share that it accepts and that is positive. All gains and rates are linear in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from logofair.calibration.federated import GroupMaps
from logofair.columns.cells import Cells
from logofair.columns.checks import Floats
from logofair.columns.segments import Indices
from logofair.errors import InfeasibleError, InputError, RefusedError
from logofair.federation.exchange import GroupCounts, Refusal, Request, Sums, all_finite
from logofair.federation.global_side import GlobalRequirements
from logofair.federation.plan import Members, Plan
from logofair.federation.privacy import Release
from logofair.federation.rows import Chances, Preparation, SiteColumns, site_rows
from logofair.fitting.pooling import Borrowed, GroupPriors
from logofair.fitting.solving import CalibrationRows, ordered_cells, with_best
from logofair.policy.info import PublishedInfo
from logofair.policy.mixtures import Mixtures
from logofair.requirements import Requirements, of_places
from logofair.solvers.algorithm1 import SmoothedDual
from logofair.solvers.joint import solve_joint
from logofair.solvers.local import local_bound, solve_local
from logofair.solvers.problem import Problem, cost_pairs, make_problem, unconstrained

# How far the joint solver's answer may exceed a local requirement; the final check allows more.
_EXCESS = 1e-10
_LOOSE = 1e-6  # a dual bound this far above the answer's gain does not prove it optimal
# Prices are accuracy per unit of a rate; a request with larger ones is refused.
LARGEST_PRICE = 1e10


@dataclass(frozen=True, eq=False)
class _BatchAnswer:
    """The sites' optimal rules at given prices of the global rates, subject to their local requirements."""

    u: Floats  # (sites, groups)
    v: Floats  # (sites, groups)
    gain: Floats  # (sites,), over rejecting everybody, without the prices, as a share of all rows
    shares: Floats  # each site's part of the global rates, (sites, groups, global rates)
    bound: Floats  # (sites,), dual: no rule that meets the local requirements is worth more at these prices


def best_answer(problem: Problem, prices: Floats) -> _BatchAnswer:
    """Every site's optimum at given prices (groups, global rates), with the dual bound that proves it."""
    gain_u, gain_v = problem.priced_gain(prices)
    u, v, local_prices = np.zeros_like(gain_u), np.zeros_like(gain_v), np.zeros_like(problem.local[0])
    for sites in _by_method(problem, gain_v):
        u[sites], v[sites], local_prices[sites] = _solved(_of_sites(problem, sites), prices)
    bound = local_bound(problem, gain_u, gain_v, local_prices)
    # Where a program was not solved, local prices of 0 may prove a better bound than those it ended with.
    for site in np.flatnonzero(bound > _LOOSE + (gain_u * u + gain_v * v).sum(axis=1)):
        one, own = _of_sites(problem, np.array([site])), slice(site, site + 1)
        unpriced = local_bound(one, gain_u[own], gain_v[own], np.zeros_like(local_prices[own]))
        bound[own] = np.minimum(bound[own], unpriced)
    return _BatchAnswer(u, v, problem.site_gains(u, v), problem.site_shares(u, v), problem.site_mass * bound)


def _by_method(problem: Problem, gain_v: Floats) -> list[Indices]:
    """The sites in parts, each of which one method solves: the method that the site would get if it were alone."""
    limits, sites = problem.local_limits, problem.shape[0]
    # Which method solves a problem depends on the kinds of its limits, so only sites with the same kinds go together.
    ratio = (limits.ratio > 0).any(axis=1)
    limited = np.stack([ratio, limits.more_than_tolerances.any(axis=1)], axis=1)
    kinds = [np.flatnonzero((limited == kind).all(axis=1)) for kind in np.unique(limited, axis=0)]
    if len(kinds) > 1:
        return [own[each] for own in kinds for each in _by_method(_of_sites(problem, own), gain_v[own])]
    if not problem.compares_selection:
        return [np.arange(sites)]
    by_rank = (gain_v.min(axis=1) >= 0) | ~problem.inside.compared.any(axis=(1, 2))
    return [some for some in (np.flatnonzero(by_rank), np.flatnonzero(~by_rank)) if some.size]


def _solved(problem: Problem, prices: Floats) -> tuple[Floats, Floats, Floats]:
    """Optimal u and v, and the dual prices of the local rates.

    A site whose program cannot be solved soundly goes to the joint solver, which is slower.
    """
    gain_u, gain_v = problem.priced_gain(prices)
    found = solve_local(problem, gain_u, gain_v)
    u, v, local_prices = found.u, found.v, found.prices
    sites = problem.shape[0]
    if not found.sound and sites > 1:  # one by one, so that the others keep their answers
        each = [_solved(_of_sites(problem, np.array([c])), prices) for c in range(sites)]
        u, v, local_prices = (np.concatenate(parts) for parts in zip(*each, strict=True))
    elif not found.sound:
        try:
            solved = solve_joint(problem.at_prices(prices))
        except InfeasibleError:  # the site has reported by how much (Totals.slack)
            solved = None
        if solved is not None and problem.local_excess(solved.u, solved.v).max(initial=0.0) < _EXCESS:
            u, v, local_prices = solved.u, solved.v, solved.local_prices
        elif problem.local_limits.only_tolerances:  # rejecting everybody has no gaps, and any prices give a bound
            u, v = np.zeros_like(u), np.zeros_like(v)
    # Sites without requirements take the best corner itself, which no pivoting has rounded.
    free = np.flatnonzero(~problem.inside.limited.any(axis=(1, 2)))
    if free.size:
        cells = (free[:, None] * problem.shape[1] + np.arange(problem.shape[1])).ravel()
        _, corner_u, corner_v = problem.cells.best_corner(cells, gain_v[free].ravel(), gain_u[free].ravel())
        u[free], v[free] = corner_u.reshape(free.size, -1), corner_v.reshape(free.size, -1)
        local_prices[free] = 0.0
    return u, v, local_prices


def _of_sites(problem: Problem, sites: Indices) -> Problem:
    """The problem of some of the sites; its totals stay those of the whole roster."""
    if sites.size == problem.shape[0]:
        return problem
    return replace(problem.of_sites(sites), totals=problem.totals)


@dataclass(frozen=True, eq=False)
class ClientState:
    """What the sites of a batch know of a run. Axes called ``sites`` have one entry in a real client.

    The answers at all prices so far are kept, since the final policy mixes the very ones that the server has counted.
    """

    plan: Plan
    sites: tuple[str, ...]
    roster: int = 0
    maps: GroupMaps | None = None
    releases: tuple[Release, ...] = ()
    pooling_steps: int = 0  # the last step of pooling that was answered in this roster
    priors: GroupPriors | None = None  # of the roster, where small cells borrow
    totals: GroupCounts | None = None  # of the roster
    prices: Floats | None = None  # (answers, groups, global rates)
    u: Floats | None = None  # (answers, sites, groups)
    v: Floats | None = None
    local_multipliers: Floats | None = None  # Algorithm 1: (sites, pairs, local rates)
    steps: int = 0  # Algorithm 1: rounds taken
    mixture: Request | None = None  # which answers the rules mix
    rules: Mixtures | None = None
    exceeding: bool = False  # whether these rules exceed a local tolerance: then the result is refused
    result: PublishedInfo | None = None
    forged: str = ""  # why the published result was not accepted
    members: Members | None = None  # of the roster, as the server says; None: not known
    local_tolerance: float | None = None  # the sites' own, in place of the plan's
    costs: tuple[float, float] | None = None  # the sites' own, in place of the plan's

    @property
    def requirements(self) -> Requirements:
        """All requirements of the run, with the sites' own tolerance and costs where they have them."""
        return self.plan.requirements(self.sites, self.local_tolerance, self.costs)

    def in_new_roster(self, roster: int) -> ClientState:
        """The state at the beginning of a new roster, in which totals, answers and steps of the last one are void.

        Calibrators and priors stay until new ones come: a roster that lost a site goes on with them.
        """
        kept = ("maps", "releases", "priors", "members", "local_tolerance", "costs")
        return ClientState(self.plan, self.sites, roster, **{name: getattr(self, name) for name in kept})


@dataclass(frozen=True, eq=False)
class ClientBatch:
    """Rows of one site or several, and their state; every answer returns the next state.

    Examples
    --------
    >>> from logofair.federation import ClientBatch, Server, SiteColumns, make_plan
    >>> plan = make_plan(groups=["F", "M"], calibration="none", pooling="none", smallest_cell=1, run="demo")
    >>> rows = SiteColumns(sensitive_features=["F", "F", "M", "M"], scores=[0.9, 0.3, 0.6, 0.1])
    >>> batch = ClientBatch.of({"north": rows, "south": rows}, plan)
    >>> batch, sums = batch.answer(Server.start(plan, ["north", "south"]).request)
    >>> type(sums.total()).__name__
    'Totals'
    """

    preparation: Preparation  # the rows
    state: ClientState

    @classmethod
    def of(cls, columns: dict[str, SiteColumns], plan: Plan) -> ClientBatch:
        """Check the columns of some sites against a plan; names in sorted order."""
        sites, rows = tuple(sorted(columns)), []
        for site in sites:  # what is wrong is said with the site's name, since all are in one process here
            try:
                rows.append(site_rows(columns[site], plan))
            except RefusedError as error:
                raise RefusedError(error.refusal, f"site {site!r}: {error}") from None
            except InputError as error:
                raise InputError(f"site {site!r}: {error}") from None
        return cls.resumed(rows, ClientState(plan, sites))

    @classmethod
    def resumed(cls, rows: Sequence[CalibrationRows], state: ClientState) -> ClientBatch:
        """The batch of rows and a state, which may come from an earlier process."""
        return cls(Preparation.of(rows, state.plan, state.sites), state)

    def answer(self, request: object) -> tuple[ClientBatch, Sums]:
        """Answer a request: the next state, and sums whose first axis counts the sites."""
        if not isinstance(request, Request):
            raise RefusedError(Refusal.BAD_MESSAGE)
        if not all_finite(request):
            raise RefusedError(Refusal.BAD_REQUEST, "a request has a number that is not finite.")
        return request.answer(self)

    def updated(self, **changes: Any) -> ClientBatch:
        """The batch in a later state of the same roster, with all cached properties of this one.

        Not for changes of maps, priors or releases, on which the cached cells depend.
        """
        found = replace(self, state=replace(self.state, **changes))
        vars(found).update({name: known for name, known in vars(self).items() if name not in vars(found)})
        return found

    @cached_property
    def chances(self) -> Chances:
        """The rows with their calibrated chances."""
        return self.preparation.chances(self.state.maps, self.state.releases)

    @cached_property
    def own_cells(self) -> Cells:
        """The cells of the sites' own rows, without what small cells borrow."""
        return ordered_cells(self.chances.rows, "eta")

    @cached_property
    def borrowing(self) -> tuple[Cells, Borrowed | None]:
        """The cells with what small ones borrow from their groups, and what is borrowed; None without pooling."""
        if self.state.priors is None:
            return self.own_cells, None
        cells, borrowed = self.preparation.borrowing(self.chances, self.state.priors)
        return replace(cells, rows=self.own_cells.rows), borrowed

    @property
    def cells(self) -> Cells:
        """The cells for which rules are found: the sites' own rows, and what small cells borrow."""
        return self.borrowing[0]

    @property
    def today(self) -> Floats:
        """What the rows accepted without any requirement count in the rates of today, (sites, groups, rates)."""
        cells, shape, rates = self.cells, self.preparation.shape, self.state.plan.over_all.today
        if not rates:
            return np.zeros((*shape, 0))
        u, v = unconstrained(cells, make_problem(local_requirements(self.state.requirements, cells), cells).row_gain)
        mass = cells.mass.reshape(shape)
        return np.stack([rate.numerator(mass * u, mass * v) for rate in rates], axis=2)

    @cached_property
    def problem(self) -> Problem:
        """The sites' part of the federation's problem: their own requirements, and the rates limited over all sites.

        It needs the totals of the roster.
        """
        plan, totals = self.state.plan, self.state.totals
        if totals is None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        cells = self.cells
        own = local_requirements(self.state.requirements, cells)
        problem, costs = make_problem(own, cells, totals), own.costs
        if costs is not None:  # in the plan's unit, so that sums over sites are in one
            pairs = cost_pairs(costs, plan.cost_scale.unit, cells.n_sites)
            problem = replace(problem, costs=pairs, cost_unit=plan.cost_scale.unit)
        required = GlobalRequirements(plan, totals.mass, totals.positives)
        problem = replace(
            problem,
            global_rates=plan.over_all.rates,
            global_limits=required.of_totals,
        )
        tied = problem.tied()
        if tied is problem or not plan.inside.limited:
            return tied
        # A global rate that must be 1 ties rows together, which a site may have to tell apart to meet its own
        # requirements: where no rule meets them any more, rows stay untied.
        each = (_of_sites(tied, np.array([site])) for site in range(cells.n_sites))
        return problem.tied([site for site, one in enumerate(each) if not solve_local(one, *one.gain).sound])

    @cached_property
    def smoothed_dual(self) -> SmoothedDual:
        """The dual that Algorithm 1 descends."""
        return SmoothedDual(self.problem)

    def with_totals(self, mass: Floats, positives: Floats) -> ClientBatch:
        """The batch with the totals of the roster; refuses totals that cannot be right."""
        if (known := self.state.totals) is not None:
            if not (np.array_equal(known.mass, mass) and np.array_equal(known.positives, positives)):
                raise RefusedError(Refusal.OTHER_REQUEST)  # totals belong to a roster: they never change within it
            return self
        for total, own in ((mass, self.cells.mass), (positives, self.cells.positives)):
            least = own.reshape(-1, self.cells.n_groups).sum(axis=0)  # the roster has at least the rows of the sites
            if total.shape != least.shape or not np.all((total >= least * (1 - 1e-6) - 1e-6) & (total <= 1e15)):
                raise RefusedError(Refusal.BAD_REQUEST)
        return self.updated(totals=GroupCounts(mass, positives))

    @property
    def cost_offset(self) -> Floats:
        """How much cheaper it is to reject everybody at a site's own costs than at the plan's highest, (sites,).

        As a share of all rows. The gains in replies are over rejecting everybody at the plan's highest costs. So the
        server, who knows how many positives there are, gets the total cost from their sum without any site's costs.
        """
        problem = self.problem
        if problem.costs is None:
            return np.zeros(problem.shape[0])
        most = self.state.plan.cost_scale.largest[1] / self.state.plan.cost_scale.unit
        return np.asarray((most - problem.costs[:, 1]) * problem.positives.sum(axis=1))


def local_requirements(required: Requirements, cells: Cells) -> Requirements:
    """The requirements inside sites, with each site's weight of rows, which turns bounds in people into shares.

    What a site may lose is counted against the best rule that it could have by itself, which no other knows.
    """
    people = cells.mass.reshape(cells.n_sites, cells.n_groups).sum(axis=1)
    own = required.only(item for item in required.items if not item.scope.is_global)
    own = replace(own, people=tuple(people.tolist()))
    if not any(item.is_loss_inside for item in own.items):
        return own
    return replace(own, best=tuple(_best_gain(own, cells, site) for site in range(cells.n_sites)))


def _best_gain(own: Requirements, cells: Cells, site: int) -> float:
    """What a site's best rule by itself gains per person, whatever other sites are in this process."""
    name, costs = str(own.sites[site]), None if own.costs is None else own.costs.only(site)
    items = of_places(own.items, [name], own.groups)
    alone = replace(own, items=items, sites=(name,), costs=costs, people=own.people[site : site + 1])
    try:
        found = with_best(alone, cells.of_sites(np.array([site])), "eta")[0].best
        return found[0] if found else 0.0  # no loss is limited at this site
    except InfeasibleError:  # which the site says with its totals: nothing is required of its loss then
        return -1.0 if costs is None else -costs.largest


def broadcast_prices(prices: Floats, plan: Plan) -> Floats:
    """Prices (..., groups, rates) with those of combinations in every group; messages have them in the first alone.

    A combination is a sum of rates of several groups, and so has one price.
    """
    if not plan.over_all.combinations:
        return prices
    first = len(plan.over_all.group_rates)
    of_all = np.broadcast_to(prices[..., :1, first:], prices[..., first:].shape)
    return np.concatenate([prices[..., :first], of_all], axis=-1)


def split_combinations(shares: Floats, plan: Plan) -> tuple[Floats, Floats]:
    """Shares (..., groups, rates) as replies have them: by group, and of combinations only the sum over groups."""
    rates = len(plan.over_all.group_rates)
    return shares[..., :rates], shares[..., rates:].sum(axis=-2)
