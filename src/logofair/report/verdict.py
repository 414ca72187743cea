"""What was promised and what is held, in one sentence each, and whether that may be called kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from logofair.auditing.measure import FEW_ROWS
from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans
from logofair.fitting.solution import Solution
from logofair.notions import NOTIONS, Rate
from logofair.policy.mixtures import evaluate
from logofair.report.figures import BeforeAfter, RowsMeasured, compared_rates
from logofair.report.wording import counted, figure, joined, name_of
from logofair.requirements import Requirement, Requirements

__all__ = ["Verdict", "judge"]

_NAMED = 5  # clients named in a sentence; the tables name the others


@dataclass(frozen=True)
class Verdict:
    """``state`` is "kept", "partly", "broken", "unmeasured" or "nothing"; only the first is a pass.

    ``on_new_rows`` is empty where there are no new rows.

    Examples
    --------
    >>> Verdict("nothing", "No requirements was made", "Nothing.", "Nothing.").state
    'nothing'
    """

    state: str
    title: str
    promised: str
    held: str
    on_new_rows: str = ""


def judge(
    solution: Solution,
    inside: RequiredGaps,
    across: RequiredGaps,
    calibration: RowsMeasured,
    new: RowsMeasured | None = None,
) -> Verdict:
    """Judge a solution on its calibration rows, in the basis its promise was made in, and on new rows if there are.

    Examples
    --------
    >>> import logofair
    >>> from logofair.report.figures import measure_calibration
    >>> from logofair.report.verdict import required_gaps
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, groups=["a", "a", "b", "b"], calibration="none")
    >>> judge(solution, *required_gaps(solution), measure_calibration(solution)).title
    'Kept on the calibration rows, mostly on few rows'
    """
    promised = int(inside.bound.sum() + across.bound.sum())
    measured = int(inside.measured.sum() + across.measured.sum())
    state, title = _state(solution, promised, measured)
    held = _held(solution, promised, measured, state, _needs_labels(*inside.rates, *across.rates))
    few = _resting_on_few(calibration, inside, across)
    if state in ("kept", "partly") and few:
        rest = "rests" if few == 1 else "rest"
        held += f" {counted(few, 'gap')} of these {rest} on fewer than {FEW_ROWS} rows of some group."
    if state == "kept" and 2 * few > measured:
        state, title = "partly", f"{title}, mostly on few rows"
    if new is None or state in ("nothing", "unmeasured"):
        return Verdict(state, title, _promised(solution), held)
    if state in ("kept", "partly") and _clearly_above(new):
        state, title = "partly", f"{title}, exceeded on new rows"
    return Verdict(state, title, _promised(solution), held, _on_new_rows(new))


def _state(solution: Solution, promised: int, measured: int) -> tuple[str, str]:
    if promised == 0:
        return "nothing", "No promise was made"
    if measured == 0:
        return "unmeasured", "Cannot be judged: no promised gap can be measured"
    if solution.certificate.violation > solution.certificate.precision:
        return "broken", "Not kept on the calibration rows"
    if measured < promised:
        return "partly", f"Kept where it can be measured: {measured:,} of {promised:,} promised gaps"
    return "kept", "Kept on the calibration rows"


def _promised(solution: Solution) -> str:
    """The promise in one sentence."""
    requirements, policy = solution.requirements, solution.policy
    clients = counted(len(policy.clients), "client")
    inside = f"inside each of the {clients}" if policy.has_clients and len(policy.clients) > 1 else "over all rows"
    parts: list[str] = []
    seen: set[tuple[str, str]] = set()
    for side, items in ((inside, requirements.local), ("across all clients together", requirements.global_)):
        for name, tolerance in dict.fromkeys((r.notion, r.tolerance) for r in items):
            if tolerance is not None:
                notion = _notion(name, items)
                bound = f"within {tolerance:g} {side}"
                # A notion named once need not be named again, unless another stood between.
                parts.append(bound if {(name, notion)} == seen else f"{notion} {bound}")
                seen.add((name, notion))
    if not parts and not requirements.client_tolerances:
        return "Nothing: no tolerance was asked for."
    sentence = " and ".join(parts) or "Nothing in general"
    return f"{sentence[:1].upper()}{sentence[1:]}{_exceptions(requirements)}."


def _notion(name: str, items: tuple[Requirement, ...]) -> str:
    """A notion and what it compares."""
    rates = list(dict.fromkeys(r.rate.name for r in items if r.notion == name))
    known = name.replace("_", " ") if name in NOTIONS else name
    return f"{known} (equal {joined([rate + 's' for rate in rates])} of the groups)"


def _exceptions(requirements: Requirements) -> str:
    if not requirements.client_tolerances:
        return ""
    single = [
        f"{name_of(name)} {'free' if t is None else f'within {t:g}'}" for name, t in requirements.client_tolerances
    ]
    return f"; at single clients instead: {joined(single, _NAMED)}"


def _needs_labels(*rates: Rate) -> bool:
    return any(rate.slope or float(rate.weight(0.0)) != float(rate.weight(1.0)) for rate in rates)


def _held(solution: Solution, promised: int, measured: int, state: str, needs_labels: bool) -> str:
    """What is held in one sentence."""
    certificate, size = solution.certificate, counted(solution.rows.scores.size, "calibration row")
    basis = "labels" if certificate.basis == "labels" else "calibrated chances of label 1"
    where = f"On the {size}, counted in {basis}," if needs_labels else f"On the {size}"
    best = "no rule is expected to be more accurate" if state == "nothing" else "no rule that keeps them all is"
    best += " (proved to 0.000001)" if state == "nothing" else " expected to be more accurate (proved to 0.000001)"
    if state == "nothing":
        return f"On the {size} {best}."
    if state == "unmeasured":
        return f"{where} none of the {counted(promised, 'promised gap')} has two groups to compare: nothing is shown."
    if state == "broken":
        return f"{where} a promised gap exceeds its tolerance by {figure(certificate.violation)}."
    every = "the promised gap stays" if promised == 1 else f"all {promised:,} promised gaps stay"
    some = f"{measured:,} of {promised:,} promised gaps can be measured, and stay"
    proof = f", and {best}" if certificate.holds else ""
    return f"{where} {every if measured == promised else some} within tolerance{proof}."


def _resting_on_few(calibration: RowsMeasured, inside: RequiredGaps, across: RequiredGaps) -> int:
    """How many of the promised gaps that can be measured rest on few rows."""
    return sum(
        int((promised.measured[k] & pair.few[pair.rates.index(rate)]).sum())
        for promised, pair in ((inside, calibration.local), (across, calibration.overall))
        for k, rate in enumerate(promised.rates)
    )


def _sides(measured: RowsMeasured) -> tuple[BeforeAfter, ...]:
    """The pairs that are not the same thing twice."""
    return (measured.overall, measured.local) if len(measured.clients) > 1 else (measured.local,)


def _errors_together(measured: RowsMeasured) -> float:
    """Standard errors that all promised gaps stay within at once, with 95% (Bonferroni): of 200, some exceed two."""
    compared = sum(int((np.isfinite(p.tolerance) & ~np.isnan(p.after.gaps)).sum()) for p in _sides(measured))
    return float(ndtri(1.0 - 0.025 / max(compared, 1)))


def _clearly_above(measured: RowsMeasured) -> bool:
    """Whether some gap exceeds its tolerance by more than chance explains."""
    errors = _errors_together(measured)
    return any(bool((pair.bounds(errors)[0] > pair.tolerance).any()) for pair in _sides(measured))


def _on_new_rows(measured: RowsMeasured) -> str:
    """How the promised gaps came out on rows the policy was not made from, in one sentence."""
    errors, several = _errors_together(measured), len(measured.clients) > 1
    parts = list(_compared(measured.overall, errors, " across all clients")) if several else []
    parts += _compared(measured.local, errors)
    size = counted(measured.size, "test row")
    return f"On {size} {'; '.join(parts)}." if parts else f"On {size} nothing that was promised can be compared."


def _compared(pair: BeforeAfter, errors: float, across: str = "") -> Iterator[str]:
    """Every rate's gaps beside their tolerances: one gap as it is, several counted."""
    several, least = len(pair.rates) > 1, pair.bounds(errors)[0]
    for k, rate in enumerate(pair.rates):
        gaps, limits = pair.after.gaps[k], pair.tolerance[k]
        if not np.isfinite(limits).any():
            continue
        what = f"the {rate.name} gap" if several else "the gap"
        if gaps.size == 1:
            yield f"{what}{across} {_one(float(gaps[0]), float(limits[0]), float(least[k, 0]))}"
            continue
        bound = np.isfinite(limits) & ~np.isnan(gaps)
        above = bound & (gaps > limits)
        clear = int((above & (least[k] > limits)).sum())
        chance = f"at {clear:,} of them by more" if clear else "never by more"
        yield (
            f"{what} is above its tolerance inside {int(above.sum()):,} of {counted(int(bound.sum()), 'client')}"
            f"{f', {chance} than chance explains' if above.any() else ''}"
        )


