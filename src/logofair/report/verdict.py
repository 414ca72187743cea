"""What was required and what was found, in one sentence each, and whether that may be called met."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from logofair.auditing import FEW_ROWS
from logofair.fitting.solution import Solution
from logofair.report.measured import BeforeAfter, MeasuredRows, RequiredGaps
from logofair.report.wording import counted, figure
from logofair.requirements import requirement_sentences

__all__ = ["Verdict", "judge"]


@dataclass(frozen=True)
class Verdict:
    """``state`` is "met", "partly", "missed", "unmeasured" or "nothing"; only the first is a pass.

    ``on_new_rows`` is empty where there are no new rows.
    """

    state: str
    title: str
    required: str
    found: str
    on_new_rows: str = ""


def judge(
    solution: Solution,
    local: RequiredGaps,
    global_: RequiredGaps,
    calibration: MeasuredRows,
    new: MeasuredRows | None = None,
) -> Verdict:
    """Judge a solution on its calibration rows, in the basis of its requirements, and on new rows if there are."""
    required = int(local.required.sum() + global_.required.sum())
    measured = int(local.measured.sum() + global_.measured.sum())
    state, title = _state(solution, required, measured)
    needs_labels = any(rate.needs_labels for rate in (*local.rates, *global_.rates))
    found = _found(solution, required, measured, state, needs_labels)
    few = _resting_on_few(calibration, local, global_)
    if state in ("met", "partly") and few:
        rest = "rests" if few == 1 else "rest"
        found += f" {counted(few, 'gap')} of these {rest} on fewer than {FEW_ROWS} rows of some group."
    if state == "met" and 2 * few > measured:
        state, title = "partly", f"{title}, mostly on few rows"
    if new is None or state in ("nothing", "unmeasured"):
        return Verdict(state, title, _required(solution), found)
    if state in ("met", "partly") and _clearly_above(new):
        state, title = "partly", f"{title}, exceeded on new rows"
    return Verdict(state, title, _required(solution), found, _on_new_rows(new))


def _state(solution: Solution, required: int, measured: int) -> tuple[str, str]:
    if required == 0:
        return "nothing", "Nothing was required"
    if measured == 0:
        return "unmeasured", "Cannot be judged: no required gap can be measured"
    if solution.certificate.violation > solution.certificate.precision:
        return "missed", "Requirements missed on the calibration rows"
    if measured < required:
        return "partly", f"Requirements met where they can be measured: {measured:,} of {required:,} gaps"
    return "met", "Requirements met on the calibration rows"


def _required(solution: Solution) -> str:
    """The requirements in words."""
    local = f"Inside each of the {len(solution.policy.clients):,} clients"
    return " ".join(requirement_sentences(solution.requirements.as_dict(), local))


def _found(solution: Solution, required: int, measured: int, state: str, needs_labels: bool) -> str:
    """What was found on the calibration rows, in one sentence."""
    certificate, size = solution.certificate, counted(solution.rows.scores.size, "calibration row")
    basis = "labels" if certificate.basis == "labels" else "calibrated chances of label 1"
    where = f"On the {size}, counted in {basis}," if needs_labels else f"On the {size}"
    rule = "no rule is" if state == "nothing" else "no rule that meets them all is"
    best = f"{rule} expected to be more accurate (proved to 0.000001)"
    if state == "nothing":
        return f"On the {size} {best}."
    if state == "unmeasured":
        return f"{where} none of the {counted(required, 'required gap')} has two groups to compare: nothing is shown."
    if state == "missed":
        return f"{where} a required gap exceeds its tolerance by {figure(certificate.violation)}."
    every = "the required gap stays" if required == 1 else f"all {required:,} required gaps stay"
    some = f"{measured:,} of {required:,} required gaps can be measured, and stay"
    proof = f", and {best}" if certificate.holds else ""
    return f"{where} {every if measured == required else some} within tolerance{proof}."


def _resting_on_few(calibration: MeasuredRows, local: RequiredGaps, global_: RequiredGaps) -> int:
    """How many of the required gaps that can be measured rest on few rows."""
    return sum(
        int((gaps.measured[k] & pair.few[pair.rates.index(rate)]).sum())
        for gaps, pair in ((local, calibration.local), (global_, calibration.global_))
        for k, rate in enumerate(gaps.rates)
    )


def _sides(measured: MeasuredRows) -> tuple[BeforeAfter, ...]:
    """The pairs that are not the same thing twice."""
    return (measured.global_, measured.local) if len(measured.clients) > 1 else (measured.local,)


def _errors_together(measured: MeasuredRows) -> float:
    """Standard errors that all required gaps stay within at once, with 95% (Bonferroni): of 200, some exceed two."""
    compared = sum(int((np.isfinite(p.tolerance) & ~np.isnan(p.after.gaps)).sum()) for p in _sides(measured))
    return float(ndtri(1.0 - 0.025 / max(compared, 1)))


def _clearly_above(measured: MeasuredRows) -> bool:
    """Whether some gap exceeds its tolerance by more than chance explains."""
    errors = _errors_together(measured)
    return any(bool((pair.after.interval(errors)[0] > pair.tolerance).any()) for pair in _sides(measured))


def _on_new_rows(measured: MeasuredRows) -> str:
    """How the required gaps came out on rows the policy was not made from, in one sentence."""
    errors, several = _errors_together(measured), len(measured.clients) > 1
    parts = list(_compared(measured.global_, errors, " over all clients")) if several else []
    parts += _compared(measured.local, errors)
    size = counted(measured.size, "test row")
    return f"On {size} {'; '.join(parts)}." if parts else f"On {size} nothing that was required can be compared."


def _compared(pair: BeforeAfter, errors: float, where: str = "") -> Iterator[str]:
    """Every rate's gaps beside their tolerances: one gap as it is, several counted."""
    several, least = len(pair.rates) > 1, pair.after.interval(errors)[0]
    for k, rate in enumerate(pair.rates):
        gaps, tolerances = pair.after.gaps[k], pair.tolerance[k]
        if not np.isfinite(tolerances).any():
            continue
        what = f"the {rate.name} gap" if several else "the gap"
        if gaps.size == 1:
            yield f"{what}{where} {_one(float(gaps[0]), float(tolerances[0]), float(least[k, 0]))}"
            continue
        required = np.isfinite(tolerances) & ~np.isnan(gaps)
        above = required & (gaps > tolerances)
        clear = int((above & (least[k] > tolerances)).sum())
        chance = f"at {clear:,} of them by more" if clear else "never by more"
        yield (
            f"{what} is above its tolerance inside {int(above.sum()):,} of {counted(int(required.sum()), 'client')}"
            f"{f', {chance} than chance explains' if above.any() else ''}"
        )


def _one(gap: float, tolerance: float, least: float) -> str:
    """One gap beside its tolerance."""
    if np.isnan(gap):
        return "cannot be measured"
    if gap <= tolerance:
        return f"is {figure(gap)}, within its tolerance of {tolerance:g}"
    excess = "more" if least > tolerance else "no more"
    return f"is {figure(gap)}, above its tolerance of {tolerance:g} by {excess} than chance explains"
