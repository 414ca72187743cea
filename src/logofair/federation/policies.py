"""The policy of each site after a run, and of a site that joins once the run is over."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from logofair.errors import InputError, RefusedError
from logofair.federation.batch import ClientBatch, ClientState
from logofair.federation.exchange import GroupCounts, Refusal
from logofair.federation.exchanges.publication import wrong_in
from logofair.federation.limits import SiteLimits
from logofair.federation.privacy import Release, at_edges
from logofair.federation.result import RunResult, published_pooling
from logofair.federation.rows import SiteColumns, of_sites, site_rows
from logofair.fitting.solution import FitWarning, cell_warnings
from logofair.outcomes import FEW_ROWS
from logofair.policy.info import PolicyInfo, PublishedInfo, SiteInfo
from logofair.policy.mixtures import coin_share, evaluate, score_blind_rules
from logofair.policy.policy import Policy
from logofair.requirements import RequirementsInfo


class SitePolicies(Mapping[str, Policy]):
    """The policies of the sites of a batch, by site; each is put together when it is looked up.

    Examples
    --------
    >>> from logofair.engines.inprocess import run
    >>> from logofair.federation import SiteColumns, make_plan
    >>> rows = SiteColumns(sensitive_features=["F", "F", "M", "M"], scores=[0.9, 0.3, 0.6, 0.1])
    >>> plan = make_plan(groups=["F", "M"], calibration="none", smallest_cell=1, run="demo")
    >>> policies = run(plan, {"north": rows, "south": rows}).policies
    >>> type(policies).__name__, sorted(policies), policies["north"].site
    ('SitePolicies', ['north', 'south'], 'north')
    """

    def __init__(self, batch: ClientBatch) -> None:
        self._batch = batch

    def __getitem__(self, site: str) -> Policy:
        state = self._batch.state
        if site not in state.sites:
            raise KeyError(site)
        if state.forged:
            raise RefusedError(Refusal.BAD_MESSAGE, f"the published result is refused, since {state.forged}.")
        return _policy(self._batch, state.sites.index(site), state.result)

    def __iter__(self) -> Iterator[str]:
        return iter(self._batch.state.sites)

    def __len__(self) -> int:
        return len(self._batch.state.sites)


def late_policy(
    result: RunResult,
    columns: SiteColumns,
    site: str,
    release: Release | None = None,
    *,
    local_tolerance: float | None = None,
    costs: tuple[float, float] | None = None,
) -> Policy:
    """A site's policy from the published result and its own rows alone.

    For a site that was absent or joins later: the policy meets the requirements inside the site, and says that the
    global ones were met without it. A site of the roster gets back the policy it had. Under differential privacy a site
    that has released its histogram passes it as ``release``; otherwise one is made, which spends its privacy budget.
    ``local_tolerance`` and ``costs`` are the site's own (:class:`SiteLimits`).

    Examples
    --------
    >>> from logofair.engines.inprocess import run
    >>> from logofair.federation import make_plan
    >>> rows = SiteColumns(sensitive_features=["F", "F", "M", "M"], scores=[0.9, 0.3, 0.6, 0.1])
    >>> plan = make_plan(groups=["F", "M"], calibration="none", smallest_cell=1, run="demo")
    >>> result = run(plan, {"north": rows, "south": rows}).result
    >>> late_policy(result, rows, "east").info.note[:36]
    'This site did not take part in the r'
    """
    own = SiteLimits(local_tolerance=local_tolerance, costs=costs)
    own.check(result.plan, site)
    state = ClientState(
        result.plan,
        (site,),
        local_tolerance=own.local_tolerance,
        costs=own.costs,
        maps=result.totals.maps,
        priors=result.totals.priors,
        releases=() if release is None else (release,),
        totals=GroupCounts(result.totals.mass, result.totals.positives),
    )
    batch = ClientBatch.resumed([site_rows(columns, result.plan)], state)
    state = replace(state, releases=batch.preparation.releases(state.releases))
    batch, figures = replace(batch, state=state).answer(result.final.request)
    if figures.exceeding.any():  # type: ignore[attr-defined]
        raise RefusedError(Refusal.NO_SOLUTION, f"site {site!r}: no rule found that meets its local requirements.")
    wrong = wrong_in(batch, result, counted=site in result.sites)
    if wrong is not None:
        raise InputError(f"result: {wrong}; get the file again from the server.")
    from logofair.words.federated import LATE_NOTE

    return _policy(batch, 0, result.published(), note=None if site in result.sites else LATE_NOTE)


def _policy(batch: ClientBatch, number: int, result: PublishedInfo | None, note: str | None = None) -> Policy:
    """The policy of one site of a batch, with what was published and what its own rows say of it."""
    state, plan, site = batch.state, batch.state.plan, batch.state.sites[number]
    assert state.rules is not None
    rules = state.rules.at(number * len(plan.groups) + np.arange(len(plan.groups)))
    if len(state.sites) > 1:  # a batch of this site alone; its answers to prices are not needed any more
        without_answers = replace(state, prices=None, u=None, v=None, local_multipliers=None)
        releases = state.releases[number : number + 1]
        own = replace(without_answers, sites=(site,), releases=releases, rules=rules)
        batch = ClientBatch.resumed([of_sites(batch.preparation.rows, number, number + 1)], own)
    return Policy(
        groups=plan.groups,
        sites=(site,),
        # On a histogram thresholds stand at the edges of bins, whose rows are treated alike.
        mixtures=rules if plan.privacy is None else at_edges(rules, plan.privacy.bins),
        calibrator=batch.chances.calibrator,
        merged_rules=None,
        # One key for all sites of a run: runs of other names toss other coins.
        key=int.from_bytes(hashlib.sha256(f"coins|{plan.run}".encode()).digest()[:8], "big"),
        info=_info(batch, result, note),
    )


def _info(one: ClientBatch, result: PublishedInfo | None, note: str | None) -> PolicyInfo:
    """What was published about the run, with what one site requires, borrows and measures itself."""
    state, plan, (_, borrowed) = one.state, one.state.plan, one.borrowing
    assert state.rules is not None
    required = RequirementsInfo() if result is None else result.requirements
    required = replace(required, costs=plan.costs_at(state.sites, state.costs))
    if state.local_tolerance is not None:
        own = plan.requirements(state.sites, state.local_tolerance).items
        required = replace(required, require=tuple(dict.fromkeys((*required.require, *own))))
    pooling = published_pooling(state.maps, state.priors)
    if borrowed is not None:
        pooling = replace(pooling, cells=borrowed.cells, largest_share=borrowed.largest_share)
    return PolicyInfo(
        requirements=required,
        certificate=None if result is None else result.certificate,
        rows=None if plan.privacy is not None else one.chances.rows.scores.size,
        calibration=plan.calibration,
        pooling=pooling,
        version="" if result is None else result.logofair,
        warnings=tuple(map(str, _warnings(one))),
        coin_share=coin_share(one.problem.cells, state.rules),
        score_blind_rules=score_blind_rules(one.problem.cells, state.rules),
        site=state.sites[0],
        site_figures=_figures(one),
        federation=None if result is None else result.run,
        note=note,
    )


def _figures(one: ClientBatch) -> SiteInfo:
    """What a site's rules do on its own rows; these figures never leave the site."""
    problem, groups = replace(one.problem, cells=one.own_cells), one.state.plan.groups
    assert one.state.rules is not None
    u, v = (each.reshape(problem.shape) for each in evaluate(problem.cells, one.state.rules))
    gaps = (problem.local_gaps(u, v) / problem.local_limits.unit)[0].tolist()
    measured = problem.inside.compared[0].any(axis=0)
    counted, mass = problem.mass[0] > 0, float(problem.mass.sum())
    return SiteInfo(
        accuracy=replace(problem, costs=None).accuracy(u, v) / mass if mass else None,
        local_gaps={rate.name: gaps[k] for k, rate in enumerate(problem.local_rates) if measured[k]},
        accepted={str(groups[a]): float(u[0, a]) for a in np.flatnonzero(counted)},
        smallest_cell=one.state.plan.smallest_cell,
        too_small=tuple(str(groups[a]) for a in np.flatnonzero(~counted)),
    )


def _warnings(one: ClientBatch) -> Iterator[FitWarning]:
    """Warnings about the site's own small cells; they never leave the site."""
    rows, plan = one.chances.rows, one.state.plan
    if plan.privacy is None:
        yield from cell_warnings(one.problem, rows, merged=True, smallest_cell=plan.smallest_cell)
        return
    # Counted in the noised histogram: warnings from true counts would not be covered by differential privacy.
    counts = np.bincount(rows.groups.codes, rows.weights, minlength=len(plan.groups))
    few = [plan.groups[a] for a in np.flatnonzero(counts < FEW_ROWS)]
    if few:
        yield FitWarning("few noised rows", tuple((one.state.sites[0], group) for group in few), len(few))
