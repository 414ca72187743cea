"""A certificate in one sentence, and the pieces of sentences that other pages say of it."""

from __future__ import annotations

import math

from logofair.policy.info import CertificateInfo, PoolingInfo


def proof_sentence(proof: CertificateInfo) -> str:
    """What a certificate proves of the calibration rows, counted in what, and against which rules."""
    labels, cost = proof.basis == "labels", proof.objective == "cost"
    counted = "counted with labels" if labels else "in estimated chances"
    if proof.meets_requirements:
        ratios = "a ratio says" if proof.empty_ratios == 1 else f"{proof.empty_ratios:,} ratios say"
        silent = f" ({ratios} nothing: nobody is selected there)" if proof.empty_ratios else ""
        kept = f"every requirement is met{silent}"
    else:
        kept = f"a requirement is exceeded by up to {proof.violation:.4f}"
    reached, bound = reached_and_bound(proof.primal, proof.dual, proof.objective)
    found = f"cost is {reached} per person" if cost else f"accuracy is {reached}"
    that = f"that {'meet' if labels else 'meets'} them " + ("{}" if cost else ("exceed" if labels else "exceeds"))
    that = that.format("are below" if labels else "is below")
    return (
        f"On the calibration rows{added_to_rows(proof.pooling)}, {counted}, {kept} and expected {found}; "
        f"{no_rule(proof.basis)} {that} {bound} (optimality gap {tiny(proof.optimality_gap)})."
    )


def added_to_rows(pooling: str) -> str:
    """What a certificate counts besides the calibration rows, as the rest of a sentence about them."""
    return "" if pooling == "none" else " and what small cells borrow"


def no_rule(basis: str) -> str:
    """Which rules a bound is about, as the subject of a sentence that says what none of them does.

    With labels the bound covers rules that order people by their score; with chances any rule of these three. Rules
    that look at other features are not meant: they amount to another score.
    """
    return "no weighted thresholds of the score" if basis == "labels" else "no rule of score, group and site"


def reached_and_bound(reached: float, bound: float, objective: str, decimals: int = 4) -> tuple[str, str]:
    """What a rule reaches, and what none exceeds (of costs: is below), as text.

    Costs are in any unit: they have as many more decimals as it takes to show four digits.

    Examples
    --------
    >>> reached_and_bound(0.84061, 0.84062, "accuracy"), reached_and_bound(0.000213372, 0.000213371, "cost")
    (('0.8406', '0.8406'), ('0.0002134', '0.0002134'))
    """
    if objective == "cost":
        reached, bound = max(0.0, reached), max(0.0, bound)  # no rule earns: below 0 is rounding
    if objective == "cost" and 0 < reached < math.inf:
        decimals = max(decimals, 3 - math.floor(math.log10(reached)))
    return f"{reached:.{decimals}f}", f"{bound:.{decimals}f}"


def tiny(value: float) -> str:
    """A figure near 0; rounding may leave it slightly below."""
    return f"{value:.0e}" if value > 0 else "0"


def borrowed_sentence(pooling: PoolingInfo) -> str:
    """Return what cells borrow from other sites in a sentence for people."""
    if pooling.prior == "none":
        return "No cell borrows from other sites."
    moved = {"group": "", "site": ", moved by the site's shift", "cell": ", moved by the cell's shift"}
    worth = "all of it" if pooling.kappa is None else f"worth {pooling.kappa:g} rows in a cell"
    most = "" if pooling.largest_share is None else f", at most {pooling.largest_share:.0%} of a cell"
    return f"{pooling.cells:,} cells borrow their group's scores at all sites{moved[pooling.prior]}: {worth}{most}."
