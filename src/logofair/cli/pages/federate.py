"""The end of a run as a page for people: what was promised, what holds, and what it took."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from logofair.federation import Plan, RunResult
    from logofair.policy.policy import Policy

__all__ = ["show_outcome", "show_policy"]


_NAMED = 9  # sites listed by name


def show_outcome(outcome: RunResult, console: Console) -> None:
    """Print the result of a run.

    Examples
    --------
    >>> from logofair.engines.inprocess import run
    >>> from logofair.federation import SiteColumns, make_plan
    >>> rows = SiteColumns(groups=["F", "F", "M", "M"], scores=[0.9, 0.3, 0.6, 0.1])
    >>> plan = make_plan(groups=["F", "M"], calibration="none", run="demo")
    >>> show_outcome(run(plan, {"north": rows, "south": rows}).outcome, Console(width=80))  # doctest: +ELLIPSIS
    Run demo: 2 sites (north, south), 8 rows (F 4, M 4)
    <BLANKLINE>
    Required   demographic parity: gaps within 0.02 inside each site, within 0.02
               across all sites.
    ...
    """
    with console.capture() as captured:
        console.print(_heading(outcome), end="\n\n", soft_wrap=True)
        notes = Table.grid(padding=(0, 2, 0, 0))
        notes.add_column(style="bold", no_wrap=True)
        notes.add_column()
        last = ""
        for label, sentence in (*_promises(outcome), *_ways(outcome), *_cautions(outcome)):
            notes.add_row("" if label == last else label, sentence)
            last = label
        console.print(notes)
    console.file.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def show_policy(policy: Policy, where: object, console: Console) -> None:
    """Print a site's rules, and what it should know of them.

    Examples
    --------
    >>> import logofair
    >>> fair = logofair.fit([0.9, 0.2], None, groups=["a", "b"], calibration="none", local_tolerance=None,
    ...     global_tolerance=None)
    >>> show_policy(fair.policy, "policy.json", Console(width=80))
    policy.json:
    client  group  rule
    all     'a'    score >= 0.5
    all     'b'    score >= 0.5
    """
    calibrated = policy.calibrator.method != "none"
    console.print(f"{where}:", soft_wrap=True)
    console.print(str(policy.rules), soft_wrap=True)
    if calibrated:
        console.print("(Scores here are calibrated ones; policy.decide takes the scores as they are.)", soft_wrap=True)
    for sentence in policy.info.warnings:
        console.print(f"Warning: {sentence}", soft_wrap=True)
    if policy.info.note is not None:
        console.print(f"Note: {policy.info.note}", soft_wrap=True)


def _heading(outcome: RunResult) -> str:
    sites, noised = outcome.sites, outcome.plan.privacy is not None
    more = f" and {len(sites) - _NAMED:,} more" if len(sites) > _NAMED else ""
    groups = ", ".join(f"{group} {mass:,.0f}" for group, mass in zip(outcome.plan.groups, outcome.mass, strict=True))
    return (
        f"Run {outcome.plan.run}: {len(sites):,} {'site' if len(sites) == 1 else 'sites'} "
        f"({', '.join(sites[:_NAMED])}{more}), {'about ' if noised else ''}{outcome.mass.sum():,.0f} rows ({groups})"
    )


def _promises(outcome: RunResult) -> Iterator[tuple[str, str]]:
    """What was promised and what holds."""
    certificate, plan = outcome.certificate, outcome.plan
    yield "Required", f"{_promised(plan)}."
    yield (
        "Holds" if outcome.meets_requirements else "Found",
        f"Expected accuracy {outcome.accuracy:.5f}; no rule within the tolerances exceeds {outcome.bound:.5f} (gap "
        f"{_tiny(certificate.optimality_gap)}, violation {_tiny(outcome.violation)}), in expectation over the sites' own rows.",
    )
    global_ = [r for r in plan.global_ if r.tolerance is not None]
    for requirement, gap in zip(global_, outcome.gaps, strict=True):
        yield "Gaps", f"{requirement.rate.name} across all sites: {gap:.5f} of {requirement.tolerance:g} allowed."
    for requirement, price in zip(global_, certificate.prices.global_, strict=True):
        if price > 1e-9:
            yield (
                "Price",
                f"0.01 more tolerance for the {requirement.rate.name} across all clients wins at most "
                f"{0.01 * price:.5f} accuracy.",
            )


def _ways(outcome: RunResult) -> Iterator[tuple[str, str]]:
    """How the numbers came together."""
    plan = outcome.plan
    counts = ", ".join(f"{purpose} {count}" for purpose, count in outcome.exchanges.items())
    yield "Exchanges", f"{sum(outcome.exchanges.values())} in all: {counts}."
    if plan.secure:
        yield "Sums", "Secure: the server saw totals of the sites, never one site's numbers."
    if plan.privacy is not None:
        yield (
            "Privacy",
            f"All numbers come from one noised histogram per site (epsilon {plan.privacy.epsilon:g}, delta "
            f"{plan.privacy.delta:g}); the promise is about these counts, and real rows differ from them.",
        )


def _cautions(outcome: RunResult) -> Iterator[tuple[str, str]]:
    """Who is missing, and what was not kept."""
    for each in outcome.lost:
        # Whoever is still in the roster was counted: it only did not say that it has heard the result.
        rest = "it may not have its policy yet" if each.site in outcome.sites else "the promise is about the others"
        yield "Excluded", f"{each.site}: {each.reason} (during {each.purpose}); {rest}."
    if not outcome.meets_requirements:
        inside = f", and {outcome.broken:,} sites exceed a tolerance inside" if outcome.broken else ""
        yield (
            "WARNING",
            f"A tolerance across all sites is exceeded by up to {outcome.violation:.5f}{inside}: algorithm1 may miss "
            "its tolerances; use --solver exact to keep them.",
        )
    elif outcome.certificate.optimality_gap > outcome.plan.optimality_gap and outcome.plan.solver is None:
        yield (
            "WARNING",
            f"The gap asked for was {outcome.plan.optimality_gap:g}: all rounds were used before it was reached.",
        )


def _promised(plan: Plan) -> str:
    parts = []
    for side, items in (("inside each site", plan.local), ("across all sites", plan.global_)):
        bounds = dict.fromkeys((r.notion, r.tolerance) for r in items if r.tolerance is not None)
        parts += [(notion.replace("_", " "), f"within {tolerance:g} {side}") for notion, tolerance in bounds]
    single = [f"{site} {'free' if t is None else f'within {t:g}'}" for site, t in plan.client_tolerances]
    exceptions = f"; in place of that inside {', '.join(single)}" if single else ""
    notions = dict.fromkeys(notion for notion, _ in parts)
    sentences = (f"{notion}: gaps {', '.join(words for name, words in parts if name == notion)}" for notion in notions)
    return ("; ".join(sentences) or "nothing (every tolerance is none)") + exceptions


def _tiny(value: float) -> str:
    """A figure near 0; rounding may leave it a hair below."""
    return f"{value:.0e}" if value > 0 else "0"
