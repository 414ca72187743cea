"""What is proved, and what to be careful with: the certificate, what small groups borrow, and warnings, in words."""

from __future__ import annotations

import math

from logofair.columns.checks import Label
from logofair.fitting.solution import FitWarning
from logofair.policy.info import CertificateInfo, PoolingInfo
from logofair.words.phrases import counted, listed, name_of, points, short_number

_NAMED = 3
_WARNINGS = {
    "no rows": "Nobody is there: {who}; {otherwise}",
    "too small": "Fewer than {fewest} people, too few to count: {who}; {otherwise}",
    "no weight": "Only people of weight 0: {who}; {otherwise}",
    "one row": "One person only: {who}",
    "one label": "All have the same label: {who}",
    "few rows": "Fewer than 30 people, so that rates are mostly chance: {who}",
    "few noised rows": "Fewer than 30 people by the noised counts, so that rates are mostly chance: {who}",
    "unmeasured gap": "Fewer than two groups to compare, so that the gap in {rate} is not measured: {who}",
    "group left out": "Nobody counts in the {rate}, so that its gap leaves the group out: {who}",
    "empty ratio": "Nobody is selected, so that the ratio of {rate} says nothing: {who}",
    "empty precision": "Nobody is selected, so that the {rate} says nothing: {who}",
    "no merged rule": "No rule meets all limits over all sites taken as one, so there is none for sites not known yet",
}


def warning_sentence(warning: FitWarning) -> str:
    """Return a warning in words, with a few names at most.

    Examples
    --------
    >>> warning_sentence(FitWarning("few rows", (("north", "M"), ("south", "M")), 2))
    'Fewer than 30 people, so that rates are mostly chance: M at north and M at south.'
    """
    named = [_who(*cell) for cell in warning.cells[:_NAMED]]
    more = warning.count - len(named)
    otherwise = "the group's rule over all sites applies"
    if len(warning.thresholds) == 1:
        otherwise = f"a score of {short_number(warning.thresholds[0])} accepts"
    elif warning.thresholds:
        otherwise = "each site accepts from the score at which its costs break even"
    text = _WARNINGS[warning.kind].format(
        who=f"{', '.join(named)} and {more:,} more" if more > 0 else listed(named, _NAMED),
        rate=warning.rate,
        fewest=warning.fewest,
        otherwise=otherwise,
    )
    return f"{text}."


def _who(site: Label | None, group: Label | None) -> str:
    """A group at a site, or one of the two."""
    if group is None:
        return "over all" if site is None else name_of(site, 30)
    return name_of(group, 30) + ("" if site is None else f" at {name_of(site, 30)}")


def proof_sentences(
    proof: CertificateInfo, *, rows: str, solver: str | None = None, calibration: str | None = None, sites: bool = True
) -> tuple[str, ...]:
    """Return what a certificate proves of which rows, and against which rules; of Algorithm 1 nothing is proved."""
    counting = "labels" if proof.basis == "labels" else "predicted probabilities"
    borrowed = "" if proof.pooling == "none" else " and what small groups borrow"
    cost = proof.objective == "cost"
    reached = (
        f"expected cost {_cost(proof.primal)} per person" if cost else f"expected accuracy {points(proof.primal, 2)} %"
    )
    kept = (
        "every limit holds"
        if proof.meets_requirements
        else f"a limit is exceeded by up to {short_number(proof.violation)}"
        if math.isfinite(proof.violation)
        else "a limit is exceeded inside a site"
    )
    first = f"On {rows}{borrowed}, counted by {counting}: {kept}, {reached}."
    if solver == "algorithm1":
        return (first, "Algorithm 1 proves nothing: a limit may be exceeded, and a better rule may exist.")
    if proof.dual is None or proof.optimality_gap is None:
        why = "rates count true groups or labels, and the rules see probabilities"
        return (first, f"Whether some rule that may not look at groups is better is not proved: {why}.")
    seen = "group probabilities" if proof.looks_away else "group"
    which = (
        "rule of weighted thresholds of the score"
        if proof.basis == "labels"
        else f"rule of {f'score, {seen} and site' if sites else f'score and {seen}'}"
    )
    bound = f"costs less than {_cost(proof.dual)}" if cost else f"is more accurate than {points(proof.dual, 2)} %"
    excess = f"{proof.optimality_gap:.0e}" if proof.optimality_gap > 0 else "0"
    found = [first, f"No {which} that keeps the limits {bound} (optimality gap {excess})."]
    if proof.empty_ratios:
        silent = f"{counted(proof.empty_ratios, 'ratio')} {'says' if proof.empty_ratios == 1 else 'say'} nothing"
        found.append(f"{silent}: nobody is selected there. Add a floor.")
    if calibration == "none" and proof.basis != "labels":
        found.append("Scores are taken as probabilities as they are.")
    return tuple(found)


def _cost(value: float) -> str:
    """A cost to four digits that matter, in any unit; no rule earns: below 0 is rounding."""
    decimals = 4 if not 0 < value < math.inf else max(4, 3 - math.floor(math.log10(value)))
    return f"{max(0.0, value):.{decimals}f}"


def pooling_sentence(pooling: PoolingInfo) -> str:
    """Return what small groups borrow."""
    if pooling.prior == "none" or not pooling.cells:
        return "No group borrows from other sites."
    moved = {"group": "", "site": ", moved by the site's shift", "cell": ", moved by the group's shift there"}
    worth = "their own people count nothing beside it" if pooling.kappa is None else f"worth {pooling.kappa:g} people"
    most = (
        ""
        if not pooling.largest_share or pooling.kappa is None
        else f", at most {points(pooling.largest_share, 0)} % of a group"
    )
    return (
        f"{counted(pooling.cells, 'small group')} are smoothed with the same group at the other sites"
        f"{moved[pooling.prior]}: {worth}{most}."
    )
