"""A policy in words: what was required, how good it is, and its rules as bands of scores and as a clerk reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from logofair import records
from logofair.auditing import Gap, Measured
from logofair.cli.pages.console import counted, lined, notes, print_page, share, titled
from logofair.columns.checks import Floats, listed
from logofair.columns.labels import plain
from logofair.fitting.evidence import evidence_of
from logofair.fitting.promises import Promises
from logofair.policy.info import FigureInfo, PolicyInfo, TestedInfo, added_to_rows, proof_sentence, reached_and_bound
from logofair.policy.policy import Policy
from logofair.policy.rules import rule_in_words, steps
from logofair.requirements import requirement_sentences
from logofair.solvers.certificate import LARGEST_VIOLATION

_HALVINGS = 60
_HOW_TO_TEST = "logofair audit FILE --policy POLICY measures it on other rows."
_LINES = 12  # rules listed before the reader is asked to choose a site


def show(
    policy: Policy, sites: list[int], groups: list[int], *, at: str | None, of: str | None, console: Console
) -> None:
    """Print the rules of some sites and groups; ``at`` and ``of`` are the site and the group asked for, if any."""
    listed = sites if at else sites[: max(1, _LINES // len(groups))]
    parts: list[Any] = [] if at or of else [*_about(policy), ""]
    parts += [notes(_rules(policy, listed, groups, at))]
    if len(listed) < len(sites):
        parts += ["", f"These are {len(listed)} of {len(sites):,} sites; --only-site NAME shows another, --json all."]
    print_page(parts, console)


def _about(policy: Policy) -> Iterator[Any]:
    """What is known of new rows, what the policy is, what was required and how good it is, and its promises."""
    evidence = evidence_of(policy.info)
    yield Text(str(evidence), style="bold")
    if evidence.state != "nothing" and policy.info.tested is None:
        yield Text(_HOW_TO_TEST)
    yield ""
    yield notes([("Policy", _overview(policy)), *_info_lines(policy.info, has_sites=policy.has_sites)])
    stored, proof = policy.info.promises, policy.info.certificate
    promises = None if stored is None else Promises.of(stored, None if proof is None else proof.primal)
    if promises is not None and (lines := promises.table()):
        yield from ("", lined(lines), "", notes(titled("Promises", promises.details())))


def _overview(policy: Policy) -> str:
    """What the policy is about."""
    data, rows = policy.info.data, policy.info.rows
    made = "" if rows is None else f", made from {rows:,} rows"
    made += "" if data is None else f" of {data.name}"
    sites = f"{counted(len(policy.sites), 'site')} and " if policy.has_sites else ""
    sites += "" if policy.site is None else f"site {policy.site!r} alone, "
    coins, cells = int(policy.mixtures.mixed.sum()), len(policy.mixtures.weight)
    tossed = (
        f"{coins:,} of {cells:,} rules {'tosses' if coins == 1 else 'toss'} a coin for some scores"
        if coins
        else "no rule tosses a coin"
    )
    method = policy.calibrator.method
    scores = "raw scores" if method == "none" else f"calibrated scores ({method}: the chance of a positive label)"
    return f"for {sites}{len(policy.groups):,} groups{made}; it compares {scores}; {tossed}.{_coins(policy, cells)}"


def _coins(policy: Policy, cells: int) -> str:
    """How many of the rows it was made from a coin decides on, and how many rules ignore the score, where it tells."""
    share_of_rows, blind = policy.info.coin_share, policy.info.score_blind_rules
    if share_of_rows is None or blind is None:
        return ""
    decided = f" A coin decides on {share_of_rows:.2%} of the rows it was made from;" if share_of_rows else ""
    return f"{decided} {blind:,} of {cells:,} rules {'ignores' if blind == 1 else 'ignore'} the score."


def _info_lines(info: PolicyInfo, *, has_sites: bool) -> Iterator[tuple[str, str]]:
    """What a policy tells of requirements, test, certificate, prices and warnings, each with a word beside it."""
    yield from titled("Requirements", requirement_sentences(info.requirements.as_dict()))
    yield from titled("Tested", _test_sentences(info.tested))
    yield from titled("This site", _at_site(info))
    proof = info.certificate
    if info.federation is not None:
        borrowing = info.pooling if info.pooling is not None and info.pooling.cells else None
        yield from titled("Pooling", () if borrowing is None else (borrowing.summary(),))
        yield from titled("All sites", _over_all_sites(info))
    elif proof is not None:
        about = info.rows, info.calibration, info.solver
        yield "Proof", proof_sentence(proof, *about, has_sites=has_sites)
    if info.federation is None and info.pooling is not None and info.pooling.prior != "none":
        own = proof is not None and proof.pooling == "none"
        yield "Pooling", f"{'Among the rows that chose the rule: ' if own else ''}{info.pooling.summary()}"
    yield from titled("Price", info.price_sentences)
    yield from titled("Warning", info.warnings)
    yield from titled("Note", () if info.note is None else (info.note,))


def _at_site(info: PolicyInfo) -> Iterator[str]:
    """What a federated policy does on the rows of its own site."""
    figures = info.site_figures
    if figures is None:
        return
    rows = "By the noised counts of its rows" if info.rows is None else f"On its own {info.rows:,} rows"
    accepted = listed((f"{share(part)} of {group}" for group, part in figures.accepted.items()), len(figures.accepted))
    if figures.accuracy is not None:
        right = f"{figures.accuracy:.2%} of all cases"
        yield f"{rows}, the policy is expected to be right in {right}; it accepts {accepted}."
    if figures.too_small:
        few = "no row" if figures.smallest_cell == 1 else f"fewer than {figures.smallest_cell} rows"
        yield (
            f"Too small to say: {', '.join(figures.too_small)}, with {few} here. Nothing of such a group was counted "
            "or sent, and its rule is the merged one: what is best at the prices of the requirements over all sites."
        )
    if figures.local_gaps:
        yield f"Gaps inside the site: {_gaps(figures.local_gaps)}. New rows differ by chance."


def _over_all_sites(info: PolicyInfo) -> Iterator[str]:
    """What the policies of a federation's sites do together."""
    run, proof = info.federation, info.certificate
    if run is None or proof is None:
        return
    met = "meet them" if proof.violation <= LARGEST_VIOLATION else f"miss them by up to {proof.violation:.4f}"
    without = ", without this one" if info.note is not None else ""
    if proof.objective == "accuracy":
        right, most = reached_and_bound(100 * proof.primal, 100 * proof.dual, proof.objective, 2)
        expected = f"are expected to be right in {right}% of all cases; none that meet them are in more than {most}%"
    else:
        cost, least = reached_and_bound(proof.primal, proof.dual, proof.objective)
        expected = f"are expected to cost {cost} per person; none that meet them cost less than {least}"
    yield (
        f"Over the rows of the {run.sites:,} sites of run {run.run!r}{without}{added_to_rows(proof.pooling)}, "
        f"their policies together {met} and {expected}."
    )
    if run.global_gaps:
        yield f"Gaps over all sites: {_gaps(run.global_gaps)}."
    for name, rates in run.global_rates.items():
        of_groups = [f"{group} {rate:.4f}" for group, rate in rates.items()]
        yield f"The {name} over all sites: {listed(of_groups, len(of_groups))}."


