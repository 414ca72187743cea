"""The plan: what a consortium agrees on before any row is touched, and what every client receives first."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from logofair.calibration import METHODS
from logofair.columns.checks import (
    Floats,
    Label,
    listed,
    nearest_name,
    positive_number,
    random_number,
    whole_number,
)
from logofair.errors import InputError
from logofair.federation.privacy import Privacy
from logofair.federation.wire import encode, spoken_digest, wire_type
from logofair.fitting.pooling import POOLING
from logofair.notions import NOTIONS, NotionLike, Rate, sides
from logofair.requirements import (
    Requirement,
    Requirements,
    check_tolerance,
    requirement_sentences,
    side_requirements,
    tolerance_of,
)
from logofair.solvers.algorithm1 import Algorithm1, solver_settings
from logofair.solvers.trials import trial_size

_MOST_FOLDS = 50
_SMALLEST_CELL = 5
# A plan arrives in messages: beyond these it would keep its sites at work for weeks, or is a slip of the keyboard.
_MOST_ROUNDS, _MOST_EPOCHS, _MOST_BATCH, _MOST_TRIALS = 10_000, 1_000, 10_000_000, 10_000
_MOST_GROUPS = 1_000
_KNOWN_RATES = {rate.name: rate for notion in NOTIONS.values() for rate in notion.rates}
for kind in (Requirement, Rate, Algorithm1, Privacy):
    wire_type(kind)


@wire_type
@dataclass(frozen=True)
class Training:
    """Federated averaging of a logistic regression before the scores are made fair.

    Parameters
    ----------
    features : tuple of str
        Names of the numeric columns every site has.
    rounds, local_epochs, learning_rate, batch_size
        As in :func:`logofair.training.fedavg`.
    share : float
        Share of each site's rows used for training; the others are scored and make the policy.

    Examples
    --------
    >>> Training(features=("age", "hours"), rounds=10).share
    0.5
    """

    features: tuple[str, ...]
    rounds: int = 20
    local_epochs: int = 5
    learning_rate: float = 0.01
    batch_size: int = 128
    share: float = 0.5

    def __post_init__(self) -> None:
        if not self.features or len(set(self.features)) != len(self.features):
            raise InputError(f"Training: features are {self.features!r}; name each numeric column once.")
        for name, most in (("rounds", _MOST_ROUNDS), ("local_epochs", _MOST_EPOCHS), ("batch_size", _MOST_BATCH)):
            _between(getattr(self, name), f"Training: {name}", 1, most)
        positive_number(self.learning_rate, "Training: learning_rate", 1e6)
        if positive_number(self.share, "Training: share", 1.0) == 1.0:
            raise InputError("Training: share is 1; leave rows for the policy, which must not have been trained on.")


@wire_type
@dataclass(frozen=True)
class Members:
    """Who takes part in a roster: how many, and a fingerprint of their names.

    Only with secure sums, whose masks are made between sites, do sites learn the names: otherwise messages would grow
    with the roster, and no site needs them.

    Examples
    --------
    >>> Members.of(["north", "south"], named=False).summary()
    '2'
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

    def within(self, others: Members) -> bool:
        """Whether these may be some of the others, or all: as far as is known of them."""
        if self.names and others.names:
            return set(self.names) <= set(others.names)
        return self.digest == others.digest if self.number >= others.number else True

    def summary(self) -> str:
        """Number, and names where they are known."""
        return f"{self.number:,}{f': {listed(self.names, self.number)}' if self.names else ''}"


def _names_digest(sites: Sequence[str]) -> str:
    return hashlib.sha256(encode(tuple(sorted(sites)))).hexdigest()


