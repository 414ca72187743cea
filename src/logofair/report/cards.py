"""One client on a card: gaps, rates per group, rules, cell sizes, and what its tolerance costs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from logofair.report.facts import Facts
from logofair.report.grids import Cell, Column, few_mark, grid, limit, named, number, span, text
from logofair.report.markup import Element, Node, tag
from logofair.report.wording import counted, figure, small
from logofair.solution import FEW_ROWS

__all__ = ["card"]


def card(facts: Facts, client: int) -> Element:
    """Return a client's card.

    Examples
    --------
    >>> import logofair
    >>> from logofair.report import in_memory
    >>> from logofair.report.facts import gather
    >>> from logofair.report.provenance import Provenance
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], [1, 1, 0, 0], groups=["a", "a", "b", "b"], calibration="none")
    >>> facts = gather(solution, Provenance(in_memory("four rows", solution), "logofair fit"))
    >>> "Promise kept" in str(card(facts, 0))
    True
    """
    name, pair = facts.clients[client], facts.calibration.local
    rows = int(pair.after.tally.rows[client].sum())
    title = f"client-{client}-title"
    accuracies = [float(shares[client]) for shares in pair.accuracies]
    words = (
        f"{counted(rows, 'calibration row')}; accuracy {figure(accuracies[0])} before, {figure(accuracies[1])} after."
    )
    return tag(
        "article",
        tag("h4", tag("bdi", name), id=title),
        tag("p", words, " ", _standing(facts, client), " ", few_mark(bool(pair.few[:, client].any()))),
        _gaps(facts, client),
        _groups(facts, client),
        [tag("p", sentence, class_="note") for sentence in _prices(facts, client)],
        id=f"client-{client}",
        class_="card",
        tabindex="-1",
        aria_labelledby=title,
    )


def _standing(facts: Facts, client: int) -> Element:
    """How the client's own promise stands, in its basis."""
    bound, measured = facts.inside.bound[:, client], facts.inside.measured[:, client]
    excess = facts.inside.gap[:, client] - facts.inside.tolerance[:, client]
    if not bound.any():
        words, state = "Nothing promised inside this client", "nothing"
    elif not measured.any():
        words, state = "Promise cannot be measured here: fewer than two groups", "unmeasured"
    elif (excess[measured] > facts.solution.certificate.precision).any():
        words, state = "Promise not kept", "broken"
    elif not measured[bound].all():
        words, state = "Kept where it can be measured", "partly"
    else:
        words, state = "Promise kept", "kept"
    return tag("span", words, class_=f"badge {state}")


def _gaps(facts: Facts, client: int) -> Element:
    """Gap of every rate before and after."""
    pair = facts.calibration.local
    low, high = pair.interval
    columns = [Column("gap of the"), *(Column(n, numeric=True) for n in ("before", "after", "by chance", "tolerance"))]
    rows = [
        [
            named(rate.name),
            number(float(pair.before.gaps[k, client])),
            number(float(pair.after.gaps[k, client])),
            span(float(low[k, client]), float(high[k, client])),
            limit(float(pair.tolerance[k, client])),
        ]
        for k, rate in enumerate(pair.rates)
    ]
    return grid("Gaps here", columns, rows)


def _groups(facts: Facts, client: int) -> Element:
    """Each group's rows, rates and rule."""
    pair = facts.calibration.local
    columns = [Column("group"), Column("rows", numeric=True), Column("label 1", numeric=True)]
    columns += [Column(f"{rate.name}, before and after") for rate in pair.rates]
    columns += [Column("rule")]
    return grid("Groups here", columns, list(_group_rows(facts, client)))


def _group_rows(facts: Facts, client: int) -> Iterator[list[Cell]]:
    pair, rules = facts.calibration.local, facts.solution.policy.rules
    for group, name in enumerate(facts.groups):
        rows, positive = pair.after.tally.rows[client, group].sum(), pair.after.tally.rows[client, group, 1]
        bars = [
            _bars(float(pair.before.values[k, client, group]), float(pair.after.values[k, client, group]))
            for k in range(len(pair.rates))
        ]
        rule = rules[client * len(facts.groups) + group].rule
        yield [
            named(name),
            number(int(rows), after=few_mark(bool(rows < FEW_ROWS))),
            number(int(positive)),
            *bars,
            text(rule, mark="rule"),
        ]


def _bars(before: float, after: float) -> Cell:
    """A rate before and after as two bars with their numbers."""
    parts: list[Node] = []
    for value, kind in ((before, "was"), (after, "is")):
        width = 0.0 if np.isnan(value) else 100.0 * min(max(value, 0.0), 1.0)
        bar = tag("span", class_=f"bar {kind}", style=f"width:{width:.1f}%")
        parts.append(tag("span", tag("span", bar, class_="track"), figure(value, 3), class_="rate"))
    return Cell(tuple(parts), "rates")


def _prices(facts: Facts, client: int) -> Iterator[str]:
    for k, rate in enumerate(facts.inside.rates):
        price = 0.01 * float(facts.inside.price[k, client])
        if price >= 1e-6:
            won = f"at most {small(price)} accuracy over all rows"
            yield f"0.01 more tolerance for the {rate.name} here would win {won}."
