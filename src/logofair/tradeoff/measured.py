"""Rows on which a frontier's rules are measured: others than those that chose them or, for want of these, the same.

Rules are measured in expectation over their coins, from running sums by cell; limits and the noise floor are computed
when somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from logofair.auditing import Audit, Comparison
from logofair.auditing.measure import Tally, tally_of
from logofair.auditing.rows import compared_audits
from logofair.calibration import Calibrator
from logofair.cells.cells import Cells, build_cells
from logofair.columns.checks import Floats, Label, listed, same_length
from logofair.columns.labels import Codes, encode, encode_known
from logofair.columns.segments import Indices
from logofair.costs import Costs
from logofair.errors import InputError
from logofair.fitting.solving import CalibrationRows, check_other_people, checked_rows
from logofair.notions import Rate
from logofair.policy.mixtures import Mixtures, evaluate
from logofair.policy.policy import Policy

_COLUMNS = ("scores", "labels", "sensitive_features", "sites", "sample_weight", "ids")


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """Checked rows and which rule each of their cells takes, ready to measure any rule of a frontier on them.

    ``places[cell]`` is the cell of the fit; beyond these stand the merged rules, one per group, which sites take
    that the fit does not know. ``fitted`` says that these very rows chose the rules, ``base`` is the audit of the
    unconstrained rule, whose noise floors serve all others.
    """

    rows: CalibrationRows
    ids: Codes | None
    calibrated: Floats
    places: Indices
    calibrator: Calibrator
    local_rates: tuple[Rate, ...]
    global_rates: tuple[Rate, ...]
    fitted: bool
    costs: Costs | None = None
    base: Audit | None = None

    @classmethod
    def of(
        cls,
        rows: CalibrationRows,
        known: tuple[Label, ...],
        calibrator: Calibrator,
        rates: tuple[tuple[Rate, ...], tuple[Rate, ...]],
        *,
        fitted: bool,
        ids: Codes | None = None,
        costs: Costs | None = None,
    ) -> MeasuredRows:
        """Find the rules that rows take; ``known`` are the sites of the fit, whose costs others have on average."""
        number = {name: place for place, name in enumerate(known)}
        sites = np.array([number.get(name, -1) for name in rows.sites.names], dtype=np.int32)
        groups = np.arange(len(rows.groups.names))
        # A site that is not known takes its groups' merged rules, which stand behind those of all cells.
        places = np.where(sites < 0, len(known), sites)[:, None] * groups.size + groups
        codes = sites[rows.sites.codes]
        calibrated = rows.calibrated if fitted else calibrator(rows.scores, rows.groups.codes, codes)
        own = None if costs is None or rows.labels is None else costs.at(sites)
        return cls(rows, ids, calibrated, places.ravel(), calibrator, *rates, fitted, own)

    @cached_property
    def cells(self) -> Cells:
        """The rows by cell and calibrated score, valued by label."""
        rows = self.rows
        return build_cells(
            self.calibrated,
            rows.groups.codes,
            rows.sites.codes,
            n_groups=len(rows.groups.names),
            n_sites=len(rows.sites.names),
            values=rows.labels,
            weights=rows.weights,
            rising=True,  # labels do not rise with the score, but no corner is looked for: no hull is needed
        )

    def audit(self, rule: Mixtures) -> Audit:
        """Accuracy, rates and gaps of a rule, in expectation over its coins."""
        rows = self.rows
        shape = (len(rows.sites.names), len(rows.groups.names))
        mass = self.cells.mass.reshape(shape)
        u, v = (share.reshape(shape) for share in evaluate(self.cells, rule))
        v = np.zeros_like(v) if rows.labels is None else v
        tally = self._nobody.accepting(np.stack([(u - v) * mass, v * mass], axis=-1))
        names = (rows.groups.names, rows.sites.names)
        rates = (self.local_rates, self.global_rates)
        return Audit.of(tally, *names, *rates, like=self.base, fitted_rows=self.fitted, costs=self.costs)

    @cached_property
    def _nobody(self) -> Tally:
        """The tally of a rule that accepts nobody."""
        rows = self.rows
        return tally_of(np.zeros_like(rows.scores), rows.labels, rows.weights, rows.groups, rows.sites, self.ids)

    def compare(self, first: Mixtures, second: Mixtures) -> Comparison:
        """The second rule less the first, row by row."""
        rows = self.rows
        names = (rows.groups.names, rows.sites.names)
        before, after = (
            Policy(*names, rule, self.calibrator, None, 0).chances(self.calibrated, rows.cells)
            for rule in (first, second)
        )
        columns = (rows.labels, rows.weights, rows.groups, rows.sites, self.ids)
        return compared_audits(before, after, columns, self.local_rates, self.global_rates, self.costs)


def checked_test_rows(given: object, fit: CalibrationRows) -> tuple[CalibrationRows, Codes | None]:
    """Check columns of rows to measure on, by the names :func:`logofair.fit` has for them; and their ids, if any."""
    if not isinstance(given, Mapping) or not {"scores", "labels", "sensitive_features"} <= set(given) <= set(_COLUMNS):
        raise InputError(
            "test_rows: pass a mapping of columns such as {'scores': ..., 'labels': ..., 'sensitive_features': ...}; "
            f"it may have {', '.join(_COLUMNS)}."
        )
    scores, labels, groups, sites, weight, people = (given.get(name) for name in _COLUMNS)
    try:
        rows = checked_rows(scores, labels, groups, sites, weight, "beta", "eta")  # as measuring does, it needs labels
        if rows.has_sites != fit.has_sites:
            missing, there = ("test rows", "rows to fit on") if fit.has_sites else ("rows to fit on", "test rows")
            raise InputError(
                f"sites: the {there} have them and the {missing} do not; pass them for both or for neither."
            )
        codes = encode_known(groups, fit.groups.names, "sensitive_features")
        if (codes < 0).any():
            strange = next(name for name in rows.groups.names if name not in fit.groups.names)
            known = listed(map(repr, fit.groups.names), len(fit.groups.names))
            raise InputError(f"sensitive_features: no rule is fitted for {strange!r}; the rows to fit on have {known}.")
        ids = None if people is None else encode(people, "ids")
        same_length(rows.scores.size, ids=ids)
        if ids is not None and fit.ids is not None:
            check_other_people(fit.ids, ids)
    except InputError as error:
        raise InputError(f"test_rows: {error}") from None
    return replace(rows, groups=Codes(fit.groups.names, codes)), ids
