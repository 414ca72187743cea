"""The federated methods, each the server's side of a round in numpy: FedAvg, FairFed, FedFB and FCFL.

A method says what is requested of every client in a round, and makes the next model of their replies.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
from scipy.optimize import linprog, nnls
from scipy.special import softmax

from logofair.columns.checks import Floats, positive_number, whole_number
from logofair.notions import DEMOGRAPHIC_PARITY, Notion
from logofair_reproduction.checks import not_negative
from logofair_reproduction.training.balance import conditions, updated_ratios
from logofair_reproduction.training.messages import (
    ClientMeasures,
    Gradients,
    GradientsRequest,
    LocalStepsRequest,
    Reply,
    Request,
    TrainedParameters,
    Vector,
)

# What a method keeps from round to round, by name: arrays of doubles, so that it can be stored and sent.
MethodState: TypeAlias = Mapping[str, Floats]
# The replies of a round by the client's number; clients that did not reply are missing.
Replies: TypeAlias = Mapping[int, Reply]


class Method(Protocol):
    """The server's side of a method; state in, state out.

    A round is: ``request`` (sent to all with the model), the clients' replies, ``step`` to the next model, and, every
    ``measure_every`` rounds, the clients' counts for that model, from which the method learns.
    """

    name: ClassVar[str]

    @property
    def measure_every(self) -> int:
        """Rounds between two counts of how the model does."""
        return 1

    def initial_state(self, measured: ClientMeasures) -> MethodState:
        """The state at the start; ``measured`` is of the model to start from."""
        return {}

    def request(self, state: MethodState) -> Request:
        """What is requested of every client."""

    def step(
        self, state: MethodState, parameters: Vector, measured: ClientMeasures, replies: Replies
    ) -> tuple[Vector, MethodState]:
        """The next model; ``measured`` is of the model that was sent."""

    def learn(self, state: MethodState, measured: ClientMeasures) -> MethodState:
        """The state once the next model was measured."""
        return state


def average(parameters: Vector, replies: Replies, weights: Floats) -> Vector:
    """Average the models of the clients that replied by weight; unchanged where none of these has any."""
    # A client without weight is left out: 0 times a model that is no number would be none.
    present = {
        client: reply.parameters
        for client, reply in sorted(replies.items())
        if isinstance(reply, TrainedParameters) and weights[client] > 0
    }
    if not present:
        return parameters
    # One model after another: a copy of all may not fit.
    weighted = (weights[client] * model.astype(np.float64) for client, model in present.items())
    mean: Floats = functools.reduce(np.add, weighted) / weights[list(present)].sum()
    return mean.astype(parameters.dtype)


@dataclass(frozen=True)
class FedAvg(Method):
    """Average the clients' models with weights n_c / n (McMahan et al., 2017)."""

    name: ClassVar[str] = "fedavg"
    measure_every: int = 1

    def request(self, state: MethodState) -> LocalStepsRequest:
        """Plain local steps."""
        return LocalStepsRequest()

    def step(
        self, state: MethodState, parameters: Vector, measured: ClientMeasures, replies: Replies
    ) -> tuple[Vector, MethodState]:
        """Average by rows."""
        return average(parameters, replies, measured.shares), state


