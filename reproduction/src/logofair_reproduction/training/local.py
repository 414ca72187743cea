"""A client's work in a round: local steps by a schedule, gradients of a mini-batch, and counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits as log_loss
from torch.nn.functional import one_hot

from logofair.columns.checks import Floats, positive_number, whole_number
from logofair.datasets.table import chosen
from logofair_reproduction.training.balance import reweighing, updated_ratios
from logofair_reproduction.training.messages import (
    Gradients,
    GradientsRequest,
    LabelCounts,
    LocalStepsRequest,
    TrainedParameters,
    Vector,
)
from logofair_reproduction.training.networks import Network, logit_gradients
from logofair_reproduction.training.rows import ClientRows

# How steep the sigmoid is that stands in for a decision in FCFL's gaps.
_STEEPNESS = 10.0


# Changes parameters in place, given their gradient: numpy arrays, or tensors, which have the same operators. PyTorch's
# own optimisers round otherwise, so that recorded results would change, and take five times as long on few numbers.
Step = Callable[[Any, Any], None]


def _sgd(learning_rate: float) -> Step:
    def step(parameters: Any, gradient: Any) -> None:
        parameters -= learning_rate * gradient

    return step


def _adam(learning_rate: float, decay: float = 0.9, square_decay: float = 0.999, floor: float = 1e-8) -> Step:
    """Steps of Adam (Kingma and Ba, 2015), with moments of its own; in place, for networks of millions of numbers."""
    mean: Any = None
    square: Any = None
    taken = 0

    def step(parameters: Any, gradient: Any) -> None:
        nonlocal mean, square, taken
        if taken == 0:
            mean, square = 0.0 * parameters, 0.0 * parameters
        taken += 1
        mean *= decay
        mean += (1.0 - decay) * gradient
        square *= square_decay
        square += (1.0 - square_decay) * gradient**2
        change = learning_rate * mean
        change /= 1.0 - decay**taken
        scale = square / (1.0 - square_decay**taken)
        scale **= 0.5
        scale += floor
        change /= scale
        parameters -= change

    return step


OPTIMISERS: dict[str, Callable[[float], Step]] = {"adam": _adam, "sgd": _sgd}


@dataclass(frozen=True)
class Schedule:
    """Local epochs, and mini-batch steps within them; the defaults lie in the paper's grid."""

    local_epochs: int = 5
    learning_rate: float = 0.01
    batch_size: int | None = 128  # None: all rows of the client
    optimiser: str = "adam"  # starts afresh every round

    def __post_init__(self) -> None:
        whole_number(self.local_epochs, "local_epochs")
        if self.batch_size is not None:
            whole_number(self.batch_size, "batch_size")
        positive_number(self.learning_rate, "learning_rate", 1e6)
        chosen(self.optimiser, OPTIMISERS, "optimiser")

    def optimiser_step(self) -> Step:
        """Return the optimiser's step, with moments of its own: make one per client and round."""
        return OPTIMISERS[self.optimiser](self.learning_rate)


def take_steps(
    network: Network,
    rows: ClientRows,
    parameters: Vector,
    request: LocalStepsRequest,
    schedule: Schedule,
    rng: np.random.Generator,
    state: Floats | None = None,
) -> tuple[TrainedParameters, Floats | None]:
    """Take local mini-batch steps from the broadcast parameters.

    A row's loss counts with its cell's weight, over the mean weight of the client's rows.
    """
    vector, step = network.tensor(parameters, rows.labels.device), schedule.optimiser_step()
    if request.debias == "fairbatch" and state is None:
        state = np.ones_like(rows.counts)
    for _ in range(schedule.local_epochs):
        weights = _row_weights(request, rows, state)
        if weights is not None and not weights.any():  # every row counts nothing: there is nothing to learn from
            break
        _take_epoch(network, rows, vector, weights, schedule.batch_size or len(rows), step, rng)
        if request.debias == "fairbatch" and state is not None:
            now = label_counts(network, rows, vector)
            state = updated_ratios(request.given, state, now.rows, now.loss, request.debias_step)
    return TrainedParameters(vector.cpu().numpy()), state


