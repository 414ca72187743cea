"""What a plan says to those who are asked to agree to it."""

from __future__ import annotations

from collections.abc import Iterator

from logofair.columns.checks import listed
from logofair.federation.plan import Members, Plan
from logofair.requirement import own_rates
from logofair.words.phrases import counted


def required_sentence(plan: Plan) -> str:
    """What must hold, and what errors cost at which site."""
    said = [f"{each}." for each in plan.require] or ["Nothing is required."]
    single = [f"{accepted:g} and {rejected:g} at {site}" for site, (accepted, rejected) in plan.site_costs]
    if plan.costs is not None:
        accepted, rejected = plan.costs
        alike = f"A wrongly accepted row costs {accepted:g}, a wrongly rejected one {rejected:g}"
        said.append(f"{alike}; {', '.join(single) if single else 'a site may count less'}.")
    elif single:
        said.append(f"A wrongly accepted row and a wrongly rejected one cost {', '.join(single)}.")
    return " ".join(said)


def plan_sentences(plan: Plan, members: Members | None = None) -> Iterator[tuple[str, str]]:
    """What a site agrees to by answering, as (label, sentence); ``members`` are those of the roster.

    Examples
    --------
    >>> from logofair.federation import make_plan
    >>> plan = make_plan(groups=["F", "M"], local_tolerance=0.05, run="spring")
    >>> dict(plan_sentences(plan))["Required"]
    'selection rate gap <= 0.05 per site.'
    """
    yield "Plan", f"Run {plan.run}, digest {plan.fingerprint}."
    if members is not None:
        names = f": {listed(members.names, members.number)}" if members.names else ""
        yield "Sites", f"{members.number:,}{names}; the run fails with fewer than {plan.quorum}."
    yield "Groups", f"{', '.join(map(str, plan.groups))}."
    yield "Required", required_sentence(plan)
    if not plan.inside.may_reject or plan.inside.limited:
        yield (
            "Feasible",
            "Whether the requirements inside this site can be met here is sent, as the sum of what they would have "
            "to give way by.",
        )
    rates = []
    for rate in own_rates(plan.rates).values():
        base = (rate.constant, rate.slope) if rate.base is None else rate.base
        rates.append(
            f"the {rate.name} counts an accepted row of chance p as {rate.constant:g} + {rate.slope:g} p, and any row "
            f"as {base[0]:g} + {base[1]:g} p"
        )
    if rates:
        yield "Rates", f"{'; '.join(rates)}."
    yield from _what_is_sent(plan)
    yield (
        "Published",
        "To every site and to whom the server's people choose: requirements, "
        f"{'names' if plan.secure else 'number'} of the sites, names of those that dropped out, rows of each group "
        f"over all of them, expected {plan.objective} and its bound, gaps over all"
        f"{', the rates that are limited over all' if not plan.over_all.only_tolerances else ''}, prices"
        f"{', scores of each group over all' if plan.pooling != 'none' else ''}. This site's policy stays here.",
    )


def _what_is_sent(plan: Plan) -> Iterator[tuple[str, str]]:
    yield (
        "Sums",
        "Secure: the server and every site see sums, each over 3 sites or more, from which a site can take its "
        "own part; what sums tell of single rows is measured in docs/THREATS.md."
        if plan.secure
        else "Not secure: the server sees the sums of this site by themselves.",
    )
    if plan.secure:
        yield "Not hidden", "The server and every site learn by this site's name which groups it has enough people of."
    if plan.secure and plan.privacy is None:
        yield (
            "Not hidden",
            "A site that lies in its answers can read some scores of the others between the prices; only "
            "differential privacy ends that.",
        )
    privacy = plan.privacy
    if privacy is None:
        yield "Privacy", "No differential privacy: sums are exact."
    else:
        yield (
            "Privacy",
            f"Differential privacy: one noised histogram, epsilon {privacy.epsilon:g}, delta {privacy.delta:g}, "
            f"neighbours by {privacy.neighbours}.",
        )
    if plan.smallest_cell > 1:
        yield "Small cells", f"A group with fewer than {plan.smallest_cell} rows here is counted in nothing sent."
    elif privacy is None:
        yield "Small cells", "Every group is counted, however few rows it has here."
    drawn = f"{plan.folds} folds drawn with seed {plan.random_state}"
    if plan.calibration != "none":
        yield "Calibration", f"{plan.calibration}: sums over scores and labels are sent, for {drawn}."
    else:
        yield (
            "Calibration",
            f"None: scores count as chances{f', and there are {drawn}' if plan.deals_folds else ''}.",
        )
    if plan.pooling != "none":
        yield "Pooling", "Histograms of this site's scores are sent, for small cells everywhere to borrow."
    solver = plan.solver
    if solver is None:
        yield (
            "Rounds",
            f"At most {plan.rounds} rounds of questions, each with at most {counted(plan.trials_at_most(), 'price')} "
            f"of the global requirements, until nothing is better by more than {plan.optimality_gap:g}.",
        )
    else:
        step = "found in the run" if solver.step is None else f"{solver.step:g}"
        yield (
            "Rounds",
            f"Algorithm 1, at most {solver.rounds} rounds of {solver.local_steps} local steps, with sharpness "
            f"{solver.sharpness:g} and a step {step}.",
        )
