"""What is asked of a client in a training round, and what leaves it: numpy arrays in frozen types, nothing else.

The answers are the privacy statement of the training room. A client tells

* :class:`Counts`: for every (group, label) its rows, how many of them the model accepts, and the sum of their losses;
* :class:`Trained`: its parameters after local steps, or
* :class:`Slopes`: the loss and the disparities of one mini-batch with their gradients.

No row and no single score leaves it; but parameters and gradients of few rows can tell much about these rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.arguments import not_negative
from logofair.inputs import Floats, InputError, nearest_name

__all__ = ["Answer", "AskSlopes", "Counts", "Given", "LocalSteps", "Slopes", "Trained", "Vector"]

Vector: TypeAlias = npt.NDArray[np.floating[Any]]  # all parameters of a network, one after another
# What the rates of a notion are conditioned on: None (all rows), label 1 or label 0.
Given: TypeAlias = tuple[int | None, ...]

DEBIASING = ("none", "reweighing", "fairbatch")


@dataclass(frozen=True, eq=False)
class LocalSteps:
    """Train on your rows from the broadcast model.

    Parameters
    ----------
    weights : array of shape (groups, 2), optional
        How much a row of each (group, label) counts; by default all count alike.
    debias : {"none", "reweighing", "fairbatch"}
        The client's own way to fairness, on top of ``weights``.
    debias_step : float
        Step size of FairBatch's weights, moved after every local epoch.
    given : tuple
        What the rates compared are conditioned on.

    Examples
    --------
    >>> LocalSteps(debias="fairbatch", debias_step=0.05).given
    (None,)
    """

    weights: Floats | None = None
    debias: str = "none"
    debias_step: float = 0.01
    given: Given = (None,)

    def __post_init__(self) -> None:
        if self.debias not in DEBIASING:
            raise InputError(
                f"debias: got {self.debias!r}{nearest_name(self.debias, DEBIASING)}; use one of {', '.join(DEBIASING)}."
            )
        not_negative(self.debias_step, "debias_step")


@dataclass(frozen=True, eq=False)
class AskSlopes:
    """Draw a mini-batch and tell your loss, the disparities named by ``given``, and their gradients.

    Examples
    --------
    >>> AskSlopes(given=(1, 0), batch_size=100).given
    (1, 0)
    """

    given: Given
    batch_size: int


@dataclass(frozen=True, eq=False)
class Counts:
    """A client's rows of every (group, label), those accepted, and the sum of their losses; each (groups, 2).

    Examples
    --------
    >>> Counts(rows=np.ones((2, 2)), accepted=np.zeros((2, 2)), loss=np.zeros((2, 2))).rows.sum()
    np.float64(4.0)
    """

    rows: Floats
    accepted: Floats
    loss: Floats


@dataclass(frozen=True, eq=False)
class Trained:
    """A client's parameters after its local steps.

    Examples
    --------
    >>> Trained(np.zeros(3)).parameters.size
    3
    """

    parameters: Vector


@dataclass(frozen=True, eq=False)
class Slopes:
    """Loss, then disparities, of a mini-batch in ``values``, and the gradient of each in the rows of ``gradients``.

    A disparity is NaN, with gradient 0, where the batch lacks a group.

    Examples
    --------
    >>> Slopes(np.array([0.7, np.nan]), np.zeros((2, 3))).values
    array([0.7, nan])
    """

    values: Floats
    gradients: Vector


Answer: TypeAlias = Trained | Slopes