def _take_epoch(
    network: Network,
    rows: ClientRows,
    vector: Tensor,
    weights: Tensor | None,
    batch_size: int,
    step: Step,
    rng: np.random.Generator,
) -> None:
    """Take a client's mini-batch steps of one epoch; changes ``vector``."""
    order = torch.from_numpy(rng.permutation(len(rows))).to(rows.labels.device)
    # On the CPU numpy's steps share the tensor's memory, and are faster on the few numbers of a small network.
    target = vector.numpy() if vector.device.type == "cpu" else vector
    # A model that diverges is reported when it is measured.
    with torch.inference_mode(network.written_out), np.errstate(all="ignore"):
        batches = torch.split(order, batch_size)
        labels = torch.split(rows.labels[order], batch_size)
        weighted = [None] * len(batches) if weights is None else torch.split(weights[order], batch_size)
        # Tables are shuffled as a whole, which is faster; images batch by batch, since a copy of all may not fit.
        tables = torch.split(rows.features.index_select(0, order), batch_size) if rows.features.ndim == 2 else None
        for number, batch in enumerate(batches):
            part = rows.features[batch] if tables is None else tables[number]
            gradient = network.gradient(vector, part, labels[number], weighted[number])
            step(target, gradient.numpy() if vector.device.type == "cpu" else gradient)


def _row_weights(request: LocalStepsRequest, rows: ClientRows, state: Floats | None) -> Tensor | None:
    """Weight of every row, 1 on average; None where all are 1."""
    table = np.ones_like(rows.counts) if request.weights is None else request.weights
    if request.debias == "reweighing":
        table = table * reweighing(rows.counts)
    elif request.debias == "fairbatch" and state is not None:
        table = table * state
    if (table == 1.0).all():
        return None
    mean = float((table * rows.counts).sum() / len(rows))
    by_cell = torch.from_numpy((table / (mean or 1.0)).reshape(-1)).to(rows.labels)
    return by_cell[rows.cells]


def label_counts(network: Network, rows: ClientRows, parameters: Vector | Tensor) -> LabelCounts:
    """Count a client's rows of every (group, label), those accepted (score at least 1/2), and sum their losses."""
    vector = parameters if isinstance(parameters, Tensor) else network.tensor(parameters, rows.labels.device)
    logits = network.all_logits(vector, rows.features)
    losses = log_loss(logits, rows.labels, reduction="none")
    return LabelCounts(rows.counts, rows.sums(logits >= 0.0), rows.sums(losses))


def batch_gradients(
    network: Network, rows: ClientRows, parameters: Vector, request: GradientsRequest, rng: np.random.Generator
) -> Gradients:
    """Loss and smooth gaps of a mini-batch, with their gradients.

    A gap is, for each condition and each group but the first, the absolute difference between the group's mean
    of sigmoid(10 z) and the first group's, z the logit, over the rows that meet the condition. The first group is the
    first that has such rows.
    """
    vector = network.tensor(parameters, rows.labels.device)
    batch = torch.from_numpy(rng.permutation(len(rows))[: request.batch_size]).to(rows.labels.device)
    logits, pull_back = network.differentiated(vector, rows.features[batch])
    labels, group = rows.labels[batch], rows.cells[batch] // 2
    accepted = torch.sigmoid(_STEEPNESS * logits)
    slope = _STEEPNESS * accepted * (1.0 - accepted)
    values, gradients = [float(log_loss(logits, labels))], [logit_gradients(logits, labels, None)]
    of_group = one_hot(group, len(rows.groups)).T.to(logits)
    for condition in request.given:
        member = of_group if condition is None else of_group * (labels == condition)
        share = member / member.sum(1, keepdim=True)  # nan where a group has no such rows
        means = share @ accepted
        known = torch.isfinite(means).tolist()
        first = known.index(True) if any(known) else 0
        for number in range(1, len(rows.groups)):
            apart = means[number] - means[first]
            # The first group itself, where it is not group 0, has no difference.
            defined = known[number] and number != first
            values.append(float(apart.abs()) if defined else np.nan)
            gradients.append(
                apart.sign() * slope * (share[number] - share[first]) if defined else torch.zeros_like(slope)
            )
    return Gradients(np.array(values), pull_back(torch.stack(gradients)).cpu().numpy())
