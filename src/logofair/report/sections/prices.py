"""What each promise costs: the accuracy a little more tolerance would win at most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from logofair.report.facts import ReportData
from logofair.report.markup import Element, Node, Section, note, paragraph, tag
from logofair.report.wording import counted, small

__all__ = ["Price", "prices_section"]


_MOST = 12
_STEP = 0.01
_NOTHING = 1e-6  # what accuracy is proved to


@dataclass(frozen=True)
class Price:
    """What 0.01 more of one tolerance wins at most; ``place`` is None for all clients together.

    Examples
    --------
    >>> Price(0.0021, "selection rate", None).place is None
    True
    """

    won: float
    rate: str
    place: str | None


def prices_section(facts: ReportData) -> Section:
    """Return the dearest promises in words, with bars to compare them.

    Examples
    --------
    >>> import logofair
    >>> from logofair.report import in_memory
    >>> from logofair.report.facts import gather
    >>> from logofair.report.facts import Provenance
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], [1, 1, 0, 0], groups=["a", "a", "b", "b"], calibration="none")
    >>> facts = gather(solution, Provenance(in_memory("four rows", solution), "logofair fit"))
    >>> prices_section(facts).title
    'What each promise costs'
    """
    found = sorted(_prices(facts), key=lambda price: -price.won)
    binding = [price for price in found if price.won > _NOTHING]
    if not binding:
        words = "No promise costs accuracy here: a little more tolerance would win nothing on the calibration rows."
        return Section("prices", "What each promise costs", (paragraph(words if found else "Nothing was promised."),))
    left_out = len(binding) - _MOST
    unseen = f"{counted(left_out, 'cheaper requirements')} not shown; the table of clients has them."
    more = note(unseen) if left_out > 0 else None
    free = len(found) - len(binding)
    idle = f" {counted(free, 'requirements')} cost{'s' if free == 1 else ''} nothing." if free else ""
    return Section(
        "prices",
        "What each promise costs",
        (
            paragraph(
                f"Every tolerance has a price: the accuracy over all rows that {_STEP:g} more of it would win at "
                f"most. Dearest first.{idle}"
            ),
            *_together(facts),
            tag("ul", [_item(price, facts, binding[0].won) for price in binding[:_MOST]], class_="prices"),
            more,
        ),
    )


def _prices(facts: ReportData) -> Iterator[Price]:
    """The price of every promised gap."""
    for k, rate in enumerate(facts.across.rates):
        if facts.across.bound[k, 0]:
            yield Price(_STEP * float(facts.across.price[k, 0]), rate.name, None)
    for k, rate in enumerate(facts.inside.rates):
        for client in np.flatnonzero(facts.inside.bound[k]).tolist():
            yield Price(_STEP * float(facts.inside.price[k, client]), rate.name, facts.clients[client])


def _together(facts: ReportData) -> Iterator[Element]:
    """What more tolerance at all clients at once wins: no more than the sum of their prices."""
    for k, rate in enumerate(facts.inside.rates):
        total = _STEP * float(facts.inside.price[k, facts.inside.bound[k]].sum())
        if facts.has_clients and facts.inside.bound[k].sum() > 1 and total > _NOTHING:
            of = f" for the {rate.name}" if len(facts.inside.rates) > 1 else ""
            words = f"{_STEP:g} more local tolerance{of} at all clients at once would win at most "
            yield paragraph(words, tag("strong", f"{small(total)} accuracy"), _in_decisions(total))


def _in_decisions(won: float) -> str:
    """A gain in decisions, where there is one to speak of."""
    count = 10_000 * won
    return f": {count:,.0f} more right decisions in 10,000." if count >= 1.5 else "."


def _item(price: Price, facts: ReportData, dearest: float) -> Element:
    """One promise's price as a sentence and a bar."""
    several = len({rate.name for rate in (*facts.inside.rates, *facts.across.rates)}) > 1
    side = "" if not facts.has_clients else "global " if price.place is None else "local "
    of = f" for the {price.rate}" if several else ""
    where: list[Node] = [] if price.place is None or not facts.has_clients else [" at ", tag("bdi", price.place)]
    bar = tag("span", class_="bar is", style=f"width:{100.0 * price.won / dearest:.1f}%")
    amount = tag("strong", f"{small(price.won)} accuracy")
    sentence = tag(
        "span", f"{_STEP:g} more {side}tolerance{of}", where, " would win at most ", amount, _in_decisions(price.won)
    )
    return tag("li", sentence, tag("span", bar, class_="track", aria_hidden="true"))