@wire_type
@dataclass(frozen=True)
class Plan:
    """Everything a run depends on apart from the rows; make one with :func:`make_plan`.

    Attributes
    ----------
    run : str
        Name of the run; two runs never share state.
    groups : tuple
        The groups compared, in the order of all tables.
    local, global_ : tuple of Requirement
        Which gaps stay within which tolerance inside each client, and over all.
    client_tolerances : tuple of (site, tolerance)
        Single sites whose local tolerance replaces that of ``local`` (None: free); none with secure sums, where a site
        sets its own (:class:`SiteLimits`).
    calibration, folds, random_state
        As in :func:`logofair.fit`.
    pooling : str
        As in :func:`logofair.fit`: "auto", "none" or "full". Under differential privacy "auto" means "none".
    solver : Algorithm1 or None
        None: exact rounds to a certified optimality gap.
    optimality_gap : float
        Where the exact rounds stop: no rule of score, group and site is more accurate by more than this.
    trials, rounds : int
        Prices per message (0: as many as pay), and the most rounds before the optimality gap reached is accepted.
    quorum : int
        With fewer clients than this the run fails.
    secure : bool
        Whether the server may see totals only.
    privacy : Privacy or None
        Differential privacy of every client's rows.
    training : Training or None
        Train a model first; otherwise every site brings scores.
    smallest_cell : int
        A group with fewer rows than this at a site is counted in nothing that leaves the site, and takes the merged
        rule there: how the group's rows are best decided at the prices of the global requirements alone; with pooling
        also within the local tolerances, if its scores are there as at all sites. 1: every row counts. Under
        differential privacy 1, since whether a count is left out would tell of it what the noise hides.

    Examples
    --------
    >>> plan = make_plan(groups=["F", "M"], local_tolerance=0.05, global_tolerance=None, run="spring")
    >>> [(each.rate.name, each.tolerance) for each in plan.local]
    [('selection rate', 0.05)]
    """

    run: str
    groups: tuple[Label, ...]
    local: tuple[Requirement, ...]
    global_: tuple[Requirement, ...]
    client_tolerances: tuple[tuple[str, float | None], ...] = ()
    calibration: str = "beta"
    folds: int = 5
    random_state: int = 0
    solver: Algorithm1 | None = None
    optimality_gap: float = 1e-5
    trials: int = 0
    rounds: int = 60
    quorum: int = 2
    secure: bool = False
    privacy: Privacy | None = None
    training: Training | None = None
    pooling: str = "auto"
    smallest_cell: int = _SMALLEST_CELL

    def __post_init__(self) -> None:
        """Check everything here: a plan is made by :func:`make_plan`, and also arrives in messages."""
        if type(self.secure) is not bool or not isinstance(self.privacy, Privacy | None):
            raise InputError("plan: its secure sums or privacy are malformed; get the plan again.")
        if not isinstance(self.solver, Algorithm1 | None) or not isinstance(self.training, Training | None):
            raise InputError("plan: its solver or training are malformed; get the plan again.")
        if self.solver is not None:
            for name in ("rounds", "local_steps"):
                _between(getattr(self.solver, name), f"Algorithm1: {name}", 1, _MOST_ROUNDS)
        for side in (self.local, self.global_):
            known = isinstance(side, tuple) and all(
                isinstance(r, Requirement) and isinstance(r.rate, Rate) for r in side
            )
            if not known or not side:
                raise InputError("plan: its requirements are malformed; get the plan again.")
            for requirement in side:
                check_tolerance(requirement.tolerance, "plan", of_shares=requirement.rate.is_share)
                _check_rate(requirement.rate)
        _check_run_name(self.run)
        _check_calibration(self.calibration, self.privacy)
        _check_combination(self)
        checked = {
            "groups": _group_names(self.groups),
            "client_tolerances": _overrides(
                dict(self.client_tolerances), of_shares=all(r.rate.is_share for r in self.local)
            ),
            "folds": _between(self.folds, "folds", 2, _MOST_FOLDS),
            "random_state": whole_number(self.random_state, "random_state", least=0),
            "optimality_gap": positive_number(self.optimality_gap, "optimality_gap", 1.0),
            "trials": _between(self.trials, "trials", 0, _MOST_TRIALS),
            "rounds": _between(self.rounds, "rounds", 1, _MOST_ROUNDS),
            "pooling": _checked_pooling(self.pooling, self.privacy),
            "quorum": _between(self.quorum, "quorum", 3 if self.secure else 1, 1_000_000),
            "smallest_cell": _checked_smallest(self.smallest_cell, self.privacy),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def digest(self) -> bytes:
        """Fingerprint of the plan."""
        return hashlib.sha256(encode(self)).digest()

    @property
    def most_prices(self) -> int:
        """Price vectors that a site answers in one roster at most; what they tell is written in ``docs/THREATS.md``."""
        if self.solver is not None:  # one in each round, and the last one once more
            return self.solver.rounds + 1
        groups, rates = len(self.groups), max(1, len(self.constrained))
        # A roster may begin with the mixture of the one before, which has at most one answer per side of a tolerance.
        return self.rounds * (self.trials or trial_size(groups, rates)) + 2 * groups * rates + 1

    @property
    def fingerprint(self) -> str:
        """The digest as people read it to each other."""
        return spoken_digest(self.digest)

    @property
    def needs_labels(self) -> bool:
        """Whether a site must have labels."""
        return self.calibration != "none" or self.training is not None

    def selection_only(self, own: float | None = None) -> bool:
        """Whether nothing but plain selection rates is constrained, at any site or over all, or by a site's own."""
        single = any(tolerance is not None for tolerance in (own, *dict(self.client_tolerances).values()))
        local = [r.rate for r in self.local if single or r.tolerance is not None]
        return all(rate.slope == 0 for rate in (*local, *(r.rate for r in self.constrained)))

    @property
    def constrained(self) -> tuple[Requirement, ...]:
        """The global requirements that have a tolerance."""
        return tuple(r for r in self.global_ if r.tolerance is not None)

    @property
    def global_rates(self) -> tuple[Rate, ...]:
        """The global rates that are constrained, in units of order 1."""
        return tuple(r.rate.normalised()[0] for r in self.constrained)

    @property
    def global_tolerances(self) -> tuple[Floats, Floats]:
        """Their tolerances in units of order 1, and those units."""
        units = np.array([r.rate.normalised()[1] for r in self.constrained])
        return np.array([r.tolerance for r in self.constrained], dtype=float) * units, units

    def requirements(self, sites: Sequence[str], own: float | None = None) -> Requirements:
        """The requirements of a run with these clients; ``own`` is the local tolerance that they set themselves."""
        single = dict(self.client_tolerances) if own is None else dict.fromkeys(sites, own)
        tolerances = np.tile([tolerance_of(r) for r in self.local], (len(sites), 1))
        for place, site in enumerate(sites):
            if site in single:
                tolerances[place] = np.inf if single[site] is None else single[site]
        named = tuple((site, single[site]) for site in sites if site in single)
        return Requirements(self.local, self.global_, tolerances, named)

    def summary(self) -> str:
        """What must hold, in words."""
        required = self.requirements([site for site, _ in self.client_tolerances])
        return " ".join(requirement_sentences(required.as_dict(), place="site"))

    def sentences(self, members: Members | None = None) -> Iterator[tuple[str, str]]:
        """What a site agrees to by answering, as (label, sentence); ``members`` are those of the roster."""
        yield "Plan", f"Run {self.run}, digest {self.fingerprint}."
        if members is not None:
            yield "Sites", f"{members.summary()}; the run fails with fewer than {self.quorum}."
        yield "Groups", f"{', '.join(map(str, self.groups))}."
        yield "Required", self.summary()
        own = sorted({r.rate for r in (*self.local, *self.global_)} - set(_KNOWN_RATES.values()), key=str)
        if own:
            yield "Rates", f"{'; '.join(map(_line, own))}."
        yield (
            "Sums",
            "Secure: the server sees totals of the sites and none of one site."
            if self.secure
            else "Not secure: the server sees the sums of this site by themselves.",
        )
        yield "Privacy", self._privacy()
        if self.smallest_cell > 1:
            yield "Small cells", f"A group with fewer than {self.smallest_cell} rows here is counted in nothing sent."
        elif self.privacy is None:
            yield "Small cells", "Every group is counted, however few rows it has here."
        if self.pooling != "none":
            yield "Pooling", "Histograms of this site's scores are sent, for small cells everywhere to borrow."
        if self.training is not None:
            yield (
                "Training",
                f"A model on {', '.join(self.training.features)}, {self.training.rounds} rounds: its parameters are "
                f"sent, after steps on {self.training.share:.0%} of the rows here.",
            )
        yield "Rounds", self._most_requests()
        yield (
            "Published",
            "To every site and to whom the server's people choose: requirements, "
            f"{'names' if self.secure else 'number'} of the sites, names of those that dropped out, rows of each group "
            "over all of them, expected accuracy and its bound, gaps over all, prices"
            f"{', scores of each group over all' if self.pooling != 'none' else ''}. This site's policy stays here.",
        )

    def _privacy(self) -> str:
        if self.privacy is None:
            return "No differential privacy: sums are exact."
        return (
            f"Differential privacy: one noised histogram, epsilon {self.privacy.epsilon:g}, delta "
            f"{self.privacy.delta:g}, neighbours by {self.privacy.neighbours}."
        )

    def _most_requests(self) -> str:
        """Rounds and prices at most."""
        if self.solver is not None:
            return f"Algorithm 1, at most {self.solver.rounds} rounds."
        each = self.trials or trial_size(len(self.groups), max(len(self.global_rates), 1))
        prices = f"{each} {'price' if each == 1 else 'prices'}"
        return f"At most {self.rounds} rounds of questions, each with at most {prices} of the global requirements."


def make_plan(
    *,
    groups: Sequence[Label],
    notion: NotionLike | Mapping[str, NotionLike] = "demographic_parity",
    local_tolerance: float | None = 0.02,
    global_tolerance: float | None = 0.02,
    client_tolerances: Mapping[str, float | None] | None = None,
    calibration: str = "beta",
    pooling: str = "auto",
    folds: int = 5,
    random_state: int | None = None,
    solver: str | Algorithm1 = "exact",
    optimality_gap: float = 1e-5,
    trials: int = 0,
    rounds: int = 60,
    quorum: int | None = None,
    secure: bool = False,
    privacy: Privacy | None = None,
    training: Training | None = None,
    smallest_cell: int | None = None,
    run: str | None = None,
) -> Plan:
    """Agree on a run; what is not described here is as in :func:`logofair.fit` and in :class:`Plan`.

    ``quorum`` is 2 by default, with secure sums 3; ``smallest_cell`` 5, under differential privacy 1.

    Examples
    --------
    >>> plan = make_plan(groups=["F", "M"], notion="equal_opportunity", local_tolerance=None, run="spring")
    >>> [(r.rate.name, r.tolerance) for r in plan.global_]
    [('true positive rate', 0.02)]
    """
    local, global_ = sides(notion)
    return Plan(
        run=secrets.token_hex(8) if run is None else run,
        groups=_group_names(groups),
        local=side_requirements(local, local_tolerance, "local"),
        global_=side_requirements(global_, global_tolerance, "global"),
        client_tolerances=_overrides(client_tolerances, of_shares=False),  # of what is for the plan to say
        calibration=calibration,
        folds=folds,
        random_state=0 if random_state is None else random_number(random_state),
        solver=solver_settings(solver),
        optimality_gap=optimality_gap,
        trials=trials,
        rounds=rounds,
        quorum=(3 if secure else 2) if quorum is None else quorum,
        secure=bool(secure),
        privacy=privacy,
        training=training,
        pooling=pooling,
        smallest_cell=(_SMALLEST_CELL if privacy is None else 1) if smallest_cell is None else smallest_cell,
    )


def _check_rate(rate: Rate) -> None:
    """Refuse a rate under the name of another: people agree to names."""
    if rate != _KNOWN_RATES.get(rate.name, rate):
        raise InputError(f"plan: its {rate.name} is another rate than what is called so; give it a name of its own.")


def _line(rate: Rate) -> str:
    """What a rate of the plan's own counts, in words."""
    base = (rate.constant, rate.slope) if rate.base is None else rate.base
    return (
        f"the {rate.name} counts an accepted row of chance p as {rate.constant:g} + {rate.slope:g} p, and any row as "
        f"{base[0]:g} + {base[1]:g} p"
    )


def _check_run_name(run: object) -> None:
    """Refuse what is not safe as a file name everywhere."""
    if not isinstance(run, str) or not 1 <= len(run) <= 64 or not all(c.isalnum() or c in "-_" for c in run):
        raise InputError(f"run: got {run!r}; pass up to 64 letters, digits, '-' and '_'.")


def _group_names(groups: Sequence[Label]) -> tuple[Label, ...]:
    listed = groups if isinstance(groups, list | tuple) else ()
    names = tuple(name.item() if isinstance(name, np.generic) else name for name in listed)
    if not all(map(_is_name, names)):
        raise InputError(f"groups: got {groups!r}; name them by text, numbers, or tuples of these.")
    if len(names) < 2 or len(set(names)) != len(names):
        raise InputError(f"groups: got {groups!r}; list two groups or more, each once.")
    if len(names) > _MOST_GROUPS:
        raise InputError(f"groups: got {len(names):,} of them; list {_MOST_GROUPS:,} at most.")
    return names


def _is_name(name: object) -> bool:
    """Whether a group's name can travel and be found again."""
    if isinstance(name, tuple):
        return all(map(_is_name, name))
    return isinstance(name, str | int) or (isinstance(name, float) and math.isfinite(name))


def _overrides(
    tolerances: Mapping[str, float | None] | None, *, of_shares: bool
) -> tuple[tuple[str, float | None], ...]:
    if tolerances is None:
        return ()
    if not isinstance(tolerances, Mapping) or not all(isinstance(site, str) for site in tolerances):
        raise InputError(f"client_tolerances: got {tolerances!r}; pass a mapping from site name to tolerance.")
    return tuple(
        (site, check_tolerance(tolerance, f"client_tolerances: site {site!r}", of_shares=of_shares))
        for site, tolerance in sorted(tolerances.items())
    )


def _check_calibration(method: object, privacy: Privacy | None) -> None:
    additive = tuple(name for name in METHODS if name != "isotonic")
    if not isinstance(method, str) or method not in additive:
        raise InputError(
            f"calibration: got {method!r}{nearest_name(method, additive)}; in a federation use one of "
            f"{', '.join(additive)} (isotonic curves are not sums of what clients know)."
        )
    if privacy is not None and method != "none":
        raise InputError(
            f"calibration: got {method!r} with differential privacy, which covers one histogram of scores and no "
            "calibrator; use 'none', with scores calibrated on other rows."
        )


def _checked_pooling(pooling: object, privacy: Privacy | None) -> str:
    """What cells may borrow; under differential privacy nothing, since a prior would be a second look at the rows."""
    if not isinstance(pooling, str) or pooling not in POOLING:
        raise InputError(f"pooling: got {pooling!r}{nearest_name(pooling, POOLING)}; use one of {', '.join(POOLING)}.")
    if privacy is not None and pooling == "full":
        raise InputError(
            "pooling: 'full' cannot be combined with differential privacy, which covers one histogram per site and no "
            "prior besides; use 'none'."
        )
    return "none" if privacy is not None else pooling


def _checked_smallest(cell: object, privacy: Privacy | None) -> int:
    """How many rows a group must have at a site to be counted, at least 1."""
    number = max(_between(cell, "smallest_cell", 0, 1_000_000), 1)
    if privacy is not None and number > 1:
        raise InputError(
            f"smallest_cell: got {cell!r} with differential privacy, whose noise covers small cells already: leaving "
            "one out would tell its true count; use 1."
        )
    return number


def _check_combination(plan: Plan) -> None:
    if plan.privacy is not None and plan.training is not None:
        raise InputError(
            "training: cannot be combined with privacy, which covers one histogram of scores and no training; "
            "bring scores of a model that was trained on other rows."
        )
    if plan.secure and plan.client_tolerances:
        raise InputError(
            "client_tolerances: cannot be combined with secure sums, since a tolerance of one site alone can tell its "
            "numbers from the others'; agree on one for all sites; a site may set its own (federate client --local)."
        )
    limited = {r.rate for r in plan.local if r.tolerance is not None}
    if plan.secure and (len(limited) > 2 or (len(limited) == 2 and not all(rate.is_share for rate in limited))):
        raise InputError(
            "local: with secure sums one rate, or two that are shares of some rows, can be required inside each site: "
            "more of them may leave a site no choice but to reject everybody, so that a total is that of a site "
            "with one group alone; require less inside each site, or the others over all sites."
        )
    if plan.secure and plan.solver is not None and plan.solver.step is None:
        raise InputError(
            "solver: Algorithm 1 takes its step from the largest constant of any client, which is no sum; "
            "with secure sums pass logofair.Algorithm1(step=...)."
        )


def _between(value: object, where: str, least: int, most: int) -> int:
    number = whole_number(value, where, least=least)
    if number > most:
        raise InputError(f"{where}: got {value!r}; pass a whole number from {least} to {most}.")
    return number