def _one(gap: float, limit: float, least: float) -> str:
    """One gap beside its tolerance."""
    if np.isnan(gap):
        return "cannot be measured"
    if gap <= limit:
        return f"is {figure(gap)}, within its tolerance of {limit:g}"
    excess = "more" if least > limit else "no more"
    return f"is {figure(gap)}, above its tolerance of {limit:g} by {excess} than chance explains"


@dataclass(frozen=True, eq=False)
class RequiredGaps:
    """What one side promises, for each of its rates at each place, and what it holds in the basis of the promise.

    ``tolerance`` is infinite where free; ``gap`` NaN where nothing is promised or fewer than two groups have the rate;
    ``price`` is what one more unit of tolerance wins at most. All are (rates, places).
    """

    rates: tuple[Rate, ...]
    tolerance: Floats
    gap: Floats
    price: Floats

    def line(self, rate: Rate) -> int | None:
        """Where a rate stands, if anything is promised for it."""
        return self.rates.index(rate) if rate in self.rates else None

    @property
    def bound(self) -> Booleans:
        """Where something is promised."""
        return np.isfinite(self.tolerance)

    @property
    def measured(self) -> Booleans:
        """Where something is promised and can be measured."""
        return self.bound & ~np.isnan(self.gap)


def required_gaps(solution: Solution) -> tuple[RequiredGaps, RequiredGaps]:
    """Return what is promised and held inside each client and over all.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, groups=["a", "a", "b", "b"], calibration="none")
    >>> inside, across = required_gaps(solution)
    >>> inside.tolerance.tolist(), inside.gap.round(6).tolist(), across.rates
    ([[0.02]], [[0.02]], ())
    """
    problem, requirements, prices = solution.problem, solution.requirements, solution.certificate.prices
    u, v = (part.reshape(problem.shape) for part in evaluate(problem.cells, solution.policy.mixtures))
    inside = [r for k, r in enumerate(requirements.local) if np.isfinite(requirements.tolerances[:, k]).any()]
    across = [r for r in requirements.global_ if r.tolerance is not None]
    local = problem.local_gaps(u, v) / problem.local_units
    global_ = problem.global_gaps(u, v) / problem.global_units
    local = np.where(problem.local_counts.any(axis=1), local, np.nan)
    global_ = np.where(problem.global_counts.any(axis=0), global_, np.nan)
    bounds = problem.local_tolerance / problem.local_units
    return (
        _tightest(inside, bounds.T, local.T, prices.local.T),
        _tightest(
            across,
            (problem.global_tolerance / problem.global_units)[:, None],
            global_[:, None],
            prices.global_[:, None],
        ),
    )


def _tightest(requirements: list[Requirement], tolerance: Floats, gap: Floats, price: Floats) -> RequiredGaps:
    """One line per rate: where several notions bound the same rate, the smaller tolerance and the sum of prices."""
    rates = compared_rates(tuple(requirements))
    lines = [[k for k, r in enumerate(requirements) if r.rate == rate] for rate in rates]
    shape = (len(rates), tolerance.shape[1])
    return RequiredGaps(
        rates,
        np.array([tolerance[k].min(axis=0) for k in lines]).reshape(shape),
        np.array([gap[k[0]] for k in lines]).reshape(shape),
        np.array([price[k].sum(axis=0) for k in lines]).reshape(shape),
    )
