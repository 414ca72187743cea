"""The demonstration's run: deal rows to sites, train, post-process in three ways, measure on the test rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from logofair.auditing import Audit, audit
from logofair.auditing import Comparison as RulesCompared
from logofair.auditing import compare as compare_rules
from logofair.auditing.result import measured_values
from logofair.columns.checks import Floats, Label
from logofair.datasets import Dataset, dirichlet_sites, split
from logofair.fitting.fit import fit
from logofair.fitting.solution import Solution
from logofair.progress import no_progress
from logofair.records import Result
from logofair.solvers.certificate import Certificate

if TYPE_CHECKING:
    from logofair.progress import Progress

BASE = "Plain model"
# The paper's protocol: 30 % of all rows for testing, half of the others for post-processing.
_PARTS = {"train": 0.35, "calibration": 0.35, "test": 0.3}
# The paper's names, and whether something is required on the local and on the global side.
_VARIANTS = {"LoGoFair_g": (False, True), "LoGoFair_l": (True, False), "LoGoFair_l&g": (True, True)}


@dataclass(frozen=True)
class Settings:
    """What a run depends on; ``sites`` is their number, ``alpha`` how evenly groups are spread over them."""

    notion: str = "demographic_parity"
    local_tolerance: float | None = 0.01
    global_tolerance: float | None = 0.01
    sites: int = 5
    alpha: float = 0.5
    random_state: int = 0


@dataclass(frozen=True, eq=False)
class MethodResult(Result):
    """One method on the test rows, in expectation over its coins, and the tolerances it had to meet (None: none).

    ``difference`` are its figures less the base model's on the same rows; the tolerances and the certificate are about
    the calibration rows.
    """

    name: str
    audit: Audit
    local_tolerance: float | None = None
    global_tolerance: float | None = None
    difference: RulesCompared | None = None
    certificate: Certificate | None = None

    def in_json(self) -> dict[str, Any]:
        """Return what was required, and what was measured."""
        return {
            "method": self.name,
            "required": {"local": self.local_tolerance, "global": self.global_tolerance},
            **measured_values(self.audit),
            "difference": self.difference,
            "certificate": self.certificate,
        }


@dataclass(frozen=True, eq=False)
class Comparison(Result):
    """Methods side by side: the base model first, then the three variants; :func:`compare` makes one.

    ``fair`` is the variant that is fair inside each site and over all. Calibration and test rows are columns as
    `logofair.fit` names them.
    """

    settings: Settings
    data: str
    rows: dict[str, int]
    groups: tuple[Label, ...]
    outcomes: tuple[MethodResult, ...]
    warnings: tuple[str, ...]
    fair: Solution
    calibration_rows: Mapping[str, Any]
    test_rows: Mapping[str, Any]

    @cached_property
    def fair_tested(self) -> Solution:
        """The fair variant, tested on the test rows."""
        return self.fair.test(**self.test_rows)

    def in_json(self) -> dict[str, Any]:
        """Return all methods, and what they rest on."""
        base = self.outcomes[0].audit
        return {
            "data": self.data,
            "settings": self.settings,
            "rows": self.rows,
            "groups": self.groups,
            "methods": self.outcomes,
            "small": base.small,
            "undefined": base.undefined,
            "warnings": self.warnings,
        }


def compare(data: Dataset, settings: Settings, progress: Progress = no_progress) -> Comparison:
    """Train a logistic regression on one part of the data, post-process on another, audit every method on the third.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> features = random.random((2000, 2))
    >>> data = Dataset("toy", features, ("a", "b"), features.sum(1) > 1, np.where(features[:, 0] > 0.4, "M", "F"))
    >>> [outcome.name for outcome in compare(data, Settings(sites=2, alpha=5)).outcomes]
    ['Plain model', 'LoGoFair_g', 'LoGoFair_l', 'LoGoFair_l&g']
    """
    dealing, splitting = np.random.default_rng(settings.random_state).spawn(2)
    sites = dirichlet_sites(data.sensitive, n_sites=settings.sites, alpha=settings.alpha, rng=dealing)
    parts = split(len(data), _PARTS, rng=splitting)

    def trained(rows: npt.NDArray[np.intp]) -> Floats:
        """Scores of all rows by a logistic regression trained on some."""
        from sklearn.linear_model import LogisticRegression  # here, while the reader sees that work goes on

        model = LogisticRegression(solver="newton-cholesky").fit(data.features[rows], data.labels[rows])
        return np.asarray(model.predict_proba(data.features)[:, 1])

    (scores,) = progress(map(trained, [parts["train"]]), "Training a logistic regression", total=1)
    columns = {"scores": scores, "labels": data.labels, "sensitive_features": data.sensitive, "sites": sites}
    calibration: dict[str, Any] = {name: column[parts["calibration"]] for name, column in columns.items()}
    test = {name: column[parts["test"]] for name, column in columns.items()}
    tolerances: dict[str, dict[str, Any]] = {
        name: {
            "local_tolerance": settings.local_tolerance if local else None,
            "global_tolerance": settings.global_tolerance if global_ else None,
        }
        for name, (local, global_) in _VARIANTS.items()
    }
    usual: dict[str, Any] = {"notion": settings.notion, "random_state": settings.random_state}
    fits = progress(
        (fit(**calibration, **own, **usual) for own in tolerances.values()),
        "Fitting LoGoFair",
        total=len(_VARIANTS),
    )
    solutions = dict(zip(_VARIANTS, fits, strict=True))
    # The model's most accurate decisions, by the same calibrated scores: what every page calls before.
    calibrated = solutions["LoGoFair_l&g"].policy
    places = {name: test[name] for name in ("sensitive_features", "sites")}
    plain = calibrated.unconstrained(test["scores"], on_unknown="merged", **places)
    measured: dict[str, Any] = {"notion": settings.notion, **places}
    outcomes = [MethodResult(BASE, audit(plain, test["labels"], **measured))]
    for name, solution in solutions.items():  # in expectation over its coins, beside the base model
        chance = solution.policy.probabilities(test["scores"], on_unknown="merged", **places)
        compared = compare_rules(plain, chance, test["labels"], chances=True, **measured)
        outcomes.append(
            MethodResult(
                name, compared.second, **tolerances[name], difference=compared, certificate=solution.certificate
            )
        )
    return Comparison(
        settings=settings,
        data=data.name,
        rows={part: rows.size for part, rows in parts.items()},
        groups=outcomes[0].audit.groups,
        outcomes=tuple(outcomes),
        warnings=tuple(dict.fromkeys(str(warning) for each in solutions.values() for warning in each.warnings)),
        fair=solutions["LoGoFair_l&g"],
        calibration_rows=calibration,
        test_rows=test,
    )
