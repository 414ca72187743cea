"""What supports the requirements beyond the rows that chose the policy: the first line of every page.

Promises for new rows, a test on other rows, or neither. What a test shows is judged here, once, for every page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from logofair.auditing import Audit, Gap, Measured
from logofair.auditing.measure import Side, text
from logofair.auditing.required import BROKEN, KEPT, SILENT, UNCLEAR, UNMEASURED, RequirementCheck
from logofair.auditing.result import NOT_TESTED
from logofair.columns.checks import Floats, Label
from logofair.fitting.promises import CERTIFIED, NOT_REQUIRED, called, certified_words, price_words
from logofair.notions import Rate
from logofair.outcomes import FEW_ROWS
from logofair.policy.info import FigureInfo, FindingInfo, PolicyInfo, TestedInfo, added_to_rows
from logofair.requirements import Band, Requirements

_WITHIN, _ABOVE = "within tolerance, shown", "above tolerance beyond chance"
_FEW = 2  # findings told one by one
_WITH_FEW = f"With groups of fewer than {FEW_ROWS} rows"


@dataclass(frozen=True)
class Evidence:
    """What is known of the requirements beyond the rows that chose the policy.

    Attributes
    ----------
    state : str
        ``"met"``: all are certified for new rows, or shown on other rows; ``"missed"``: other rows show a gap above its
        tolerance, or without them the calibration rows do; ``"unclear"``: some are neither; ``"untested"``: nothing is
        known; ``"nothing"``: nothing was required.
    headline : str
        That in words, without a full stop; ``figures``: what was measured on other rows, with intervals, if anything.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, groups=["a", "b", "a", "b"], calibration="none")
    >>> solution.evidence.state
    'untested'
    >>> print(solution.evidence)
    Nothing is known of new rows: what is proved is about the 4 calibration rows alone; not yet tested on other rows.
    """

    state: str
    headline: str
    figures: str = ""

    def __str__(self) -> str:
        return f"{self.headline}.{f' {self.figures}' if self.figures else ''}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"state": self.state, "sentence": str(self)}


def evidence_of(info: PolicyInfo) -> Evidence:
    """What supports the requirements of a policy beyond the rows that chose it, by what it says of itself."""
    if not info.requirements.require:
        return Evidence("nothing", "Nothing was required")
    certified, tested = _certified(info), info.tested
    if tested is None:
        words = _unknown(info) if certified is None else certified[1]
        missed = info.certificate is not None and not info.certificate.meets_requirements
        state = ("missed" if missed else "untested") if certified is None else "met" if certified[0] else "unclear"
        return Evidence(state, f"{words}; {NOT_TESTED}")
    shown = [each.shown for each in tested.findings or ()]
    met = (bool(shown) and all(shown)) or (certified is not None and certified[0])
    words = _tested(tested) if certified is None else f"{certified[1]}. {_tested(tested)}"
    return Evidence("missed" if False in shown else "met" if met else "unclear", words, _figures(tested))


def _certified(info: PolicyInfo) -> tuple[bool, str] | None:
    """Whether all that was required is certified, and in words; None where no confidence was given."""
    promises = info.promises
    if promises is None:
        return None
    made, required = promises.count(CERTIFIED), len(promises.promises) - promises.count(NOT_REQUIRED)
    what = called(each.kind for each in promises.promises)
    price = price_words(promises.price, promises.measure) if made else ""
    return made == required, certified_words(promises.confidence, promises.method, made, required, what) + price


def _unknown(info: PolicyInfo) -> str:
    """That nothing is known beyond the calibration rows, and what is of these."""
    nothing, proof = "Nothing is known of new rows", info.certificate
    if proof is None:
        return nothing
    if info.federation is not None:
        rows = f"the rows of the {info.federation.sites:,} sites"
    else:
        rows = f"the {'' if info.rows is None else f'{info.rows:,} '}calibration rows"
    added = added_to_rows(proof.pooling)
    if not proof.meets_requirements:
        excess = "a gap exceeds its tolerance" if info.requirements.are_tolerances else "a requirement is exceeded"
        return f"{nothing}, and on {rows}{added} {excess} by up to {proof.violation:.4f}"
    return f"{nothing}: what is proved is {f'only about {rows}{added}' if added else f'about {rows} alone'}"


def _tested(tested: TestedInfo) -> str:
    """What a test shows of each side, in words."""
    rows = f"Tested on {tested.rows:,} other row{'' if tested.rows == 1 else 's'}"
    if tested.findings is None:
        return rows
    if not tested.findings:
        return f"{rows}: nothing that was required can be measured there"
    phrases = dict.fromkeys(each.phrase for each in tested.findings)
    if len(phrases) == 1:
        return f"{rows}: {next(iter(phrases))}"
    if len(tested.findings) > _FEW:
        counts = [f"{sum(each.phrase == phrase for each in tested.findings):,} {phrase}" for phrase in phrases]
        return f"{rows}: of {len(tested.findings):,} requirements {', '.join(counts)}"
    return f"{rows}: " + "; ".join(f"{each.where} {each.phrase}" for each in tested.findings)


def _figures(tested: TestedInfo) -> str:
    """The gaps that were judged, with their intervals and tolerances."""
    gaps: list[str] = []
    others: list[str] = []
    for each in tested.findings or ():
        at = "" if each.site is None else f" at site {each.site!r}"
        gap = "undefined" if each.gap is None else str(Measured(**asdict(each.gap)))
        what = f"{each.where} {gap}{at}, {each.how} {each.tolerance:.4g}"
        (gaps if each.how == "tolerance" else others).append(what)
    parts = [*([f"gap {'; '.join(gaps)}"] if gaps else []), *others]
    return "".join(f" {part[:1].upper()}{part[1:]}." for part in parts).strip()


@dataclass(frozen=True)
class Finding:
    """What other rows show on one side: ``shown`` is True for within, False for above, None for neither.

    ``gap`` is the one that is judged, by ``tolerance``; ``phrase`` says what is shown, ``words`` all of it. Of another
    requirement than a tolerance, ``where`` says which, ``gap`` is the figure and ``how`` which way its number binds.
    """

    where: str
    shown: bool | None
    phrase: str
    words: str
    gap: Gap
    tolerance: float
    how: str = "tolerance"

    @property
    def info(self) -> FindingInfo:
        """What a policy stores of it."""
        gap, site = self.gap.value, self.gap.site
        figure = None if gap is None else FigureInfo(**gap.as_dict())
        name = None if site is None else str(site)
        return FindingInfo(self.where, self.shown, self.phrase, self.tolerance, figure, name, self.how)


_SHOWN = {KEPT: (True, "kept, shown"), BROKEN: (False, "broken beyond chance"), UNCLEAR: (None, UNCLEAR)}
_SHOWN |= {SILENT: (None, "says nothing, nobody is selected"), UNMEASURED: (None, UNMEASURED)}


def _of_requirement(check: RequirementCheck) -> Finding:
    """What other rows show of another requirement than a tolerance."""
    at, (shown, phrase) = check.worst, _SHOWN[check.state]
    where = f"{check.called} {check.where}".strip()
    gap = Gap(at.found, check.rate, site=at.site)
    return Finding(where, shown, phrase, str(check), gap, at.required, check.how)


def findings(audit: Audit, local_tolerance: Floats, global_tolerance: Floats) -> Iterator[Finding]:
    """What other rows show on each side on which something was required and can be measured.

    Tolerances are (rates, sites) and (rates, 1), infinite where a gap is free.
    """
    several = len(audit.sites) > 1
    over_all = "over all sites" if several else "between groups"
    for side, tolerance, where in (
        (audit.global_, global_tolerance, over_all),
        (audit.local, local_tolerance, "inside sites" if several else over_all),
    ):
        if not (np.isfinite(tolerance) & ~np.isnan(side.gaps)).any():
            continue
        finding = _finding(side, tolerance, where)
        if several and side is audit.local:
            check = str(audit.check_sites(tolerance)).replace("\n", " ")
            finding = replace(finding, words=f"{finding.words} {check}")
        yield finding
    yield from (_of_requirement(check) for check in audit.requirements if check.kind != "tolerance")


def _finding(side: Side, tolerance: Floats, where: str) -> Finding:
    """What one side shows: of groups of 30 rows or more, then of all where smaller ones say something else."""
    first = side.headline
    shown, phrase, gap, limit = _judged(first, tolerance)
    largest = "The largest gap" if gap == first.worst() else "A gap"
    words = f"{largest if len(side.sites) > 1 else 'The gap'} {where} is {gap}, tolerance {limit:g}: {phrase}."
    found = Finding(where, shown, phrase, words, gap, limit)
    if np.array_equal(np.isnan(first.values), np.isnan(side.values)):
        return found
    all_shown, all_phrase, worst, limit = _judged(side, tolerance)
    if all_phrase == phrase and text(worst.value) == text(gap.value):
        return found
    seen = f"; {worst.finding}" if worst.value is not None and worst.value.low else ""
    words += f" {_WITH_FEW} it is {worst}, tolerance {limit:g}: {all_phrase}{seen}."
    if all_phrase != phrase:
        phrase += f", but {_WITH_FEW[:1].lower()}{_WITH_FEW[1:]} {all_phrase}"
    return replace(found, shown=False if shown is False else all_shown, phrase=phrase, words=words)


def _judged(side: Side, tolerance: Floats) -> tuple[bool | None, str, Gap, float]:
    """Whether a side's gaps are shown within tolerance, in words, and the gap that is judged with its tolerance."""
    shown, phrase = _shown(side, tolerance)
    excess = (side.limits[0] if shown is False else side.gaps) - tolerance
    rate, place = np.unravel_index(int(np.where(np.isnan(excess), -np.inf, excess).argmax()), excess.shape)
    gap, worst = side.gap(int(rate), int(place)), side.worst()
    gap = worst if (worst.rate, worst.site) == (gap.rate, gap.site) else gap
    return shown, phrase, gap, float(tolerance[rate, place])


