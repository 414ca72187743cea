"""The plan: what a consortium agrees on before any row is touched, and what every site receives first."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from logofair.calibration import METHODS
from logofair.columns.checks import (
    Floats,
    Label,
    nearest_name,
    positive_number,
    random_number,
    shown,
    whole_number,
)
from logofair.columns.labels import check_spelling
from logofair.costs import ACCURACY, Costs, read_pair
from logofair.errors import InputError
from logofair.federation.privacy import Privacy
from logofair.fitting.pooling import POOLING
from logofair.notions import KNOWN_RATES, NotionLike, Rate
from logofair.records import InBrief, encode, spoken_digest
from logofair.requirement import ALL, TODAY, Requirement, Scope, own_rates
from logofair.requirements import (
    DEFAULT,
    Combination,
    Given,
    Holding,
    Requirements,
    allows_rejecting,
    of_places,
    read_items,
)
from logofair.solvers.algorithm1 import Algorithm1, solver_settings
from logofair.solvers.trials import trial_size

_SMALLEST_CELL = 5
# Under secure sums: a larger smallest cell would silence all but the largest site, whose numbers the totals then are,
# and other folds would tell single rows apart.
_MOST_SECURE_CELL, _SECURE_FOLDS = 20, 5
# What sites change in a round of Algorithm 1 is up to about three times that, and a hundred sites can sum 2,600 each.
_LONGEST_STEPS = 500.0
# Under secure sums a site that lies can keep the rounds going and read scores between their prices: of 34 plans with up
# to six groups none took more than 11.
_USUAL_ROUNDS, _SECURE_ROUNDS = 60, 20
# A plan arrives in messages: beyond these it would keep its sites at work for weeks, or is a slip of the keyboard.
_MOST_ROUNDS, _MOST_GROUPS = 10_000, 1_000
_RANGES = {
    "folds": (2, 50),
    "trials": (0, 10_000),
    "rounds": (1, _MOST_ROUNDS),
    "quorum": (1, 1_000_000),
    "smallest_cell": (0, 1_000_000),
}
_SMALLEST_RATIO = 1e-12  # next to none: the rates stay shares


@dataclass(frozen=True)
class Members:
    """Who takes part in a roster: how many, and a fingerprint of their names.

    Only with secure sums, whose masks are made between sites, do sites learn the names: otherwise messages would grow
    with the roster, and no site needs them.

    Examples
    --------
    >>> Members.of(["north", "south"], named=False).number
    2
    """

    number: int
    digest: str
    names: tuple[str, ...] = ()  # empty: not known

    def __post_init__(self) -> None:
        whole_number(self.number, "members")
        known = type(self.digest) is str and isinstance(self.names, tuple) and all(type(n) is str for n in self.names)
        if not known or (self.names and (self.number, self.digest) != (len(self.names), _names_digest(self.names))):
            raise InputError("members: their number, names and digest contradict each other; get the message again.")

    @classmethod
    def of(cls, sites: Sequence[str], *, named: bool) -> Members:
        """The members of a roster of these sites."""
        return cls(len(sites), _names_digest(sites), tuple(sites) if named else ())


def _names_digest(sites: Sequence[str]) -> str:
    return hashlib.sha256(encode(tuple(sorted(sites)))).hexdigest()


@dataclass(frozen=True, eq=False)
class _CostScale:
    """What errors cost in all of a run, in whose dearest error sites count."""

    every: Costs | None  # each pair that some site may have; None: accuracy counts
    largest: tuple[float, float]  # the most that a wrongly accepted row costs at any site, and a wrongly rejected one
    unit: float  # what the dearest error costs; 1 where accuracy counts
    # What accepting a row adds where errors are dearest, as a line in its chance: constant and slope, in these units.
    # Sites whose errors cost less count their gains from the same start (``ClientBatch.cost_offset``), so that limits
    # on totals that hold at these costs hold at theirs.
    row_gain: tuple[float, float]


@dataclass(frozen=True, eq=False)
class _OverAll:
    """What must hold over all sites, and the rates that have a price for it, in units of order 1."""

    required: tuple[Holding, ...]  # spelt out by its rates
    compared: tuple[Band, ...]  # the strictest of each rate that is compared: a tolerance, a ratio or both
    tolerances: Floats  # of these (infinite: a ratio alone)
    units: Floats  # of these
    # Those that are compared, then those that have a floor or a ceiling and are not compared; replies hold these.
    group_rates: tuple[Rate, ...]
    combinations: tuple[Combination, ...]  # of no group's rate alone; replies have a number each
    rates: tuple[Rate | Combination, ...]  # both, which have a price; that of a combination stands for the first group
    today: tuple[Rate, ...]  # that have to be what they are where nothing is required
    only_tolerances: bool  # whether no ratio, floor, ceiling or combination is required

    @property
    def counted(self) -> tuple[Rate, ...]:
        """Every rate of which totals hold a share, in combinations with others too."""
        combined = (rate for each in self.combinations for _, rate, _ in each.terms)
        return tuple(dict.fromkeys((*self.group_rates, *combined)))

    @classmethod
    def of(cls, required: tuple[Holding, ...]) -> _OverAll:
        """What follows from requirements that are spelt out."""
        compared = strictest(required, {})
        units = np.array([each.rate.normalised()[1] for each in compared])
        limited = [each.of for each in required if each.measure == "rate" and isinstance(each.of, Rate)]
        group_rates = dict.fromkeys(rate.normalised()[0] for rate in (*(each.rate for each in compared), *limited))
        combined = [each.of.normalised()[0] for each in required if isinstance(each.of, Combination)]
        combinations = tuple({each.terms: each for each in reversed(combined)}.values())[::-1]
        of_today = [each.of for each in required if np.isnan(each.bounds).any()]
        several = ((of,) if isinstance(of, Rate) else [rate for _, rate, _ in of.terms] for of in of_today)
        today = (rate.normalised()[0] for rates in several for rate in rates)
        return cls(
            required,
            compared,
            np.array([each.tolerance for each in compared], dtype=float) * units,
            units,
            tuple(group_rates),
            combinations,
            (*group_rates, *combinations),
            tuple(dict.fromkeys(today)),
            all(each.ratio is None for each in compared)
            and not combinations
            and not any(each.measure == "rate" for each in required),
        )


@dataclass(frozen=True, eq=False)
class _InsideSites:
    """What must hold inside sites."""

    required: tuple[Requirement, ...]
    rates: tuple[Rate, ...]  # whose gaps are required or looked at
    may_reject: bool  # whether every site may reject everybody, as far as its own requirements go
    limited: bool  # whether a site may be unable to meet them


@dataclass(frozen=True)
class Band:
    """What is required of the gap of one rate: a tolerance (infinite: free), a ratio, or both."""

    rate: Rate
    tolerance: float = np.inf
    ratio: float | None = None


def strictest(required: Sequence[Holding], relaxation: Mapping[Requirement, float]) -> tuple[Band, ...]:
    """What is required at most of each rate that is compared, where some requirements give way by an amount."""
    found: dict[Rate, Band] = {}
    for each in required:
        if each.measure not in ("gap", "ratio") or not isinstance(each.of, Rate):
            continue
        known = found.setdefault(each.of, Band(each.of))
        bound, given = float(each.bounds[0]), relaxation.get(each.requirement, 0.0)
        if each.measure == "gap":
            known = replace(known, tolerance=min(known.tolerance, bound + given))
        else:
            known = replace(known, ratio=max(known.ratio or 0.0, bound - given, _SMALLEST_RATIO))
        found[each.of] = known
    return tuple(found.values())


@dataclass(frozen=True)
class Plan:
    """Everything a run depends on apart from the rows; make one with :func:`make_plan`.

    Attributes
    ----------
    run : str
        Name of the run; two runs never share state.
    groups : tuple
        The groups compared, in the order of all tables.
    require : tuple of Requirement
        What must hold. With secure sums they name no sites, where a site sets its own tolerance
        (:class:`SiteLimits`).
    looked_at : pair of tuples of Rate
        The rates whose gaps are shown inside sites and over all, required or not.
    costs : tuple of two floats, or None
        What a wrongly accepted and a wrongly rejected row cost, at every site that ``site_costs`` does not name.
        None, and none there: accuracy counts.
    site_costs : tuple of (site, costs)
        Single sites whose costs replace ``costs``; none with secure sums, where a site sets its own
        (:class:`SiteLimits`), neither of them larger than the plan's.
    calibration, folds, random_state
        As in :func:`logofair.fit`; with secure sums there are 5 folds.
    pooling : str
        As in :func:`logofair.fit`: "auto", "none" or "full". With secure sums, and under differential privacy, "auto"
        means "none", and "full" is refused; with secure sums small cells still keep to their group's calibration map.
    solver : Algorithm1 or None
        None: exact rounds to a certified optimality gap.
    optimality_gap : float
        Where the exact rounds stop: no rule of score, group and site is more accurate by more than this, or saves more
        than this share of the dearest error's cost per row.
    trials, rounds : int
        Prices per message (0: as many as pay), and the most rounds before the optimality gap reached is accepted.
    quorum : int
        With fewer sites than this the run fails.
    secure : bool
        Whether the server may see nothing but sums over 3 sites or more.
    privacy : Privacy or None
        Differential privacy of every site's rows.
    smallest_cell : int
        A group with fewer rows than this at a site is counted in nothing that leaves the site, and takes the merged
        rule there: how the group's rows are best decided at the prices of the global requirements alone; with pooling
        also within the local tolerances, if its scores are there as at all sites. 1: every row counts. Under
        differential privacy 1, since whether a count is left out would tell of it what the noise hides. With secure
        sums 20 at most.

    Examples
    --------
    >>> plan = make_plan(groups=["F", "M"], local_tolerance=0.05, global_tolerance=None, run="spring")
    >>> print(*plan.require)
    selection rate gap <= 0.05 per site
    """

    run: str
    groups: tuple[Label, ...]
    require: tuple[InBrief[Requirement], ...]
    looked_at: tuple[tuple[InBrief[Rate], ...], tuple[InBrief[Rate], ...]] = ((), ())
    costs: tuple[float, float] | None = None
    site_costs: tuple[tuple[str, tuple[float, float]], ...] = ()
    calibration: str = "beta"
    folds: int = 5
    random_state: int = 0
    solver: Algorithm1 | None = None
    optimality_gap: float = 1e-5
    trials: int = 0
    rounds: int = _USUAL_ROUNDS
    quorum: int = 2
    secure: bool = False
    privacy: Privacy | None = None
    pooling: str = "auto"
    smallest_cell: int = _SMALLEST_CELL

    def __post_init__(self) -> None:
        """Check everything here: a plan is made by :func:`make_plan`, and also arrives in messages."""
        if not isinstance(self.privacy, Privacy | None):
            raise InputError("plan: its privacy is malformed; get the plan again.")
        check_run_name(self.run)
        if not isinstance(self.secure, bool):  # what is empty would leave secure sums out without a word
            raise InputError(f"secure: got {shown(self.secure)}; pass True or False.")
        additive = tuple(name for name in METHODS if name != "isotonic")
        if not isinstance(self.calibration, str) or self.calibration not in additive:
            raise InputError(
                f"calibration: got {shown(self.calibration)}{nearest_name(self.calibration, additive)}; in a "
                f"federation use one of {', '.join(additive)} (isotonic curves are not sums of what sites know)."
            )
        if not isinstance(self.pooling, str) or self.pooling not in POOLING:
            hint = nearest_name(self.pooling, POOLING)
            raise InputError(f"pooling: got {shown(self.pooling)}{hint}; use one of {', '.join(POOLING)}.")
        for name in ("rounds", "local_steps") if self.solver is not None else ():
            _between(getattr(self.solver, name), f"Algorithm1: {name}", 1, _MOST_ROUNDS)
        checked: dict[str, object] = {
            name: _between(getattr(self, name), name, *ends) for name, ends in _RANGES.items()
        }
        checked["quorum"] = whole_number(self.quorum, "quorum", least=3 if self.secure else 1)
        checked["smallest_cell"] = max(self.smallest_cell, 1)
        checked["groups"] = _group_names(self.groups)
        checked["costs"] = None if self.costs is None else read_pair(self.costs, "costs")
        checked["site_costs"] = _named_costs(dict(self.site_costs))
        checked["random_state"] = whole_number(self.random_state, "random_state", least=0)
        checked["optimality_gap"] = positive_number(self.optimality_gap, "optimality_gap", 1.0)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        own_rates(self.rates)  # no two of one name
        for item in self.require:
            if item.by not in ((), ALL) or any(isinstance(member, tuple) for who in item.who for member in who):
                raise InputError(
                    f"require: {str(item)!r} names a column, but a plan compares the groups of one (totals of "
                    "intersections are small and would tell more of sites); write the groups alone."
                )
        Requirements(self.require, self.named_sites or ("a site",), self.groups)
        for item in self.require:
            if item.measure in ("gap", "ratio") and item.bound == TODAY:
                raise InputError(
                    f"require: {str(item)!r}: in a federation only a rate can be limited to 'today'; pass a number."
                )
        for sites in ((), self.named_sites or ("a site",)):  # a loss is of what is best, and of one cost over all
            _ = self.requirements(sites).holding
        _check_choices(self)
        if self.secure or self.privacy is not None:  # a prior would be a second look at the rows, and hold single ones
            object.__setattr__(self, "pooling", "none")

    @property
    def rates(self) -> tuple[Rate, ...]:
        """The rates that it is about, each once."""
        every = (*(item.rates for item in self.require), *self.looked_at)
        return tuple(dict.fromkeys(rate for rates in every for rate in rates))

    @cached_property
    def over_all(self) -> _OverAll:
        """What must hold over all sites."""
        return _OverAll.of(tuple(self.requirements(()).holding["global"]))

    @cached_property
    def inside(self) -> _InsideSites:
        """What must hold inside sites."""
        items = tuple(item for item in self.require if not item.scope.is_global)
        gaps = [item for item in items if item.measure in ("gap", "ratio")]
        rates = tuple(dict.fromkeys(rate for item in gaps for rate in item.rates))
        return _InsideSites(
            items, rates or self.looked_at[0], all(map(allows_rejecting, items)), len(gaps) < len(items)
        )

    @property
    def named_sites(self) -> tuple[str, ...]:
        """The sites that requirements name."""
        return tuple(dict.fromkeys(site for item in self.require for site in item.scope.sites))

    @property
    def digest(self) -> bytes:
        """Fingerprint of the plan."""
        return hashlib.sha256(encode(self)).digest()

    @property
    def most_prices(self) -> int:
        """Price vectors that a site answers in one roster at most; what they tell is written in ``docs/THREATS.md``."""
        if self.solver is not None:  # one in each round, and the last one once more
            return self.solver.rounds + 1
        sides, rates = 2 if self.over_all.only_tolerances else 3, max(1, len(self.over_all.rates))
        # A roster may begin with the mixture of the one before, which has at most one answer per row of its program.
        return self.rounds * self.trials_at_most() + sides * len(self.groups) * rates + 1

    def trials_at_most(self, spare: int = 0) -> int:
        """Price vectors of one message, which carries so many bytes besides."""
        groups, over_all = len(self.groups), self.over_all
        limited = {each.of.normalised()[0] for each in over_all.required if each.measure == "rate"}
        plain = sum(each.ratio is None and each.rate.normalised()[0] not in limited for each in over_all.compared)
        axes = groups * len(over_all.group_rates) - plain + len(over_all.combinations)
        return self.trials or trial_size(groups, max(len(over_all.rates), 1), spare, max(axes, groups - 1))

    @property
    def fingerprint(self) -> str:
        """The digest as people read it to each other."""
        return spoken_digest(self.digest)

    @property
    def deals_folds(self) -> bool:
        """Whether sites deal their rows into folds, of which they send sums."""
        return self.calibration != "none" or self.pooling == "auto"

    @cached_property
    def cost_scale(self) -> _CostScale:
        """What errors cost in all."""
        pairs = [*(() if self.costs is None else (self.costs,)), *(pair for _, pair in self.site_costs)]
        every = Costs.of(pairs) if pairs else None
        priced = every or ACCURACY
        largest = float(priced.wrongly_accepted.max()), float(priced.wrongly_rejected.max())
        accepted, rejected = (each / max(largest) for each in largest)
        return _CostScale(every, largest, max(largest), (-accepted, accepted + rejected))

    @property
    def objective(self) -> str:
        """What is best: the "accuracy", or the "cost"."""
        return "accuracy" if self.cost_scale.every is None else "cost"

    def has_costs(self, site: str) -> bool:
        """Whether it says what errors cost at a site, or that accuracy counts at all of them."""
        return self.costs is not None or not self.site_costs or site in dict(self.site_costs)

    def check_sites(self, sites: Sequence[str], absent: Sequence[str] = ()) -> None:
        """Refuse sites that lack one that it names, or its costs; ``absent`` were expected and did not come."""
        for where, named in (("require", self.named_sites), ("costs", [site for site, _ in self.site_costs])):
            unknown = [site for site in named if site not in (*sites, *absent)]
            if unknown:
                here = f"sites are {', '.join(sites[:9])}"
                raise InputError(f"{where}: names site {unknown[0]!r}, which is not here; {here}.")
        without = [site for site in sites if not self.has_costs(site)]
        if without:
            raise InputError(
                f"costs: has no pair for site {without[0]!r}; pass one for every site, or one for all others."
            )

    def costs_at(self, sites: Sequence[str], own: tuple[float, float] | None = None) -> Costs | None:
        """What errors cost at some sites, or at all alike; ``own`` are the costs that they set themselves.

        A site without any (:meth:`has_costs`) is refused where a run begins; here it has the dearest.
        """
        if own is not None:
            return Costs.of([own])
        single, others = dict(self.site_costs), self.costs or self.cost_scale.largest
        return Costs.of([single.get(site, others) for site in sites]) if single and sites else self.cost_scale.every

    def requirements(
        self,
        sites: Sequence[str],
        own: float | None = None,
        own_costs: tuple[float, float] | None = None,
        people: Sequence[float] = (),
    ) -> Requirements:
        """The requirements of a run with these sites; ``own`` is the local tolerance that they set themselves.

        ``own_costs`` likewise; ``people`` are their rows, where a number of people is required. What names other sites
        is left out.
        """
        items = of_places(self.require, sites, self.groups)
        if own is not None and sites:
            at = Scope("at", tuple(sites))
            items += tuple(
                Requirement(measure="gap", rates=(rate,), relation="<=", bound=own, scope=at)
                for rate in self.inside.rates
            )
        costs, required = self.costs_at(sites, own_costs), tuple(dict.fromkeys(items))
        return _SeveralSites(required, tuple(sites), self.groups, costs, tuple(people), self.looked_at)

    def published_requirements(self) -> Requirements:
        """What sites are told of the requirements: of costs, every pair that there is."""
        return replace(self.requirements(self.named_sites), costs=self.cost_scale.every)


def make_plan(
    *,
    groups: Sequence[Label],
    notion: NotionLike | Mapping[str, NotionLike] = DEFAULT,
    local_tolerance: Given = DEFAULT,
    global_tolerance: Given = DEFAULT,
    require: object = (),
    costs: object = None,
    site_costs: Mapping[str, object] | None = None,
    calibration: str = "beta",
    pooling: str = "auto",
    folds: int = 5,
    random_state: int | None = None,
    solver: str | Algorithm1 = "exact",
    optimality_gap: float = 1e-5,
    trials: int = 0,
    rounds: int | None = None,
    quorum: int | None = None,
    secure: bool = False,
    privacy: Privacy | None = None,
    smallest_cell: int | None = None,
    run: str | None = None,
) -> Plan:
    """Agree on a run; what is not described here is as in :func:`logofair.fit` and in :class:`Plan`.

    ``costs`` are one pair, beside which ``site_costs`` has those of single sites, or a mapping of every site to its
    pair. By default ``quorum`` is 2, with secure sums 3; ``rounds`` 60, with secure sums 20; ``smallest_cell`` 5, under
    differential privacy 1.

    Examples
    --------
    >>> plan = make_plan(groups=["F", "M"], notion="equal_opportunity", global_tolerance=0.02, run="spring")
    >>> print(*plan.require)
    true positive rate gap <= 0.02 overall
    """
    items, looked_at = read_items(require, notion, local_tolerance, global_tolerance)
    if isinstance(costs, Mapping):
        if site_costs is not None:
            raise InputError(
                "site_costs: given though costs name sites already; pass one pair as costs, or all in one of them."
            )
        if not costs:
            raise InputError("costs: got {}, which names no site; pass a pair such as (1, 3), or one for every site.")
        costs, site_costs = None, costs
    return Plan(
        run=secrets.token_hex(8) if run is None else run,
        groups=groups,  # type: ignore[arg-type]  # which the plan checks
        require=items,
        looked_at=looked_at,
        costs=None if costs is None else read_pair(costs, "costs"),
        site_costs=_named_costs({} if site_costs is None else site_costs),
        calibration=calibration,
        folds=folds,
        random_state=0 if random_state is None else random_number(random_state),
        solver=solver_settings(solver),
        optimality_gap=optimality_gap,
        trials=trials,
        rounds=(_SECURE_ROUNDS if secure is True else _USUAL_ROUNDS) if rounds is None else rounds,
        quorum=(3 if secure is True else 2) if quorum is None else quorum,
        secure=secure,
        privacy=privacy,
        pooling=pooling,
        smallest_cell=(_SMALLEST_CELL if privacy is None else 1) if smallest_cell is None else smallest_cell,
    )


def _named_costs(costs: Mapping[str, object]) -> tuple[tuple[str, tuple[float, float]], ...]:
    """Sites, in their order, each with its pair."""
    if not isinstance(costs, Mapping) or not all(isinstance(site, str) for site in costs):
        raise InputError(f"site_costs: got {costs!r}; pass a mapping from site name to a pair, such as (1, 3).")
    return tuple((site, read_pair(costs[site], f"costs: site {site!r}")) for site in sorted(costs))


class _SeveralSites(Requirements):
    """The requirements of some of a federation's sites: one of them is not all there are."""

    @property
    def alone(self) -> bool:
        """What holds over all sites is never that of one."""
        return False


