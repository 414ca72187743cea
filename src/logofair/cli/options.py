"""Checks of options that several commands share; each refuses with what was got and what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import click

__all__ = ["NOTIONS", "Check", "examples", "force_option", "notion_option", "one_of", "seed_option", "such_that"]

# As in logofair.notions, whose import would bring numpy.
NOTIONS = ("demographic_parity", "equal_opportunity", "predictive_equality", "equalized_odds")

Command = TypeVar("Command", bound=Callable[..., Any])
Check: TypeAlias = Callable[[click.Context, click.Parameter, Any], Any]

force_option = click.option("--force", is_flag=True, help="Write over files that exist.")


def examples(*lines: str) -> str:
    """Return lines to try, for the end of a command's help.

    Examples
    --------
    >>> examples("logofair demo", "logofair demo --seed 1").splitlines()[1:]
    ['Examples:', '  logofair demo', '  logofair demo --seed 1']
    """
    return "\n  ".join(["\b\nExamples:", *lines])  # click keeps the lines of a paragraph that begins with \b


def one_of(names: Sequence[str]) -> Check:
    """Accept one of some names, and suggest the nearest to any other.

    Examples
    --------
    >>> check = one_of(["plain", "authors"])
    >>> context, option = click.Context(click.Command("demo")), click.Option(["--scheme"])
    >>> check(context, option, "plain")
    'plain'
    >>> check(context, option, "plane")
    Traceback (most recent call last):
    click.exceptions.BadParameter: got 'plane' (did you mean 'plain'?); use one of plain, authors.
    """

    def check(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if value in names:
            return value
        from logofair.columns.checks import nearest_name  # brings numpy: only where it is needed

        hint = nearest_name(value, names)
        raise click.BadParameter(f"got {value!r}{hint}; use one of {', '.join(names)}.", ctx, param)

    return check


def such_that(accepted: Callable[[Any], bool], advice: str) -> Check:
    """Accept a value that passes a test, or none at all; ``advice`` says what to pass instead.

    Examples
    --------
    >>> check = such_that(lambda seed: seed >= 0, "pass a whole number from 0")
    >>> check(click.Context(click.Command("demo")), click.Option(["--seed"]), -1)
    Traceback (most recent call last):
    click.exceptions.BadParameter: got -1; pass a whole number from 0.
    """

    def check(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if value is None or accepted(value):
            return value
        raise click.BadParameter(f"got {value}; {advice}.", ctx, param)

    return check


notion_option = click.option(
    "--notion",
    metavar="NAME",
    default="demographic_parity",
    show_default=True,
    callback=one_of(NOTIONS),
    help=f"What is fair: {', '.join(NOTIONS)}.",
)


def seed_option(purpose: str, *name: str) -> Callable[[Command], Command]:
    """Return the option ``--seed``, whose help says what it is for; ``name`` is that of the parameter, if another.

    Examples
    --------
    >>> @click.command()
    ... @seed_option("The same seed prints the same table.")
    ... def demo(seed): ...
    >>> demo.params[0].default
    0
    """
    return click.option(
        "--seed",
        *name,
        type=int,
        default=0,
        show_default=True,
        callback=such_that(lambda seed: seed >= 0, "pass a whole number from 0"),
        help=purpose,
    )