def _shown(side: Side, tolerance: Floats) -> tuple[bool | None, str]:
    """Whether gaps are shown to be within their tolerances or above, and in words; all sites judged together."""
    required = np.isfinite(tolerance).any(axis=0)
    above, within = side.above(tolerance), side.within(tolerance)
    if above.any():
        return False, _ABOVE
    if within[required].all():
        return True, _WITHIN
    if np.isnan(side.limits[1][np.isfinite(tolerance)]).all():
        return None, "cannot be told, such a rate has no interval"
    few = not side.checkable(tolerance)[required].all()
    return None, f"cannot be told, {'rows too few' if few else 'too close to the tolerance'}"


def required_tolerances(
    requirements: Requirements, sites: Sequence[Label | None], audit: Audit
) -> tuple[Floats, Floats]:
    """The tolerances of an audit's gaps, (rates, sites) and (rates, 1), infinite where a gap is free.

    ``sites`` are those the requirements are about; nothing is required of others.
    """
    place = {name: i for i, name in enumerate(sites)}
    at = np.array([place.get(name, len(sites)) for name in audit.local.sites])
    lines = [[k for k, r in enumerate(requirements.local) if r.rate == rate] for rate in audit.local.rates]
    by_rate = [requirements.tolerances[:, k].min(axis=1, initial=np.inf) for k in lines]
    local = np.array([np.append(column, np.inf)[at] for column in by_rate])
    return local, np.array([_smallest(requirements.global_, rate) for rate in audit.global_.rates])[:, None]


def _smallest(requirements: tuple[Band, ...], rate: Rate) -> float:
    tolerances = [r.tolerance for r in requirements if r.rate == rate and r.tolerance is not None]
    return min(tolerances, default=np.inf)
