"""What fails a build, a line each: on a screen, in an assertion, or as annotations of a code host."""

from __future__ import annotations

from logofair.outcomes import NOT_MEASURED, Outcome, Outcomes
from logofair.words.limits import could_be, figure, limit, unit_of
from logofair.words.phrases import NOTHING, name_of


def failing_lines(outcomes: Outcomes, fail_on: str, *, annotate: str | None = None) -> list[str]:
    """Return a line for each outcome that fails a build (`Outcomes.failing`); none where the build passes.

    ``annotate="github"``: as commands that GitHub shows beside the change.

    Examples
    --------
    >>> import logofair
    >>> rows = {"sensitive_features": ["women", "men"] * 200, "sites": ["Oslo"] * 360 + ["Lyon"] * 40}
    >>> outcomes = logofair.audit([1, 1, 0, 1] * 100, None, **rows, local_tolerance=0.1).outcomes
    >>> print(*failing_lines(outcomes.where(site="Oslo"), "exceeded"), sep="; ")
    EXCEEDED  selection rate gap <= 0.1 per site, at Oslo: 50.0 points, could be 40 to 58 (limit 10)
    >>> failing_lines(outcomes.where(site="Lyon"), "exceeded", annotate="github")[0][:51]
    '::error title=logofair EXCEEDED::selection rate gap'
    """
    failing = outcomes.failing(fail_on)
    if failing is None:
        return []
    found = [(each.state, _found(each)) for each in failing] or [(outcomes.verdict, _nobody(outcomes.verdict))]
    if annotate == "github":
        return [f"::error title=logofair {state.upper()}::{_escaped(words)}" for state, words in found]
    return [f"{state.upper()}  {words}" for state, words in found]


def _found(each: Outcome) -> str:
    """The requirement as it was typed, where, and the figure beside its limit."""
    where = f"{each.requirement}{'' if each.site is None else f', at {name_of(each.site)}'}"
    if each.state == NOT_MEASURED:
        return f"{where}: no figure"
    now, could = f"{figure(each, each.after)} {unit_of(each)}".strip(), could_be(each)
    figures = [now] * (each.after is not None) + [f"could be {could}"] * (could != NOTHING)
    return f"{where}: {', '.join(figures)} (limit {limit(each)})"


def _nobody(verdict: str) -> str:
    return (
        "nothing was measured on other people" if verdict == NOT_MEASURED else "every site has too few people to judge"
    )


def _escaped(words: str) -> str:
    """Text that ends no command of GitHub's and begins none."""
    return words.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