@dataclass(frozen=True)
class FairFed(Method):
    r"""Average with weights that fall for clients unlike the federation (Ezzeldin et al., AAAI 2023).

    In every round, for the model that was sent,

    .. math:: \bar w_k \leftarrow \bar w_k - \beta (\Delta_k - \bar\Delta), \qquad w_k = \bar w_k / \sum_j \bar w_j,

    where :math:`\Delta_k` is the distance of the client's signed gap from that over all rows (not the mean of the
    clients' gaps), or of its accuracy from the global accuracy where its gap is undefined. The paper leaves negative
    weights open: here :math:`\bar w_k` is not let below 0, and all are scaled to sum 1 again. Equalized odds and more
    than two groups are ours: the gap followed is that of the rate and the pair of groups for which it is largest over
    all rows. ``debias`` is what clients do in their own training: by default reweighing for selection rates and none
    for conditions on labels, whose gaps reweighing may widen. ``beta`` 0 is FedAvg.
    """

    name: ClassVar[str] = "fairfed"
    notion: Notion = DEMOGRAPHIC_PARITY
    beta: float = 0.05
    debias: str = ""
    debias_step: float = 0.05

    def __post_init__(self) -> None:
        not_negative(self.beta, "beta")
        if self.debias == "":
            object.__setattr__(self, "debias", "reweighing" if conditions(self.notion) == (None,) else "none")
        self.request({})  # refuses what clients could not do

    def initial_state(self, measured: ClientMeasures) -> MethodState:
        """Start from the clients' shares of all rows."""
        return {"weights": measured.shares}

    def request(self, state: MethodState) -> LocalStepsRequest:
        """Local steps with the clients' own debiasing."""
        return LocalStepsRequest(debias=self.debias, debias_step=self.debias_step, given=conditions(self.notion))

    def step(
        self, state: MethodState, parameters: Vector, measured: ClientMeasures, replies: Replies
    ) -> tuple[Vector, MethodState]:
        """Change the weights by how far each client was from the federation, then average."""
        apart = distances(measured, self.notion)
        changed = state["weights"] - self.beta * (apart - apart.mean())
        weights = np.maximum(changed, 0.0)
        if (changed < 0.0).any():  # else the sum is 1 as it is
            weights = weights / weights.sum()
        return average(parameters, replies, weights), {"weights": weights}


def distances(measured: ClientMeasures, notion: Notion) -> Floats:
    """How far each client is from all together: in its signed gap, or in accuracy where that is undefined (Delta_k)."""
    local, global_ = measured.sides(notion)
    accuracy = np.abs(measured.client_accuracy - measured.accuracy)
    if np.isnan(global_.gaps).all():
        return accuracy
    rate = int(np.nanargmax(global_.gaps[:, 0]))
    values = global_.values[rate, 0]
    low, *_, high = np.argsort(values, kind="stable")[: np.isfinite(values).sum()]  # two groups even in a tie
    global_gap = values[high] - values[low]
    local_gaps = local.values[rate, :, high] - local.values[rate, :, low]
    return np.where(np.isnan(local_gaps), accuracy, np.abs(local_gaps - global_gap))


@dataclass(frozen=True)
class FedFB(Method):
    """FairBatch with the losses of all clients together (Zeng, Chen and Lee, 2021).

    The server changes the weights of (group, label) cells along the differences of their losses over all clients
    (:mod:`balance`); clients train under these weights, and their models are averaged in proportion to the weight their
    rows have. For selection rates the step falls as ``alpha / sqrt(t + 1)``; for conditions on labels it has the length
    ``alpha`` throughout. ``alpha`` 0 is FedAvg.
    """

    name: ClassVar[str] = "fedfb"
    notion: Notion = DEMOGRAPHIC_PARITY
    alpha: float = 0.3
    measure_every: int = 1

    def __post_init__(self) -> None:
        not_negative(self.alpha, "alpha")
        conditions(self.notion)

    def initial_state(self, measured: ClientMeasures) -> MethodState:
        """Start from plain training."""
        return {"ratios": np.ones_like(measured.rows.sum(0)), "moves": np.zeros(1)}

    def request(self, state: MethodState) -> LocalStepsRequest:
        """Local steps under the weights reached."""
        return LocalStepsRequest(weights=state["ratios"])

    def step(
        self, state: MethodState, parameters: Vector, measured: ClientMeasures, replies: Replies
    ) -> tuple[Vector, MethodState]:
        """Average by the weight of the clients' rows."""
        weights = (measured.rows * state["ratios"]).sum((1, 2)) / measured.rows.sum()
        return average(parameters, replies, weights), state

    def learn(self, state: MethodState, measured: ClientMeasures) -> MethodState:
        """Change the weights along the differences of the losses."""
        moves, given = state["moves"], conditions(self.notion)
        step = self.alpha / float(np.sqrt(moves[0] + 1.0)) if given == (None,) else self.alpha
        ratios = updated_ratios(given, state["ratios"], measured.rows.sum(0), measured.loss.sum(0), step)
        return {"ratios": ratios, "moves": moves + 1.0}


_SHARPENED_ABOVE = 1e-4  # widths of FCFL's smoothing below this stay


