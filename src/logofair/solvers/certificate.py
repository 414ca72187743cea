"""The certificate: how accurate a stored rule is, how fair, and how much better any other of its kind could be.

All of it is about the calibration rows. In chances (basis "eta") the bound is over every rule of score, group, site
and coin; with labels over weighted thresholds of the score only, since a rule that knew labels could skip scores. Other
features are another score.

Everything is recomputed from the stored rules and the prices alone, never taken from a solver's word.

Two kinds of prices meet here. The *prices of rates* prove the bound: one for each group and rate, summing to 0 over the
groups (mu and lambda in the paper). The *prices of tolerances* follow from them and are what a person reads: one for
each tolerance, never negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from logofair.columns.checks import Floats
from logofair.policy.info import CertificateInfo
from logofair.policy.mixtures import Mixtures, evaluate
from logofair.records import Result
from logofair.requirement import Requirement
from logofair.solvers.local import local_bound
from logofair.solvers.problem import Problem

LARGEST_OPTIMALITY_GAP = 1e-6
LARGEST_VIOLATION = 1e-9


@dataclass(frozen=True)
class TolerancePrices:
    """Shadow prices: a unit more of a tolerance wins at most this much accuracy (the value is concave), or cost.

    ``global_`` has one price per global rate, ``local`` one per site and local rate. Of a ratio it is a unit less, of
    floors and ceilings a unit looser, of a capacity a unit more. ``of`` has the prices of each requirement by its side,
    "local" (by site) or "global": of several on a rate the strictest has the price.
    """

    global_: Floats
    local: Floats
    of: Mapping[tuple[Requirement, str], Floats] = field(default_factory=dict)


@dataclass(frozen=True)
class Certificate(Result):
    """Proof of how good a policy is on the calibration rows.

    Attributes
    ----------
    primal : float
        Expected accuracy of the stored policy, ``mean(eta * h + (1 - eta) * (1 - h))``; or its expected cost per row.
    dual : float
        No rule of score, group and site that meets the requirements has a higher expected accuracy on these rows, or
        a lower cost; with ``basis="labels"`` no weighted thresholds of the score. None: no bound is proved.
    optimality_gap : float
        What could still be won: the difference of the two, or None. Meaningful only beside ``violation``.
    violation : float
        Largest excess over any requirement, in units of its rate; 0 if every one is met.
    prices : TolerancePrices
        Accuracy at most gained per unit of each tolerance.
    basis : str
        Which estimate of the positives counts: ``"eta"`` (calibrated scores) or ``"labels"``.
    pooling : str
        The prior that small cells borrow from, which is then part of all these figures; ``"none"``: they
        are about the calibration rows alone.
    precision : float
        The violation that is mere rounding: 1e-9, or that share of the largest rate where rates exceed 1.
    largest_optimality_gap : float
        The optimality gap that was to be reached: 1e-6, of the dearest error where errors have costs.
    cost_unit : float
        What the dearest error costs; 1 where accuracy counts.
    objective : str
        ``"accuracy"`` or ``"cost"``.
    empty_ratios : int
        How many ratios are met and say nothing, since nobody is selected there.
    looks_away : bool
        Whether it is about rules of score, group probabilities and site, which never see a group: then their bound is
        on all such rules where rates count groups by these very probabilities, and there is none otherwise.

    Examples
    --------
    >>> import logofair
    >>> scores, groups = [0.9, 0.6, 0.4, 0.2], ["a", "b", "a", "b"]
    >>> certificate = logofair.fit(scores, None, sensitive_features=groups, calibration="none").certificate
    >>> certificate.holds, round(certificate.primal, 3)
    (True, 0.725)
    >>> certificate.as_dict()["basis"]
    'eta'
    """

    primal: float
    dual: float | None
    optimality_gap: float | None
    violation: float
    prices: TolerancePrices
    basis: str
    precision: float = LARGEST_VIOLATION
    largest_optimality_gap: float = LARGEST_OPTIMALITY_GAP
    pooling: str = "none"
    objective: str = "accuracy"
    empty_ratios: int = 0
    cost_unit: float = 1.0
    looks_away: bool = False

    @property
    def meets_requirements(self) -> bool:
        """Whether every gap is within its tolerance, to ``precision``."""
        return self.violation <= self.precision

    @property
    def holds(self) -> bool | None:
        """Whether every requirement is met and the optimality gap is at most the largest one allowed; None: no bound.

        A rule that meets them exceeds its bound by rounding at most: one that seems to by more proves a mistake.
        """
        if self.optimality_gap is None:
            return None
        beaten = LARGEST_OPTIMALITY_GAP * self.cost_unit
        return -beaten <= self.optimality_gap <= self.largest_optimality_gap and self.meets_requirements

    def summary(self) -> str:
        """Return what is proved, in a sentence or two for people."""
        from logofair.words.proof import proof_sentences

        return " ".join(proof_sentences(self.info, rows="the rows of the fit"))

    @property
    def info(self) -> CertificateInfo:
        """The figures of the proof, without the prices of single tolerances, as policies store them."""
        return CertificateInfo(
            self.primal,
            self.dual,
            self.optimality_gap,
            self.violation,
            self.basis,
            holds=None if self.holds is None else bool(self.holds),
            pooling=self.pooling,
            objective=self.objective,
            empty_ratios=self.empty_ratios,
            looks_away=self.looks_away,
        )

    def in_json(self) -> CertificateInfo:
        """Return these figures."""
        return self.info


def certify(
    problem: Problem, mixtures: Mixtures, local_prices: Floats, global_prices: Floats, basis: str
) -> Certificate:
    """Measure stored rules on a problem, and bound what any rule could reach by prices of its rates."""
    u, v = (array.reshape(problem.shape) for array in evaluate(problem.cells, mixtures))
    primal = problem.accuracy(u, v)
    bound = local_bound(problem, *problem.priced_gain(global_prices), local_prices)
    global_shadow_prices = problem.over_all.shadow_prices(global_prices[None])[0]
    dual = (
        problem.baseline
        + float(problem.site_mass @ bound)
        + float(problem.over_all.support_function(global_prices[None])[0])
    )
    won = problem.cost_unit  # a unit of the objective, in the user's
    local_shadow_prices = problem.inside.shadow_prices(local_prices) * problem.site_mass[:, None]
    in_users_units = TolerancePrices(
        global_shadow_prices * problem.global_limits.unit[0] * won,
        local_shadow_prices * problem.local_limits.unit * won,
        {
            (item, side): price * won * (problem.site_mass if side == "local" else 1.0)
            for (item, side), price in problem.requirement_prices(local_prices, global_prices).items()
        },
    )
    return Certificate(
        problem.reported(primal),
        problem.reported(dual),
        (dual - primal) * won,
        problem.violation(u, v),
        in_users_units,
        basis,
        LARGEST_VIOLATION / float(problem.units.min()),
        LARGEST_OPTIMALITY_GAP * won,
        objective=problem.measure,
        empty_ratios=problem.empty_ratios(u, v),
        cost_unit=won,
    )
