"""A site's rows at the door: its columns, checked against the plan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from logofair.columns.checks import Floats, Integers, binary, matrix, not_empty, probabilities, same_length, weights
from logofair.columns.labels import encode_known
from logofair.errors import InputError, RefusedError
from logofair.federation.messages import Refusal
from logofair.federation.plan import Plan

__all__ = ["SiteColumns", "SiteRows", "site_rows"]


@dataclass(frozen=True, eq=False)
class SiteColumns:
    """A site's columns as they come from a file or from arrays; what the plan does not need may be None."""

    groups: object
    scores: object = None
    labels: object = None
    weights: object = None
    features: object = None


@dataclass(frozen=True, eq=False)
class SiteRows:
    """A site's rows after checking; ``scores`` are missing until a model is trained, where one is."""

    groups: Integers
    scores: Floats | None
    labels: Floats | None
    weights: Floats | None
    features: Floats | None


def site_rows(columns: SiteColumns, plan: Plan) -> SiteRows:
    """Check a site's columns against the plan.

    Examples
    --------
    >>> from logofair.federation.plan import make_plan
    >>> plan = make_plan(groups=["F", "M"], calibration="none")
    >>> site_rows(SiteColumns(groups=["M", "F"], scores=[0.2, 0.7]), plan).groups.tolist()
    [1, 0]
    """
    group = encode_known(columns.groups, plan.groups, "groups")
    not_empty(group.size, "groups")
    if group.min() < 0:
        row = int(np.argmin(group))
        raise RefusedError(
            Refusal.UNKNOWN_GROUP,
            f"groups: row {row} is of a group that is not in the plan ({', '.join(map(repr, plan.groups))}); "
            "drop such rows, or agree on a plan that names it.",
        )
    if plan.needs_labels and columns.labels is None:
        raise RefusedError(Refusal.NO_LABELS, "labels: missing, but the plan calibrates or trains; name their column.")
    trains = plan.training is not None
    score = None if trains else probabilities(columns.scores)
    label = None if columns.labels is None else binary(columns.labels)
    table = _features(columns, plan)
    same_length(group.size, scores=score, labels=label, features=table)
    weight = weights(columns.weights, group.size)
    if weight is not None and (trains or plan.privacy is not None):
        raise InputError("weights: row weights cannot be used with training or differential privacy; leave them out.")
    return SiteRows(group, score, label, weight, table)


def _features(columns: SiteColumns, plan: Plan) -> Floats | None:
    if plan.training is None:
        return None
    table = matrix(columns.features, "features")
    if table.shape[1] != len(plan.training.features):
        raise InputError(
            f"features: got {table.shape[1]} columns, but the plan names {len(plan.training.features)}: "
            "pass the plan's columns in its order."
        )
    return table