def _gaps(gaps: Mapping[str, float]) -> str:
    return ", ".join(f"{rate} {gap:.4f}" for rate, gap in gaps.items())


def _test_sentences(tested: TestedInfo | None) -> Iterator[str]:
    """What the policy did on rows that took no part in its fit; nothing where nobody looked yet."""
    if tested is None:
        return
    of = "" if tested.data is None else f" of {tested.data.name}"
    yield f"On {tested.rows:,} other rows{of}."
    if tested.accuracy is not None:
        yield f"Accuracy {_measured(tested.accuracy)}."
    if tested.cost is not None:
        yield f"Cost per person {_measured(tested.cost)}."
    several = tested.local_gap is not None
    for figure, name in (
        (tested.global_gap, "global gap" if several else "largest gap"),
        (tested.local_gap, "local gap"),
    ):
        if figure is not None:
            gap = Gap(_measured(figure), name)
            at = f" at site {tested.local_gap_site!r}" if name == "local gap" else ""
            yield f"{name.capitalize()} {gap.value}{at}: {gap.finding}."


def _measured(figure: FigureInfo) -> Measured:
    return Measured(**asdict(figure))


def _rules(policy: Policy, sites: list[int], groups: list[int], at: str | None) -> Iterator[tuple[str, str]]:
    """A line per site and group, then those for sites the policy does not know."""
    calibrated = policy.calibrator.method != "none"

    def at_site(site: int) -> Iterator[str]:
        for group in groups:
            words = in_words(bands_of(policy, site, group), calibrated=calibrated)
            too_small = " (too small to say)" if str(policy.groups[group]) in policy.too_small else ""
            yield f"{policy.groups[group]}: {words}{too_small}"

    for site in sites:
        named = policy.has_sites or policy.site is not None
        yield from titled(f"At {policy.sites[site]}" if named else "Rules", at_site(site))
    if at is None and policy.has_sites and policy.has_merged:
        yield from titled("Elsewhere", at_site(-1))
        yield "", "(sites the policy does not know, with --on-unknown merged)"


