"""Algorithm 1 of Zhang et al. (docs/METHOD.md), corrected: federated projected gradient descent on the smoothed dual.

The dual averages the positive part of F, a row's gain less the prices of the rates it counts in. It is smoothed to
``softplus(sharpness * F) / sharpness`` (beta in the paper), which changes the dual by at most ``cells * ln 2 /
sharpness``. In every round each site takes ``local_steps`` (S) gradient steps on its local multipliers (mu_c) and on a
copy of the global ones (lambda); the server averages the changes of lambda.

Where this departs from the printed algorithm, and why: it descends (the paper prints +); the server takes the mean of
the sites' changes and projects it (the plain sum is as many times too long as there are sites); both gradients of a
local step are taken at the same point (the paper's mu-step stays at the round's first lambda); one common step ``1 /
(L_global + L_local)`` from the smoothness constants, which include the sum over groups that the paper drops (per-site
steps converge to a wrong lambda); there is one multiplier >= 0 for every ordered pair of groups, which for two groups
are the paper's lambda_1 and lambda_2. With S = 1 their difference converges to the optimal price; both stay above 0 by
a share of the step where sites disagree, since each site projects by itself, which raises the dual by twice the global
tolerance (delta_g) times the smaller one and changes no rule. With more local steps of constant length sites drift
apart between rounds (client drift), and the price stops beside the optimal one, which the recorded objective shows. The
result may violate its tolerances.

``Algorithm1(form="printed")`` runs the algorithm to the letter of the paper, and ``form="descending"`` the same with
the sign that the paper's text means; docs/METHOD.md measures where they go.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from scipy.special import expit

from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, run_sums
from logofair.errors import InputError
from logofair.solvers.decomposition import Optimum
from logofair.solvers.limits import support_of_tolerances
from logofair.solvers.local import local_bound, solve_local
from logofair.solvers.problem import Problem


@dataclass(frozen=True)
class Algorithm1:
    """Settings of the paper's procedure; pass one as ``solver=`` to :func:`logofair.fit`.

    Parameters
    ----------
    rounds : int
        Communication rounds (T).
    local_steps : int
        Gradient steps of a site per round (S).
    sharpness : float
        Of the smoothed positive part (beta), in units of one over a cell's mass.
    step : float, optional
        Length of a step (gamma_g); from the smoothness constants by default.
    local_step : float, optional
        Length of a step of the local multipliers (gamma_l), where it is another.
    form : {"corrected", "descending", "printed"}
        The corrected procedure; the printed one with descent in place of its ascent; the printed one to the letter.

    Examples
    --------
    Follow it round by round, and stop when it suits; ``fit`` runs all rounds and finishes with an exact local solve.

    >>> import logofair
    >>> from logofair.solvers.algorithm1 import Algorithm1, rounds
    >>> scores, groups, sites = [0.9, 0.7, 0.6, 0.2], ["a", "a", "b", "b"], [1, 2, 1, 2]
    >>> solution = logofair.fit(scores, None, sensitive_features=groups, sites=sites, calibration="none")
    >>> for state in rounds(solution.problem, Algorithm1(rounds=50)):
    ...     if state.objective < solution.certificate.dual + 0.1:
    ...         break
    >>> state.number < 50
    True
    """

    rounds: int = 20
    local_steps: int = 20
    sharpness: float = 100.0
    step: float | None = None
    local_step: float | None = None
    form: str = "corrected"

    def __post_init__(self) -> None:
        for name in ("rounds", "local_steps"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InputError(f"Algorithm1: {name} must be a whole number of at least 1, got {value!r}.")
        for name in ("sharpness", "step", "local_step"):
            value = getattr(self, name)
            if name != "sharpness" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not (np.isfinite(value) and value > 0):
                raise InputError(f"Algorithm1: {name} must be a positive number, got {value!r}.")
        if self.form not in ("corrected", "descending", "printed"):
            raise InputError(f"Algorithm1: form must be corrected, descending or printed, got {self.form!r}.")

    def step_length(self, squared_norms: Floats, groups: int) -> float:
        """The common step: as set, or one over the smoothness constants of the dual.

        ``squared_norms`` are the largest over sites of :meth:`SmoothedDual.squared_norms`.
        """
        if self.step is not None:
            return float(self.step)
        return 1.0 / max(self.sharpness / 2 * (groups - 1) * float(squared_norms.sum()), 1e-12)


def solver_settings(solver: object) -> Algorithm1 | None:
    """Read ``solver=``: None for the exact solver, or the settings of Algorithm 1."""
    if isinstance(solver, Algorithm1):
        return solver
    if isinstance(solver, str) and solver in ("exact", "algorithm1"):
        return None if solver == "exact" else Algorithm1()
    raise InputError(f"solver: got {solver!r}; use 'exact', 'algorithm1' or a logofair.solvers.algorithm1.Algorithm1.")


@dataclass(frozen=True)
class Round:
    """State after a round: multipliers, dual objective, and the gaps of the rule ``F >= 0``."""

    number: int
    global_multipliers: Floats  # (groups, global rates)
    local_multipliers: Floats  # (sites, groups, local rates)
    smoothed: float  # smoothed dual, an upper bound on the optimum up to smoothing
    objective: float  # the dual itself: a certified upper bound on accuracy
    global_gap: float
    local_gap: float
    accuracy: float


def rounds(problem: Problem, settings: Algorithm1, at: Container[int] | None = None) -> Iterator[Round]:
    """Run the procedure, yielding the state after each round; ``at``: after these alone, since measuring takes time."""
    dual = SmoothedDual(problem)
    step = settings.step_length(dual.squared_norms().max(axis=0), problem.shape[1])
    global_, local = dual.zeros()
    for number in range(1, settings.rounds + 1):
        changes, local = dual.descend(global_, local, settings, step, problem.shape[0])
        if settings.form == "corrected":
            global_ = np.maximum(global_ + changes.mean(axis=0), 0.0)
        else:
            global_ = global_ + changes.sum(axis=0)
        if at is None or number in at:
            yield dual.record(number, global_, local, settings.sharpness)


def finish(problem: Problem, last: Round) -> Optimum | None:
    """The policy of a round: every site solves its own problem exactly at the final global multipliers."""
    answer = solve_local(problem, *problem.priced_gain(last.global_multipliers))
    if not answer.sound:
        return None
    return Optimum(answer.u, answer.v, answer.prices, last.global_multipliers, last.number, "algorithm1")


class SmoothedDual:
    """The smoothed dual in multipliers >= 0, one for every ordered pair of groups (the paper's two, for two groups).

    ``share`` is each block of rows as a share of its cell's mass.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        groups = problem.shape[1]
        self.ahead, self.behind = (np.array(side) for side in zip(*permutations(range(groups), 2), strict=True))
        cells = problem.cells
        self.sizes = np.diff(cells.starts)
        block_mass = np.ones(self.sizes.sum())
        if cells.mass_below is not None:  # one sum more than blocks in each cell: no block lies below its first
            first = cells.starts[:-1] + np.arange(self.sizes.size)
            block_mass = np.delete(np.diff(cells.mass_below, prepend=0.0), first)
        self.share = block_mass * np.repeat(cells.scale, self.sizes)
        local, global_ = problem.inside.compared, problem.over_all.compared[0]
        self.local_pairs: Booleans = local[:, self.ahead] & local[:, self.behind]
        self.global_pairs: Booleans = global_[self.ahead] & global_[self.behind]
        self.local_tolerance = np.where(self.local_pairs, problem.local_limits.tolerance[:, None, :], 0.0)
        self.global_tolerance = np.where(self.global_pairs, problem.global_limits.tolerance, 0.0)

    def zeros(self) -> tuple[Floats, Floats]:
        """Starting multipliers: global (pairs, rates) and local (sites, pairs, rates)."""
        return np.zeros(self.global_pairs.shape), np.zeros(self.local_pairs.shape)

    def lines(self, global_: Floats, local: Floats) -> tuple[Floats, Floats]:
        """F in every cell as a line in eta: constant and slope, (cells,); ``global_`` holds each site's copy."""
        p = self.problem
        (gu, gv), (lu, lv) = p.global_, p.local
        global_, local = signed(global_, p.shape[1]), signed(local, p.shape[1])
        constant = -p.mass - np.sum(global_ * gu, axis=2) - np.sum(local * lu, axis=2)
        slope = 2 * p.mass - np.sum(global_ * gv, axis=2) - np.sum(local * lv, axis=2)
        return constant.ravel(), slope.ravel()

    def descend(
        self, global_: Floats, local: Floats, settings: Algorithm1, step: float, sites: int
    ) -> tuple[Floats, Floats]:
        """Local steps of every site from common global multipliers: how each would change them, and its local ones.

        ``sites`` counts those of the whole federation, each of which carries an equal part of the global tolerance.
        """
        first = copies = np.broadcast_to(global_, (self.problem.shape[0], *global_.shape))
        local_step = step if settings.local_step is None else settings.local_step
        sign = 1.0 if settings.form == "printed" else -1.0
        for _ in range(settings.local_steps):
            global_gradient, local_gradient = self.gradient(copies, local, settings.sharpness, sites)
            if settings.form != "corrected" and copies is not first:
                _, local_gradient = self.gradient(first, local, settings.sharpness, sites)
            copies = np.maximum(copies + sign * step * global_gradient, 0.0)
            local = np.maximum(local + sign * local_step * local_gradient, 0.0)
        return copies - global_, local

    def gradient(self, global_: Floats, local: Floats, sharpness: float, sites: int) -> tuple[Floats, Floats]:
        """Gradient of each site's smoothed dual in its copy of the global and in its local multipliers."""
        p = self.problem
        constant, slope = self.lines(global_, local)
        u, v = (each.reshape(p.shape)[..., None] for each in self._accepted(sharpness * constant, sharpness * slope))
        (gu, gv), (lu, lv) = p.global_, p.local
        share, rate = gu * u + gv * v, lu * u + lv * v
        in_global = self.global_tolerance / sites - (share[:, self.ahead] - share[:, self.behind])
        in_local = self.local_tolerance - (rate[:, self.ahead] - rate[:, self.behind])
        return np.where(self.global_pairs, in_global, 0.0), np.where(self.local_pairs, in_local, 0.0)

    def _accepted(self, constant: Floats, slope: Floats) -> tuple[Floats, Floats]:
        """Shares accepted of every cell and of its positives, where the log-odds of acceptance are a line in eta."""
        cells = self.problem.cells
        accepted = np.repeat(slope, self.sizes)
        accepted *= cells.values
        accepted += np.repeat(constant, self.sizes)
        expit(accepted, out=accepted)
        accepted *= self.share
        return run_sums(accepted, cells.starts), run_sums(accepted * cells.values, cells.starts)

    def value(self, global_: Floats, local: Floats, sharpness: float) -> float:
        """The smoothed dual at common global multipliers, on the scale of accuracy."""
        p = self.problem
        constant, slope = self.lines(np.broadcast_to(global_, (p.shape[0], *global_.shape)), local)
        line = np.repeat(constant, self.sizes) + np.repeat(slope, self.sizes) * p.cells.values
        gain = float(np.sum(self.share * np.logaddexp(0.0, sharpness * line))) / sharpness
        support = np.sum(self.global_tolerance * global_) + np.sum(self.local_tolerance * local)
        return p.baseline + gain + float(support)

    def squared_norms(self) -> Floats:
        """Squared norm of the rates' coefficients (phi), the largest over chances: global and local, (sites, 2)."""
        found = []
        for cu, cv in (self.problem.global_, self.problem.local):
            # |phi|^2 is convex in eta: its maximum over a cell is at one of the ends of [0, 1].
            norm = np.maximum(np.sum(cu**2, axis=2), np.sum((cu + cv) ** 2, axis=2))
            found.append(norm.sum(axis=1))
        return np.column_stack(found)

    def record(self, number: int, global_: Floats, local: Floats, sharpness: float) -> Round:
        """Measure the state after a round."""
        p = self.problem
        prices, local_prices = signed(global_, p.shape[1]), signed(local, p.shape[1])
        weight = np.where(p.site_mass > 0, p.site_mass, 1.0)[:, None, None]
        gain_u, gain_v = p.priced_gain(prices)
        bound = local_bound(p, gain_u, gain_v, local_prices / weight)
        objective = (
            p.baseline + float(p.site_mass @ bound) + float(support_of_tolerances(prices, p.global_limits.tolerance[0]))
        )
        constant, slope = self.lines(np.broadcast_to(global_, (p.shape[0], *global_.shape)), local)
        _, u, v = p.cells.best_corner(np.arange(constant.size), slope, constant)
        u, v = u.reshape(p.shape), v.reshape(p.shape)
        return Round(
            number=number,
            global_multipliers=prices,
            local_multipliers=local_prices,
            smoothed=self.value(global_, local, sharpness),
            objective=objective,
            global_gap=float(np.max(p.global_gaps(u, v), initial=0.0)),
            local_gap=float(np.max(p.local_gaps(u, v), initial=0.0)),
            accuracy=p.accuracy(u, v),
        )


def signed(pairs: Floats, groups: int) -> Floats:
    """One number per group, summing to zero, from one per ordered pair (second axis from the end)."""
    total = np.zeros((*pairs.shape[:-2], groups, pairs.shape[-1]))
    for i, (a, b) in enumerate(permutations(range(groups), 2)):
        total[..., a, :] += pairs[..., i, :]
        total[..., b, :] -= pairs[..., i, :]
    return total