def check_run_name(run: object) -> None:
    """Refuse what is not safe as a file name everywhere."""
    if not isinstance(run, str) or not 1 <= len(run) <= 64 or not all(c.isalnum() or c in "-_" for c in run):
        raise InputError(f"run: got {shown(run)}; pass up to 64 letters, digits, '-' and '_'.")


def _group_names(groups: Sequence[Label]) -> tuple[Label, ...]:
    listed = groups if isinstance(groups, list | tuple) else ()
    names = tuple(name.item() if isinstance(name, np.generic) else name for name in listed)
    if not all(map(_is_name, names)):
        raise InputError(f"groups: got {groups!r}; name them by text, numbers, or tuples of these.")
    if len(names) < 2 or len(set(names)) != len(names):
        raise InputError(f"groups: got {groups!r}; list two groups or more, each once.")
    if len(names) > _MOST_GROUPS:
        raise InputError(f"groups: got {len(names):,} of them; list {_MOST_GROUPS:,} at most.")
    check_spelling(names, "groups")
    return names


def _is_name(name: object) -> bool:
    """Whether a group's name can travel and be found again."""
    if isinstance(name, tuple):
        return all(map(_is_name, name))
    return isinstance(name, str | int) or (isinstance(name, float) and math.isfinite(name))


def _check_choices(plan: Plan) -> None:
    """Refuse what cannot be combined with secure sums, with differential privacy, or with Algorithm 1."""
    secure, private, solver = plan.secure, plan.privacy is not None, plan.solver
    required = plan.published_requirements()
    rates_inside = {rate for item in plan.inside.required for rate in item.rates or (KNOWN_RATES["selection rate"],)}
    many = len(rates_inside) > 2 or (len(rates_inside) == 2 and not all(rate.is_share for rate in rates_inside))
    limited = {rate for item in plan.inside.required if item.measure not in ("gap", "ratio") for rate in item.rates}
    refused = (
        (
            private and plan.calibration != "none",
            f"calibration: got {plan.calibration!r} with differential privacy, which covers one histogram of scores "
            "and no calibrator; use 'none', with scores calibrated on other rows.",
        ),
        (
            private and plan.pooling == "full",
            "pooling: 'full' cannot be combined with differential privacy, which covers one histogram per site and no "
            "prior besides; use 'none'.",
        ),
        (
            private and plan.smallest_cell > 1,
            f"smallest_cell: got {plan.smallest_cell!r} with differential privacy, whose noise covers small cells "
            "already: leaving one out would tell its true count; use 1.",
        ),
        (
            secure and plan.folds != _SECURE_FOLDS,
            f"folds: got {plan.folds!r} with secure sums, where there are {_SECURE_FOLDS}: the sums of many small "
            "folds would tell single rows apart; leave it out.",
        ),
        (
            secure and plan.pooling == "full",
            "pooling: 'full' cannot be combined with secure sums: its histograms of scores hold single rows alone in "
            "their bins, whose scores every site would know; use 'none', or leave out secure sums.",
        ),
        (
            secure and plan.smallest_cell > _MOST_SECURE_CELL,
            f"smallest_cell: got {plan.smallest_cell!r} with secure sums, where it is {_MOST_SECURE_CELL} at most: a "
            "larger one would leave out all sites but the largest, so that totals are that site's numbers; use a "
            "smaller one.",
        ),
        (
            secure and bool(plan.named_sites),
            "require: with secure sums no requirement names a site, since what holds at one site alone can set its "
            "numbers apart in a total; agree on one for all sites; a site may set its own (federate client --local).",
        ),
        (
            secure and bool(plan.site_costs),
            "costs: those of single sites cannot be combined with secure sums, since what one site alone saves would "
            "stand out in a total; agree on the largest for all sites; a site may set its own, neither of them larger "
            "(federate client --costs).",
        ),
        (
            secure and many,
            "local: with secure sums one rate, or two that are shares of some rows, can be required inside each site: "
            "more may force most sites to reject everybody, and a total would then show a single site's numbers; "
            "require less inside each site, or the others over all sites.",
        ),
        (
            secure and any(population for item in plan.inside.required for population in item.who),
            "require: with secure sums what holds inside sites holds for every group: naming one may fix the rules of "
            "all sites that have it, and a total would then show the numbers of a site without it; name no group, or "
            "require it over all sites.",
        ),
        (
            secure and any(rate != KNOWN_RATES["selection rate"] for rate in limited),
            "require: with secure sums floors and ceilings inside sites are of selection rates: those of other rates "
            "may force most sites to reject everybody, and a total would then show the numbers of the site with the "
            "highest scores; require them over all sites.",
        ),
        (
            secure and any(item.measure == "precision" for item in plan.inside.required),
            "require: with secure sums precision is required over all sites: inside each site it may force most sites "
            "to reject everybody, and a total would then show the numbers of the site with the highest scores; write "
            "'overall'.",
        ),
        (
            secure and any(item.is_loss for item in plan.inside.required),
            "require: with secure sums no loss is limited inside sites: it may force most of them to keep their own "
            "best rule, and changes of a total would then show the others' numbers; write 'overall'.",
        ),
        (
            solver is not None and not (required.only_gaps and required.costs is None),
            "solver: 'algorithm1' limits gaps alone and counts no costs; use 'exact', or leave other requirements out.",
        ),
        (
            solver is not None and solver.form != "corrected",
            "solver: a federation runs Algorithm 1 corrected; as printed it does not reach its minimum: leave out "
            "form=, or try it in one place with logofair.fit.",
        ),
        (
            secure and solver is not None and solver.step is None,
            "solver: Algorithm 1 takes its step from the largest constant of any site, which is no sum; with secure "
            "sums pass logofair.solvers.algorithm1.Algorithm1(step=...).",
        ),
        (
            secure and solver is not None and solver.local_steps * (solver.step or 0.0) > _LONGEST_STEPS,
            "solver: the steps of Algorithm 1 in one round are too long for secure sums, which could not hold their "
            f"changes; use a shorter step: local_steps times step may be {_LONGEST_STEPS:g} at most.",
        ),
    )
    for applies, sentence in refused:
        if applies:
            raise InputError(sentence)


def _between(value: object, where: str, least: int, most: int) -> int:
    number = whole_number(value, where, least=least)
    if number > most:
        raise InputError(f"{where}: got {value!r}; pass a whole number from {least} to {most}.")
    return number