def as_dict(policy: Policy, sites: list[int], groups: list[int]) -> dict[str, Any]:
    """Plain values, ready for JSON."""
    calibrated = policy.calibrator.method != "none"
    places = [(site, group) for site in sites for group in groups]
    if policy.has_merged and len(sites) == len(policy.sites):
        places += [(-1, group) for group in groups]
    rules = []
    for site, group in places:
        bands = bands_of(policy, site, group)
        rules.append(
            {
                "site": plain(policy.sites[site]) if site >= 0 else None,
                "unknown_sites": site < 0,
                "group": plain(policy.groups[group]),
                "too_small": str(policy.groups[group]) in policy.too_small,
                "words": in_words(bands, calibrated=calibrated),
                "bands": [vars(band) for band in bands],
            }
        )
    known = {"evidence": evidence_of(policy.info).as_dict(), "info": records.plain(policy.info)}
    return known | {"calibration": policy.calibrator.method, "rules": rules}


@dataclass(frozen=True)
class Band:
    """Scores that have the same chance of acceptance, from ``low`` up to ``high``, on both scales.

    The outer bands begin at 0 and end at 1. Raw scores are as in the files the policy was made from, which may hold
    percentages or logits; otherwise, without calibration, both scales are the same.
    """

    low: float
    high: float
    chance: float
    raw_low: float
    raw_high: float


def raw_scores(policy: Policy, calibrated: Floats, groups: Any, sites: Any) -> Floats:
    """Return the raw score at which the calibrated one reaches each value; sites of code -1 are unknown ones.

    A higher raw score never has a lower calibrated one, so halving finds the place. Values that are not reached give 1.
    """
    groups, sites = np.asarray(groups, dtype=np.int32), np.asarray(sites, dtype=np.int32)
    low, high = np.zeros_like(calibrated), np.ones_like(calibrated)
    at_once = policy.calibrator(low, groups, sites) >= calibrated
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        reached = policy.calibrator(middle, groups, sites) >= calibrated
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return np.where(at_once, 0.0, high)


def bands_of(policy: Policy, site: int, group: int) -> list[Band]:
    """Return the bands of one site and group by their numbers, lowest first; site -1: those of unknown sites."""
    mixtures, cell = policy.mixtures, site * len(policy.groups) + group
    if site < 0:
        if policy.merged is None:
            return []
        mixtures, cell = policy.merged, group
    edges, chances = steps(mixtures, cell)
    raw = raw_scores(policy, edges[1:-1], np.full(edges.size - 2, group), np.full(edges.size - 2, site))
    raw = _as_in_files(np.concatenate(([0.0], raw, [1.0])), policy)
    return [
        Band(*(float(v) for v in (edges[i], edges[i + 1], chances[i], raw[i], raw[i + 1]))) for i in range(chances.size)
    ]


def in_words(bands: Sequence[Band], *, calibrated: bool) -> str:
    """Return the bands of a rule in words, with raw scores beside calibrated ones."""
    edges, raw = [0.0, *(band.high for band in bands)], [0.0, *(band.raw_high for band in bands)]
    return rule_in_words(edges, [band.chance for band in bands], raw if calibrated else None)


def _as_in_files(raw: Floats, policy: Policy) -> Floats:
    """Raw scores on the scale of the files the policy was made from; logits end where chances are 0 or 1."""
    scale = None if policy.info.columns is None else policy.info.columns.scale
    if scale == "logit":
        inside = np.clip(raw, 2.0**-53, 1 - 2.0**-53)
        return np.asarray(np.log(inside / (1 - inside)))
    return 100.0 * raw if scale == "percent" else raw
