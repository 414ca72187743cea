"""Numbers and names as people read them."""

from __future__ import annotations

import math

from logofair.auditing import Gap
from logofair.columns.checks import Label
from logofair.requirements import Ratio, Tolerance

ROUNDING = 1e-6  # what figures are proved to: less is none
UNDEFINED = "not measured"
_LONGEST = 80


def name_of(label: Label | None) -> str:
    """Return a site's or group's name; parts of an intersection stand beside one another.

    A very long name loses its middle.

    Examples
    --------
    >>> name_of(("women", "over 60")), name_of(7), name_of(None)
    ('women × over 60', '7', 'all rows')
    """
    if label is None:
        return "all rows"
    if isinstance(label, tuple):
        return _without_middle(" × ".join(map(name_of, label)))
    return _without_middle(str(label)) or "(blank)"


def _without_middle(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}…{name[-(_LONGEST // 2 - 1) :]}"


def short(name: str, most: int) -> str:
    """Return a name cut to so many characters."""
    return name if len(name) <= most else name[: most - 1] + "…"


def figure(value: float | None) -> str:
    """Return a figure, or that there is none."""
    if value is None or not math.isfinite(value):
        return UNDEFINED
    text = f"{value:.4f}"
    return text if float(text) else text.lstrip("-")


def signed(value: float) -> str:
    """Return a difference with its sign.

    Examples
    --------
    >>> signed(-0.01), signed(0.00001)
    ('−0.0100', '±0.0000')
    """
    text = figure(abs(value))
    return ("±" if float(text) == 0 else "−" if value < 0 else "+") + text


def sentence(words: str) -> str:
    """Return words as a sentence."""
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith('.') else '.'}"


def gap_words(gap: Gap) -> str:
    """Return which gap it is: the rate, the two groups, and the site if it is inside one.

    Examples
    --------
    >>> from logofair.auditing import Measured
    >>> gap_words(Gap(Measured(0.25), "selection rate", "M", "F", site="north"))
    'selection rate, M over F, at north'
    """
    if gap.value is None:
        return gap.reason or UNDEFINED
    groups = f", {name_of(gap.highest)} over {name_of(gap.lowest)}" if gap.value else ""
    return f"{gap.rate}{groups}{'' if gap.site is None else f', at {name_of(gap.site)}'}"


def small(value: float) -> str:
    """Return a small gain with two digits that matter, never in exponents.

    Examples
    --------
    >>> small(0.00213), small(0.0000456), small(3e-9), small(0)
    ('0.0021', '0.000046', '< 0.000001', '0')
    """
    if value == 0:
        return "0"
    if value < ROUNDING:
        return "< 0.000001"
    digits = max(2, 1 - math.floor(math.log10(value)))
    return f"{value:.{digits}f}"


def tolerance_of(value: Tolerance) -> str:
    """Return a tolerance, or that there is none."""
    if isinstance(value, Ratio):
        return str(value)
    return "free" if value is None or not math.isfinite(value) else f"{value:g}"


def counted(number: int, what: str) -> str:
    """Return a number of things."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
