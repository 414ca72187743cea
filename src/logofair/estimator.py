"""The estimator for scikit-learn users: fair decisions around any probabilistic classifier."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing, assert_all_finite, column_or_1d, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from logofair.columns.checks import Floats, Integers, random_number, same_order, weights
from logofair.columns.labels import encode
from logofair.errors import InputError
from logofair.fitting.fit import fit as fit_policy
from logofair.notions import NotionLike
from logofair.requirements import DEFAULT, Given
from logofair.solvers.algorithm1 import Algorithm1

_Folds: TypeAlias = Callable[[], list[tuple[Any, Any]]]  # training and test rows

# Handed on, unread, to logofair.fit.
_FIT_OPTIONS = (
    "notion",
    "local_tolerance",
    "global_tolerance",
    "require",
    "costs",
    "objective",
    "solver",
    "calibration",
    "basis",
    "pooling",
)


class LoGoFairClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Decide by another classifier's probabilities, fairly inside every site and over all of them.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        Its clones give out-of-fold probabilities, so that the policy never sees scores of rows the model was trained
        on; then it is fitted on all rows. A model that is already fitted: wrap it in scikit-learn's
        ``FrozenEstimator`` and call ``fit`` with rows it was **not** trained on.
    group_classifier : classifier with ``predict_proba``, optional
        Foretells ``sensitive_features``, as ``estimator`` does labels. The policy then decides by its probabilities and
        may not look at anybody's group: ``predict`` takes no ``sensitive_features``.
    notion, local_tolerance, global_tolerance, require, costs, objective, solver, calibration, basis, pooling
        What is required and how it is reached: see :func:`logofair.fit`.
    cv : int, splitter or iterable of (train, test)
        The folds: a number (stratified by class, shuffled by ``random_state``), or anything of scikit-learn's that
        tests every row once.
    deterministic, exact_counts, on_unknown
        Whether to toss no coins, or to draw all rows of a ``predict`` together so that counts are exact; what to do
        with unknown sites and groups: see :meth:`logofair.Policy.decide`.
    random_state : int, optional
        For folds and coins. None: folds by 0, and coins by a number drawn at fit, ``random_state_``.

    Attributes
    ----------
    estimator_
        The fitted model; ``n_features_in_`` and ``feature_names_in_`` are its own, where it has them.
        ``group_classifier_`` is that of the groups, or None.
    classes_
        The two labels, sorted; ``classes_[1]`` is the positive one.
    policy_, solution_
        The rules on ``estimator_.predict_proba(X)[:, 1]``, and their certificate and ``summary()``. The solution holds
        the fitting rows' groups and labels: hand the rules on by ``policy_.save``, not by a pickle of this object.
    random_state_
        The key of the coins: ``random_state``, or the number drawn at fit.

    Notes
    -----
    ``predict_proba`` is the policy's chance of each *decision*, 0 or 1 for whoever no coin decides. The chance of the
    label, which ``log_loss`` and calibration are about, is ``estimator_.predict_proba``.

    With scikit-learn's metadata routing on, ``sensitive_features``, ``sites`` and ``ids`` pass through ``Pipeline``,
    ``cross_validate`` and ``GridSearchCV`` unasked, with the scorers of :mod:`logofair.metrics` or ``scoring=None``;
    scikit-learn's own named scorers and ``cross_val_predict`` call ``predict`` without them. ``sample_weight`` is
    requested as usual, here and on ``estimator``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from logofair import LoGoFairClassifier
    >>> rng = np.random.default_rng(0)
    >>> sex, site = rng.choice(["f", "m"], 2000), rng.choice(["north", "south"], 2000)
    >>> X = rng.normal(size=(2000, 3)) + (sex == "m")[:, None]
    >>> y = np.where(X.sum(axis=1) + rng.normal(size=2000) > 2, "hire", "decline")
    >>> model = LoGoFairClassifier(LogisticRegression(), local_tolerance=0.05, random_state=0)
    >>> model.fit(X, y, sensitive_features=sex, sites=site).solution_.certificate.holds
    True
    >>> model.predict([[3, 3, 3]], sensitive_features=["f"], sites=["north"], ids=["ann"]).tolist()
    ['hire']
    """

    # Properties, so that they vanish (AttributeError, as scikit-learn expects) where the estimator has none.
    n_features_in_ = property(lambda self: self.estimator_.n_features_in_)
    feature_names_in_ = property(lambda self: self.estimator_.feature_names_in_)

    __metadata_request__fit: ClassVar = {"sensitive_features": True, "sites": True, "ids": True}
    __metadata_request__predict: ClassVar = {"sensitive_features": True, "sites": True, "ids": True}
    __metadata_request__predict_proba: ClassVar = {"sensitive_features": True, "sites": True}
    __metadata_request__score: ClassVar = {"sensitive_features": True, "sites": True, "ids": True}

    def __init__(
        self,
        estimator: Any,
        *,
        group_classifier: Any = None,
        notion: NotionLike | Mapping[str, NotionLike] = DEFAULT,
        local_tolerance: Given = DEFAULT,
        global_tolerance: Given = DEFAULT,
        require: Any = (),
        costs: Any = None,
        objective: str = "accuracy",
        solver: str | Algorithm1 = "exact",
        calibration: str = "beta",
        basis: str = "eta",
        pooling: str = "auto",
        cv: Any = 5,
        deterministic: bool = False,
        exact_counts: bool = False,
        on_unknown: str = "raise",
        random_state: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.group_classifier = group_classifier
        self.notion = notion
        self.local_tolerance = local_tolerance
        self.global_tolerance = global_tolerance
        self.require = require
        self.costs = costs
        self.objective = objective
        self.solver = solver
        self.calibration = calibration
        self.basis = basis
        self.pooling = pooling
        self.cv = cv
        self.deterministic = deterministic
        self.exact_counts = exact_counts
        self.on_unknown = on_unknown
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        sites: Any = None,
        ids: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Fit the model (unless frozen) and the policy.

        ``y`` holds labels of two classes; ``sensitive_features`` and ``sites`` the group and
        site of each row, any labels (without ``sites``: one site). Rows of one person (``ids``) stay together in all
        folds, those of a splitter given as ``cv`` if it takes ``groups``. ``sample_weight`` counts for model and policy
        alike, and is refused if ``estimator`` takes none.
        """
        same_order(X=X, y=y, sensitive_features=sensitive_features, sites=sites, ids=ids, sample_weight=sample_weight)
        labels, classes = _labels_and_classes(y, self.estimator)
        whole = None if isinstance(sensitive_features, Mapping) else sensitive_features  # its length is of columns
        X, labels, *_ = indexable(X, labels, whole, sites, ids)
        weight = weights(sample_weight, labels.size)
        columns = self._columns(sensitive_features=sensitive_features, sites=sites, sample_weight=weight)
        people = None if ids is None else encode(ids, "ids").codes
        people = people if people is not None and np.bincount(people).max(initial=0) > 1 else None
        folds = cache(lambda: _folds(self.cv, self.random_state, X, labels, people))  # none for frozen models
        scores = _held_out(self.estimator, X, labels, columns, folds, _chance)
        model = clone(self.estimator).fit(X, labels, **columns)
        self.group_classifier_, seen = None, None
        if self.group_classifier is not None:
            groups = encode(sensitive_features, "sensitive_features").labels
            self.group_classifier_ = clone(self.group_classifier).fit(X, groups)
            foretold = _held_out(self.group_classifier, X, groups, {}, folds, lambda each, own: each.predict_proba(own))
            seen = dict(zip(self.group_classifier_.classes_.tolist(), foretold.T, strict=True))
        self.solution_ = fit_policy(
            scores,
            labels == classes[1],
            sensitive_features=sensitive_features,
            sites=sites,
            group_probabilities=seen,
            ids=ids,
            sample_weight=weight,
            random_state=self.random_state,
            **{name: getattr(self, name) for name in _FIT_OPTIONS},
        )
        self.estimator_, self.classes_, self.policy_ = model, classes, self.solution_.policy
        self.random_state_ = self.policy_.key
        return self

    def predict(
        self, X: Any, *, sensitive_features: Any = None, sites: Any = None, ids: Any = None
    ) -> npt.NDArray[Any]:
        """Decide on rows: labels out of ``classes_``.

        ``sensitive_features`` are needed exactly if there is no ``group_classifier``, ``sites`` exactly if :meth:`fit`
        had them. Where a coin is tossed, the same id of ``ids`` (integers or text) gets the same decision in any row
        and any call; without ids the coin hangs on ``random_state_`` and the row's position. With ``exact_counts``
        decisions depend on the other rows of the call.
        """
        check_is_fitted(self, "policy_")
        same_order(X=X, sensitive_features=sensitive_features, sites=sites, ids=ids)
        decided = self.policy_.decide(
            **self._seen(X, sensitive_features, sites),
            ids=ids,
            random_state=self.random_state_,
            deterministic=self.deterministic,
            exact_counts=self.exact_counts,
        )
        return np.asarray(self.classes_[decided])

    def predict_proba(self, X: Any, *, sensitive_features: Any = None, sites: Any = None) -> Floats:
        """Return the policy's chance of each decision, (rows, 2): not the chance that a label is right.

        Only people whom a coin decides have another chance than 0 and 1; arguments are as for :meth:`predict`.
        """
        check_is_fitted(self, "policy_")
        same_order(X=X, sensitive_features=sensitive_features, sites=sites)
        chance = self.policy_.probabilities(**self._seen(X, sensitive_features, sites))
        return np.column_stack([1.0 - chance, chance])

    def _seen(self, X: Any, sensitive_features: Any, sites: Any) -> dict[str, Any]:
        """What the policy decides by."""
        groups, foretold = self.group_classifier_, None
        if groups is not None:
            foretold = dict(zip(groups.classes_.tolist(), groups.predict_proba(X).T, strict=True))
        elif sensitive_features is None:
            raise InputError(
                "sensitive_features: got None, but the policy decides by them; pass them, through cross_validate and "
                "GridSearchCV as params= with sklearn.set_config(enable_metadata_routing=True) and scorers of "
                "logofair.metrics (cross_val_predict cannot pass them)."
            )
        return {
            "scores": _chance(self.estimator_, X),
            "sensitive_features": sensitive_features,
            "group_probabilities": foretold,
            "sites": sites,
            "on_unknown": self.on_unknown,
        }

    def score(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sites: Any = None,
        ids: Any = None,
        sample_weight: Any = None,
    ) -> float:
        """Return the accuracy of :meth:`predict`; :mod:`logofair.metrics` measures the gaps."""
        decided = self.predict(X, sensitive_features=sensitive_features, sites=sites, ids=ids)
        return float(accuracy_score(y, decided, sample_weight=sample_weight))

    def get_metadata_routing(self) -> MetadataRouter:
        """Say what this classifier and its estimator request (scikit-learn's metadata routing)."""
        own = super().get_metadata_routing()
        if self.group_classifier is not None:  # such a policy refuses to be told
            for method in ("predict", "predict_proba", "score"):
                getattr(own, method).add_request(param="sensitive_features", alias=False)
        router = MetadataRouter(owner=type(self).__name__).add_self_request(own)
        return router.add(estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator).input_tags
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse, tags.input_tags.allow_nan = inner.sparse, inner.allow_nan
        return tags

    def _columns(self, **columns: Any) -> dict[str, Any]:
        """Columns for the estimator's own fit; weights that it would not take are refused."""
        given = {name: column for name, column in columns.items() if column is not None}
        passed = {name: column for name, column in given.items() if name == "sample_weight"}
        taken = isinstance(self.estimator, FrozenEstimator) or has_fit_parameter(self.estimator, "sample_weight")
        if get_config()["enable_metadata_routing"]:
            passed = dict(process_routing(self, "fit", **given)["estimator"]["fit"])
            taken = taken or "sample_weight" in passed
        if "sample_weight" in given and not taken:
            raise InputError(
                f"sample_weight: {type(self.estimator).__name__}.fit takes none; leave the weights out, or use an "
                "estimator that takes them (a Pipeline does with metadata routing on)."
            )
        return passed


def _held_out(
    estimator: Any,
    X: Any,
    labels: npt.NDArray[Any],
    columns: Mapping[str, Any],
    folds: _Folds,
    foretell: Callable[[Any, Any], Floats],
) -> Floats:
    """What models that were not trained on a row foretell of it; a frozen one was trained on other rows."""
    if isinstance(estimator, FrozenEstimator):
        return foretell(estimator, X)
    parts = []
    for train, test in folds():
        here = {name: _safe_indexing(column, train) for name, column in columns.items()}
        model = clone(estimator).fit(_safe_indexing(X, train), labels[train], **here)
        parts.append(foretell(model, _safe_indexing(X, test)))
    found = np.concatenate(parts)
    found[np.concatenate([test for _, test in folds()])] = found.copy()
    return found


def _labels_and_classes(y: object, estimator: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The labels as a column, and the two classes, sorted: those a frozen model knows, or those of the rows."""
    if not hasattr(estimator, "predict_proba"):
        raise InputError(f"estimator: {type(estimator).__name__} has no predict_proba; use a probabilistic classifier.")
    labels = column_or_1d(y, warn=True)
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    classes = np.unique(labels)
    if isinstance(estimator, FrozenEstimator):
        check_is_fitted(estimator)
        classes = np.asarray(estimator.classes_)
    if classes.size != 2:
        got = f"{classes.size} class{'' if classes.size == 1 else 'es'}"
        raise InputError(f"y: got {got}, expected two. Only binary classification is supported.")
    if strange := set(labels.tolist()) - set(classes.tolist()):
        raise InputError(f"y: {strange.pop()!r} is no class of the frozen estimator, which knows {classes.tolist()}.")
    return labels, classes


def _folds(
    cv: Any, random_state: int | None, X: Any, labels: npt.NDArray[Any], people: Integers | None
) -> list[tuple[Any, Any]]:
    """Training and test rows, nobody's in both; a number of folds is stratified by class and shuffled."""
    if isinstance(cv, int | np.integer):
        number = 0 if random_state is None else random_number(random_state)
        kind = StratifiedKFold if people is None else StratifiedGroupKFold
        cv = kind(int(cv), shuffle=True, random_state=number % 2**32)
    with warnings.catch_warnings():  # of splitters that do not ask who rows are of: their folds are looked at below
        warnings.filterwarnings("ignore", "The groups parameter is ignored")
        folds = list(check_cv(cv, labels, classifier=True).split(X, labels, groups=people))
    if people is not None and any(np.isin(people[train], people[test]).any() for train, test in folds):
        raise InputError(
            "cv: some folds separate the rows of one person; pass a number, or folds that keep them together."
        )
    if not np.array_equal(np.sort(np.concatenate([test for _, test in folds])), np.arange(labels.size)):
        raise InputError("cv: some rows are tested never or twice; pass folds that test every row once.")
    return folds


def _chance(model: Any, X: Any) -> Floats:
    """The model's probability of the positive class."""
    chances = np.asarray(model.predict_proba(X), dtype=np.float64)
    if len(model.classes_) != 2:
        raise InputError("cv: the training rows of some fold are all of one class; use folds stratified by class.")
    # A mean of probabilities may pass 0 or 1 by rounding; by more it is none, and the policy refuses it.
    return np.where(np.abs(chances - 0.5) <= 0.5 + 1e-6, np.clip(chances, 0.0, 1.0), chances)[:, 1]