@dataclass(frozen=True)
class FCFL(Method):
    r"""Lower every client's loss while every client's gap stays within a tolerance (Cui et al., NeurIPS 2021).

    Every round is one exchange of gradients. With :math:`l_k` the clients' losses, :math:`g_k` their smooth gaps (the
    paper's disparities) and :math:`\epsilon` the tolerance, the largest of either is smoothed,
    :math:`\hat l = \delta_l \ln \sum_k e^{l_k/\delta_l}`,
    :math:`\hat g = \delta_g \ln \sum_k e^{(g_k-\epsilon)/\delta_g}`.
    The first stage steps along a mix of their two gradients, the second along a mix of all clients' gradients and that
    of :math:`\hat g`, which raises no client's loss. The mix is a linear program over the simplex; where it has no
    answer the step is along the shortest mix, which lowers everything there is to lower. While the tolerance holds, the
    gradient of :math:`\hat g` counts as 0 in both stages, so that the first is then a plain step against the largest
    loss. Equalized odds (two gaps per client) and more than two groups (one per group but the first) are ours.
    """

    name: ClassVar[str] = "fcfl"
    notion: Notion = DEMOGRAPHIC_PARITY
    tolerance: float = 0.1  # epsilon: the largest gap of a client
    step_size: float = 0.01
    first_stage: int = 800  # rounds; all later ones are of the second stage
    batch_size: int = 100  # rows each client draws in a round
    smoothing: float = 0.5  # delta at the start, of losses and of gaps
    measure_every: int = 20  # counts only record progress

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
        usable = [
            reply
            for _, reply in sorted(replies.items())
            if isinstance(reply, Gradients) and np.isfinite(reply.values[0]) and np.isfinite(reply.gradients).all()
        ]
        if not usable:
            return parameters, state
        smoothing = state["smoothing"]
        losses = np.array([reply.values[0] for reply in usable])
        gradients = np.stack([reply.gradients[0] for reply in usable])
        loss_gradient = softmax(losses / smoothing[0]) @ gradients
        gap_gradient, violated = self._largest_gap(usable, smoothing[1], parameters.size)
        if state["taken"][0] >= self.first_stage:
            direction = pareto_direction(gradients, gap_gradient, violated)
        elif violated:  # most against the gap without raising the loss
            pair = np.stack([loss_gradient, gap_gradient])
            products = pair @ pair.T
            direction = best_mix(products, products[1], at_least_zero=[0]) @ pair
        else:
            direction = loss_gradient
        after = (parameters - self.step_size * direction).astype(parameters.dtype)
        lengths = np.array([np.linalg.norm(loss_gradient), np.linalg.norm(gap_gradient)])
        small = (smoothing > _SHARPENED_ABOVE) & (0.1 * lengths <= smoothing)
        sharpened = np.where(small, 0.01 * smoothing, smoothing)
        return after, {"taken": state["taken"] + 1.0, "smoothing": sharpened}

    def _largest_gap(self, replies: list[Gradients], smoothing: float, size: int) -> tuple[Vector, bool]:
        """Gradient of the smoothed largest excess, and whether any gap exceeds the tolerance."""
        excess = np.concatenate([reply.values[1:] for reply in replies]) - self.tolerance
        gradients = np.concatenate([reply.gradients[1:] for reply in replies])
        known = np.isfinite(excess)  # a batch may lack a group
        if not known.any():
            return np.zeros(size), False
        return softmax(excess[known] / smoothing) @ gradients[known], bool(excess[known].max() > 0)


def pareto_direction(gradients: Vector, gap_gradient: Vector, violated: bool) -> Vector:
    """The mix that gains most along the mean gradient among those that raise no client's loss, nor the gap."""
    last = gap_gradient if violated else np.zeros_like(gap_gradient)
    stack = np.concatenate([gradients, last[None]])
    products = stack @ stack.T
    gain = products[:, :-1].mean(1)
    mixed: Vector = best_mix(products, gain, at_least_zero=range(len(stack))) @ stack
    return mixed


def best_mix(products: Floats, gain: Floats, at_least_zero: Iterable[int]) -> Floats:
    """Weights a >= 0 with sum 1 that maximise ``a @ gain`` while ``a @ products[:, j] >= 0`` for the j named.

    ``products`` are the inner products of the vectors mixed. Where the program has no answer: :func:`shortest_mix`.
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
    """Weights a >= 0 with sum 1 of the shortest mix: minimise ``a @ products @ a``."""
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


#: Every training method by name.
METHODS: dict[str, type[FedAvg] | type[FairFed] | type[FedFB] | type[FCFL]] = {
    kind.name: kind for kind in (FedAvg, FairFed, FedFB, FCFL)
}
