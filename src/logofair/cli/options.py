"""Options that several commands share, and their checks; each refuses with what was got and what to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import click

__all__ = [
    "CALIBRATIONS",
    "NOTIONS",
    "Check",
    "calibration_option",
    "constrained",
    "examples",
    "force_option",
    "json_option",
    "notion_option",
    "one_of",
    "seed_option",
    "single_tolerances",
    "such_that",
    "tolerance",
    "tolerance_option",
    "typed",
]

# As in logofair.notions, whose import would bring numpy.
NOTIONS = ("demographic_parity", "equal_opportunity", "predictive_equality", "equalized_odds")
CALIBRATIONS = ("beta", "platt", "temperature", "isotonic", "none")

_FREE = "none"

Command = TypeVar("Command", bound=Callable[..., Any])
Check: TypeAlias = Callable[[click.Context, click.Parameter, Any], Any]

force_option = click.option("--force", is_flag=True, help="Write over files that exist.")


def examples(*lines: str) -> str:
    """Return lines to try, for the end of a command's help."""
    return "\n  ".join(["\b\nExamples:", *lines])  # click keeps the lines of a paragraph that begins with \b


def one_of(names: Sequence[str]) -> Check:
    """Accept one of some names, and suggest the nearest to any other."""

    def check(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if value in names:
            return value
        from logofair.columns.checks import nearest_name  # brings numpy: only where it is needed

        hint = nearest_name(value, names)
        raise click.BadParameter(f"got {value!r}{hint}; use one of {', '.join(names)}.", ctx, param)

    return check


def such_that(accepted: Callable[[Any], bool], advice: str) -> Check:
    """Accept a value that passes a test, or none at all; ``advice`` says what to pass instead."""

    def check(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if value is None or accepted(value):
            return value
        raise click.BadParameter(f"got {value}; {advice}.", ctx, param)

    return check


def tolerance(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Read a tolerance: a number from 0, or infinity for ``none``; None where nothing was said."""
    if value is None:
        return None
    if value.strip().lower() == _FREE:
        return math.inf
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise click.BadParameter(f"got {value!r}; pass a number of at least 0, such as 0.02, or {_FREE}.", ctx, param)
    return number


def single_tolerances(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, float | None]:
    """Read the tolerances of single clients, each named once."""
    found: dict[str, float | None] = {}
    for text in values:
        name, equals, number = text.rpartition("=")
        if not equals or not name or name in found:
            advice = "pass NAME=TOLERANCE once per name, such as north=0.01"
            raise click.BadParameter(f"got {text!r}; {advice}.", ctx, param)
        found[name] = tolerance(ctx, param, number)
    return found


def constrained(number: float | None) -> float | None:
    """Return a tolerance as the library takes it: None where the gap is free."""
    return None if number == math.inf else number


def typed(number: float | None) -> str:
    """Return a tolerance as it is typed."""
    return _FREE if number is None else f"{number:g}"


def tolerance_option(
    side: str, where: str, *, default: str | None = None, otherwise: str = ""
) -> Callable[[Command], Command]:
    """Return the option ``--local`` or ``--global``; ``otherwise`` says what holds where it is not given."""
    shown = f"  [default: {otherwise}]" if otherwise else ""
    return click.option(
        f"--{side}",
        f"{side}_tolerance",
        metavar="TOL",
        default=default,
        show_default=default is not None,
        callback=tolerance,
        help=f"Largest gap allowed {where}, or none.{shown}",
    )


notion_option = click.option(
    "--notion",
    metavar="NAME",
    default="demographic_parity",
    show_default=True,
    callback=one_of(NOTIONS),
    help=f"What is fair: {', '.join(NOTIONS)}.",
)


def seed_option(purpose: str, *name: str) -> Callable[[Command], Command]:
    """Return the option ``--seed``, whose help says what it is for; ``name`` is that of the parameter, if another."""
    return click.option(
        "--seed",
        *name,
        type=int,
        default=0,
        show_default=True,
        callback=such_that(lambda seed: seed >= 0, "pass a whole number from 0"),
        help=purpose,
    )


calibration_option = click.option(
    "--calibration",
    metavar="NAME",
    callback=lambda ctx, param, name: name and one_of(CALIBRATIONS)(ctx, param, name),
    help=f"How scores become chances: {', '.join(CALIBRATIONS)}.  [default: beta, none without labels]",
)


def json_option(instead: str = "in place of tables") -> Callable[[Command], Command]:
    """Return the flag ``--json``, which is passed as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print JSON {instead}.")
