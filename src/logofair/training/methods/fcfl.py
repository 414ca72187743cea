r"""FCFL (Cui et al., NeurIPS 2021): lower every client's loss while every client's gap stays within a tolerance.

Every round is one exchange of gradients. With :math:`l_k` the clients' losses, :math:`g_k` their smooth gaps (the
paper's disparities) and :math:`\epsilon` the tolerance, the largest of either is smoothed,
:math:`\hat l = \delta_l \ln \sum_k e^{l_k/\delta_l}`, :math:`\hat g = \delta_g \ln \sum_k e^{(g_k-\epsilon)/\delta_g}`.
The first stage steps along a mix of their two gradients, the second along a mix of all clients' gradients and that of
:math:`\hat g`, which raises no client's loss. The mix is a linear program over the simplex; where it has no answer the
step is along the shortest mix, which lowers everything there is to lower. While the tolerance holds, the gradient of
:math:`\hat g` counts as 0 in both stages, so that the first is then a plain step against the largest loss.
Equalized odds (two gaps per client) and more than two groups (one per group but the first) are ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import linprog, nnls
from scipy.special import softmax

from logofair.columns.checks import Floats, not_negative, positive_number, whole_number
from logofair.notions import DEMOGRAPHIC_PARITY, Notion
from logofair.training.balance import conditions
from logofair.training.messages import ClientMeasures, Gradients, GradientsRequest, Vector
from logofair.training.methods.method import MethodState, Replies

__all__ = ["FCFL", "best_mix", "shortest_mix"]

_SHARPENED_ABOVE = 1e-4


@dataclass(frozen=True)
class FCFL:
    """Constrained min-max, then a Pareto step.

    Parameters
    ----------
    notion : Notion
        Which gaps each client keeps within ``tolerance``.
    tolerance : float
        Largest gap allowed (epsilon); the LoGoFair paper tries 0.01, 0.03, 0.05 and 0.07.
    step_size : float
        Step size along the mix.
    first_stage : int
        Rounds of the first stage; all later ones are of the second.
    batch_size : int
        Rows each client draws in a round.
    smoothing : float
        Width at which the largest loss and gap are smoothed at the start (delta).
    measure_every : int
        Rounds between two counts; they only record progress.
    """

    name: ClassVar[str] = "fcfl"
    notion: Notion = DEMOGRAPHIC_PARITY
    tolerance: float = 0.1
    step_size: float = 0.01
    first_stage: int = 800
    batch_size: int = 100
    smoothing: float = 0.5
    measure_every: int = 20

    def __post_init__(self) -> None:
        conditions(self.notion)
        not_negative(self.tolerance, "tolerance")
        for name in ("step_size", "smoothing"):
            positive_number(getattr(self, name), name, 1e6)
        whole_number(self.first_stage, "first_stage", least=0)
        whole_number(self.batch_size, "batch_size")
        whole_number(self.measure_every, "measure_every")

    def initial_state(self, measured: ClientMeasures) -> MethodState:
        """Start in the first stage, with wide smoothing of losses and of gaps."""
        return {"taken": np.zeros(1), "smoothing": np.full(2, self.smoothing)}

    def request(self, state: MethodState) -> GradientsRequest:
        """The gradients of one mini-batch."""
        return GradientsRequest(given=conditions(self.notion), batch_size=self.batch_size)

    def step(
        self, state: MethodState, parameters: Vector, measured: ClientMeasures, replies: Replies
    ) -> tuple[Vector, MethodState]:
        """Step along the best mix, and sharpen the smoothing where the gradients have become small."""
        usable = [reply for _, reply in sorted(replies.items()) if isinstance(reply, Gradients) and _usable(reply)]
        if not usable:
            return parameters, state
        smoothing = state["smoothing"]
        losses = np.array([reply.values[0] for reply in usable])
        gradients = np.stack([reply.gradients[0] for reply in usable])
        loss_gradient = softmax(losses / smoothing[0]) @ gradients
        gap_gradient, violated = self._largest_gap(usable, smoothing[1], parameters.size)
        direction = (
            _first_direction(loss_gradient, gap_gradient, violated)
            if state["taken"][0] < self.first_stage
            else _second_direction(gradients, gap_gradient, violated)
        )
        after = (parameters - self.step_size * direction).astype(parameters.dtype)
        lengths = [np.linalg.norm(loss_gradient), np.linalg.norm(gap_gradient)]
        return after, {"taken": state["taken"] + 1.0, "smoothing": _sharpened(smoothing, np.array(lengths))}

    def learn(self, state: MethodState, measured: ClientMeasures) -> MethodState:
        """Nothing to learn: counts only record progress."""
        return state

    def _largest_gap(self, replies: list[Gradients], smoothing: float, size: int) -> tuple[Vector, bool]:
        """Gradient of the smoothed largest excess, and whether any gap exceeds the tolerance."""
        excess = np.concatenate([reply.values[1:] for reply in replies]) - self.tolerance
        gradients = np.concatenate([reply.gradients[1:] for reply in replies])
        known = np.isfinite(excess)
        if not known.any():
            return np.zeros(size), False
        return softmax(excess[known] / smoothing) @ gradients[known], bool(excess[known].max() > 0)


def _usable(reply: Gradients) -> bool:
    """Whether a client's loss and gradients are numbers; gaps may be undefined."""
    return bool(np.isfinite(reply.values[0]) and np.isfinite(reply.gradients).all())


