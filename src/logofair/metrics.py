"""Metrics of decisions in scikit-learn's form, ``metric(y_true, y_pred, *, sensitive_features, ...)``, and scorers.

They also go into Fairlearn's ``MetricFrame``. They are figures without intervals, to choose a model by: what holds for
other people :func:`logofair.audit` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import column_or_1d
from sklearn.utils.metadata_routing import get_routing_for_object

from logofair.auditing import Audit, Measured, audit
from logofair.columns.checks import Label, listed_names, shown
from logofair.errors import InputError
from logofair.notions import named_notion
from logofair.outcomes import ROUNDING, Outcomes
from logofair.requirement import Requirement, Scope

__all__ = ["accuracy", "fair_accuracy", "global_gap", "global_ratio", "local_gap", "local_ratio", "room", "scorer"]

Metric: TypeAlias = Callable[..., float]


def accuracy(y_true: object, y_pred: object, *, pos_label: Label = 1, **columns: Any) -> float:
    """Return the share of right decisions; ``columns`` as for `global_gap`, of which ``sample_weight`` counts.

    Examples
    --------
    >>> accuracy([1, 0, 0, 1], [1, 1, 0, 1])
    0.75
    """
    del pos_label
    right = column_or_1d(y_true) == column_or_1d(y_pred)
    return float(np.average(right, weights=columns.get("sample_weight")))


def global_gap(y_true: object, y_pred: object, *, notion: object = "demographic_parity", **columns: Any) -> float:
    """Return the largest gap between groups over all sites together; NaN where undefined.

    Parameters
    ----------
    y_true, y_pred : columns
        Labels and decisions.
    notion : str or Notion
        Whose rates are compared.
    **columns
        ``sensitive_features``, and as wanted ``sites``, ``ids``, ``sample_weight``, as for :func:`logofair.audit`; also
        ``pos_label``, the label that means accepted, by default 1.

    Examples
    --------
    >>> global_gap([1, 0, 0, 1], [1, 1, 0, 1], sensitive_features=["m", "m", "f", "f"])
    0.5
    """
    return _number(_audited(y_true, y_pred, notion=notion, **columns).global_gap)


def local_gap(y_true: object, y_pred: object, *, notion: object = "demographic_parity", **columns: Any) -> float:
    """Return the largest gap between groups inside any site, as `global_gap` does over all.

    Examples
    --------
    >>> columns = {"sensitive_features": ["m", "f", "m", "f"], "sites": ["a", "a", "b", "b"]}
    >>> local_gap([1, 0, 0, 1], [1, 0, 0, 1], **columns), global_gap([1, 0, 0, 1], [1, 0, 0, 1], **columns)
    (1.0, 0.0)
    """
    return _number(_audited(y_true, y_pred, notion=notion, **columns).local_gap)


def global_ratio(y_true: object, y_pred: object, *, notion: str = "demographic_parity", **columns: Any) -> float:
    """Return the smallest ratio of two groups' rates over all sites together, arguments as for `global_gap`.

    Examples
    --------
    >>> global_ratio([1, 0, 0, 1], [1, 1, 0, 1], sensitive_features=["m", "m", "f", "f"])
    0.5
    """
    return _ratio("overall", y_true, y_pred, notion, columns)


def local_ratio(y_true: object, y_pred: object, *, notion: str = "demographic_parity", **columns: Any) -> float:
    """Return the smallest ratio of two groups' rates inside any site, arguments as for `global_gap`.

    Examples
    --------
    >>> columns = {"sensitive_features": ["m", "f", "m", "f"], "sites": ["a", "a", "b", "b"]}
    >>> local_ratio([1, 0, 0, 1], [1, 1, 0, 1], **columns)
    0.0
    """
    return _ratio("per site", y_true, y_pred, notion, columns)


def room(y_true: object, y_pred: object, *, require: object, **columns: Any) -> float:
    """Return what is left before the nearest limit of some requirements; negative: by how much it is exceeded.

    ``require`` is one requirement or several, sentences or :class:`~logofair.Requirement` objects; other arguments are
    as for `global_gap`.

    Examples
    --------
    >>> people = {"sensitive_features": ["m", "m", "f", "f"]}
    >>> room([1, 0, 0, 1], [1, 1, 0, 1], require="selection rate gap <= 0.2 overall", **people)
    -0.3
    """
    return _least_room(_audited(y_true, y_pred, require=require, **columns).outcomes)


def fair_accuracy(y_true: object, y_pred: object, *, require: object, **columns: Any) -> float:
    """Return the accuracy where all requirements are met, else the (negative) `room`: whatever meets them ranks first.

    Examples
    --------
    >>> people = {"sensitive_features": ["m", "m", "f", "f"], "require": "selection rate gap <= 0.2 overall"}
    >>> fair_accuracy([1, 0, 0, 1], [1, 1, 0, 1], **people), fair_accuracy([1, 0, 0, 1], [1, 0, 1, 0], **people)
    (-0.3, 0.5)
    """
    left = room(y_true, y_pred, require=require, **columns)
    return left if left < -ROUNDING or np.isnan(left) else accuracy(y_true, y_pred, **columns)


def scorer(metric: Metric, **options: Any) -> Scorer:
    """Make a scorer of a metric, as ``scoring=`` of scikit-learn's model selection takes it: larger is better.

    Parameters
    ----------
    metric : function of this module
        Or another of its form; gaps are counted as negative.
    **options
        Handed on to the metric: ``notion=``, or ``require=``.

    Returns
    -------
    Scorer
        With metadata routing on it passes ``sensitive_features``, ``sites`` and ``ids`` to the metric, and to the
        model's ``predict`` where that asks for them; ``sample_weight`` is requested as usual.

    Examples
    --------
    >>> import numpy as np, sklearn
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.model_selection import cross_validate
    >>> sex = np.array(["f", "m"] * 50)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     found = cross_validate(
    ...         DummyClassifier(), np.zeros((100, 1)), [0, 1] * 50, params={"sensitive_features": sex},
    ...         scoring={"accuracy": scorer(accuracy), "gap": scorer(global_gap)},
    ...     )
    >>> found["test_accuracy"].tolist(), found["test_gap"].tolist()
    ([0.5, 0.5, 0.5, 0.5, 0.5], [-0.0, -0.0, -0.0, -0.0, -0.0])
    """
    return Scorer(metric, options)


class Scorer(BaseEstimator):  # type: ignore[misc]
    """A metric with its options, called as ``scorer(estimator, X, y, **columns)``; see `scorer`."""

    __metadata_request__score: ClassVar = {"sensitive_features": True, "sites": True, "ids": True}

    def __init__(self, metric: Metric, options: Mapping[str, Any] | None = None) -> None:
        self.metric = metric
        self.options = options

    def score(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sites: Any = None,
        ids: Any = None,
        sample_weight: Any = None,
    ) -> float:
        """Measure the decisions of a fitted classifier on rows; its second class is the positive one."""
        if sensitive_features is None:
            raise InputError(
                "sensitive_features: got None; pass them in params=, and switch on scikit-learn's metadata routing: "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        given = {"sensitive_features": sensitive_features, "sites": sites, "ids": ids}
        given = {name: column for name, column in given.items() if column is not None}
        asked = get_routing_for_object(estimator).consumes("predict", given)
        decided = estimator.predict(X, **{name: given[name] for name in asked})
        given |= {} if sample_weight is None else {"sample_weight": sample_weight}
        value = self.metric(y, decided, pos_label=estimator.classes_[1], **given, **(self.options or {}))
        return -value if self.metric in (global_gap, local_gap) else value

    def __call__(self, estimator: Any, X: Any, y: Any, **columns: Any) -> float:
        return self.score(estimator, X, y, **columns)


def _audited(y_true: object, y_pred: object, *, pos_label: Label = 1, **columns: Any) -> Audit:
    """The audit of decisions, labels of any two classes."""
    labels, decided = column_or_1d(y_true), column_or_1d(y_pred)
    known = sorted({*labels.tolist(), *decided.tolist()}, key=str)
    if len({*known, pos_label}) > 2:
        raise InputError(
            f"pos_label: got {shown(pos_label)}, but labels are {listed_names(known)}; pass two, and as "
            "pos_label the one that means accepted."
        )
    return audit(decided == pos_label, labels == pos_label, **columns)


def _number(figure: Measured | None) -> float:
    return float("nan") if figure is None else float(figure)


def _ratio(where: str, y_true: object, y_pred: object, notion: str, columns: Mapping[str, Any]) -> float:
    """The smallest ratio of a notion's rates: as much below 1 as nothing is left before it."""
    rates, scope = named_notion(notion, "notion").rates, Scope(where)
    require = [Requirement(measure="ratio", rates=(rate,), relation=">=", bound=1.0, scope=scope) for rate in rates]
    return 1.0 + room(y_true, y_pred, require=require, **columns)


def _least_room(outcomes: Outcomes) -> float:
    """What is left before the nearest limit; a handful of people counts where there are no more."""
    known = [each for each in outcomes if each.room is not None]
    judged = [each for each in known if not each.too_small] or known
    return min((each.room for each in judged if each.room is not None), default=float("nan"))