def _first_direction(loss_gradient: Vector, gap_gradient: Vector, violated: bool) -> Vector:
    """Against the largest loss while the tolerance holds; else most against the gap without raising the loss."""
    if not violated:
        return loss_gradient
    pair = np.stack([loss_gradient, gap_gradient])
    products = pair @ pair.T
    mixed: Vector = best_mix(products, products[1], at_least_zero=[0]) @ pair
    return mixed


def _second_direction(gradients: Vector, gap_gradient: Vector, violated: bool) -> Vector:
    """Most along the mean gradient among the mixes that raise no client's loss, nor the gap."""
    last = gap_gradient if violated else np.zeros_like(gap_gradient)
    stack = np.concatenate([gradients, last[None]])
    products = stack @ stack.T
    gain = products[:, :-1].mean(1)
    mixed: Vector = best_mix(products, gain, at_least_zero=range(len(stack))) @ stack
    return mixed


def best_mix(products: Floats, gain: Floats, at_least_zero: Iterable[int]) -> Floats:
    """Weights a >= 0 with sum 1 that maximise ``a @ gain`` while ``a @ products[:, j] >= 0`` for the j named.

    ``products`` are the inner products of the vectors mixed. Where the program has no answer: :func:`shortest_mix`.

    Examples
    --------
    Two opposed vectors of lengths 1 and 2; going all along the second would raise the first:

    >>> products = np.array([[1.0, -2.0], [-2.0, 4.0]])
    >>> best_mix(products, products[1], at_least_zero=[0]).round(3)
    array([0.667, 0.333])
    """
    products, lengths = np.asarray(products, dtype=np.float64), np.sqrt(np.clip(np.diag(products), 0.0, None))
    if not np.isfinite(products).all() or not lengths.any():
        return shortest_mix(products)
    # In unit vectors: the solver's tolerance is absolute, and a short gradient would count nothing beside a long one.
    least = lengths[lengths > 0].min()
    lengths = np.where(lengths > 0, lengths, least)
    kept = (products / lengths / lengths[:, None])[list(at_least_zero)]
    gains = np.asarray(gain, dtype=np.float64) / lengths
    found = linprog(
        -gains / (np.abs(gains).max() or 1.0),
        A_ub=-kept,
        b_ub=np.zeros(len(kept)),
        A_eq=[least / lengths],
        b_eq=[1.0],
        method="highs",
    )
    if found.status != 0 or found.x is None:
        return shortest_mix(products)
    weights = np.clip(found.x, 0.0, None) / lengths
    shares: Floats = weights / weights.sum()
    return shares


def shortest_mix(products: Floats) -> Floats:
    """Weights a >= 0 with sum 1 of the shortest mix: minimise ``a @ products @ a``.

    Examples
    --------
    >>> shortest_mix(np.array([[1.0, -2.0], [-2.0, 4.0]])).round(3)
    array([0.667, 0.333])
    """
    products = np.nan_to_num(np.asarray(products, dtype=np.float64))
    scale = max(float(np.abs(products).max()), 1e-300)
    values, vectors = np.linalg.eigh(products / scale)
    root = (vectors * np.sqrt(np.clip(values, 0.0, None))).T  # root.T @ root = products
    # The nearest point to 0 of a convex hull, as non-negative least squares (Lawson and Hanson, ch. 23).
    system = np.vstack([root, np.ones(len(products))])
    try:
        weights, _ = nnls(system, np.append(np.zeros(len(products)), 1.0))
    except RuntimeError:  # too many iterations; a run does not stop for that
        weights = np.ones(len(products))
    shares: Floats = weights / weights.sum()
    return shares


def _sharpened(smoothing: Floats, lengths: Floats) -> Floats:
    """A hundredth of the width where gradients are small beside it."""
    small = (smoothing > _SHARPENED_ABOVE) & (0.1 * lengths <= smoothing)
    return np.where(small, 0.01 * smoothing, smoothing)
