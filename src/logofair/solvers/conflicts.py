"""Requirements that cannot be met together: the few that conflict, and the least by which each would have to give way.

A requirement is what a person typed: a floor of every group is one, and gives way for all of them together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from logofair.cells.cells import Cells
from logofair.errors import InfeasibleError
from logofair.requirements import Requirements, conflict_sentence
from logofair.solvers.decomposition import solve_exact
from logofair.solvers.joint import SHORT, Program, Row, Solved
from logofair.solvers.limits import Limits
from logofair.solvers.problem import make_problem

_ITERATIONS = 200
_RATIO_STEP = 1e-8  # to which an amount is found by halving


def conflict_of(requirements: Requirements, cells: Cells) -> InfeasibleError:
    """The conflict of requirements that no rule for some cells meets."""
    program = _apart(requirements, cells)
    found = _solved(program, program.items)
    if found is not None and found.short:
        few = _fewest(found.binding or program.items, lambda names: _short(program, names))
    else:  # they miss each other by less than HiGHS tells from rounding
        few = _fewest(program.items, lambda names: _proved(requirements, names, cells))
    amounts = {item: _least(program, str(item)) for item in requirements.items if str(item) in few}
    amounts = {item: None if least is None else max(least, SHORT) for item, least in amounts.items()}
    return InfeasibleError(amounts, conflict_sentence(amounts))


def _apart(requirements: Requirements, cells: Cells) -> Program:
    """A program in which every requirement has rates of its own, so that one can give way while all others hold."""
    alone = {str(item): make_problem(requirements.only([item]), cells) for item in requirements.items}
    problems = list(alone.values())
    together = replace(
        problems[0],
        local_rates=tuple(rate for each in problems for rate in each.local_rates),
        global_rates=tuple(rate for each in problems for rate in each.global_rates),
        local_limits=Limits.beside([each.local_limits for each in problems]),
        global_limits=Limits.beside([each.global_limits for each in problems]),
    )
    names = {
        "local": [name for name, each in alone.items() for _ in each.local_rates],
        "global": [name for name, each in alone.items() for _ in each.global_rates],
    }
    return Program.of(together, names)


def _solved(program: Program, names: frozenset[str]) -> Solved | None:
    """By how much some requirements, and no others, would have to give way together."""
    return program.generate(_ITERATIONS, elastic=names, held=names)


def _short(program: Program, names: frozenset[str]) -> bool:
    solved = _solved(program, names)
    return solved is not None and solved.short


def _proved(requirements: Requirements, names: frozenset[str], cells: Cells) -> bool:
    """Whether prices prove that no rule meets some requirements but for what a certificate lets pass."""
    try:
        solve_exact(make_problem(requirements.only(item for item in requirements.items if str(item) in names), cells))
    except InfeasibleError:
        return True
    return False


def _fewest(found: frozenset[str], conflict: Callable[[frozenset[str]], bool]) -> frozenset[str]:
    """Requirements that conflict, none of which could be left out, among some that do."""
    few = found
    for name in sorted(found):
        few = few - {name} if conflict(few - {name}) else few
    return few


def _least(program: Program, name: str) -> float | None:
    """How much one requirement has to give way with all others held; None where that is not enough."""
    without = _solved(program, program.items - {name})  # also finds the corners that it takes
    if without is None or without.short:
        return None
    own = [row for row in program.rows if row.item == name]
    ratios = [1.0 / row.slope for row in own if row.is_ratio]
    solved = None if ratios else program.generate(_ITERATIONS, elastic=frozenset({name}))
    if solved is not None:
        return solved.shortfall
    # A ratio is no row's end, and where chances are extreme HiGHS may fail on a single row that gives way.
    low, high = 0.0, max(ratios, default=max(2.0 / row.unit for row in own))
    while high - low > _RATIO_STEP:
        middle = 0.5 * (low + high)
        rows = [_looser(row, middle) if row.item == name else row for row in program.rows]
        found = replace(program, rows=rows).generate(_ITERATIONS, elastic=program.items)
        low, high = (low, middle) if found is not None and found.shortfall <= SHORT else (middle, high)
    return high


def _looser(row: Row, amount: float) -> Row:
    """A row of a requirement that gives way by an amount; a ratio of 0 says nothing."""
    if not row.is_ratio:
        return row.looser(amount * row.unit)
    ratio = 1.0 / row.slope - amount
    return replace(row, slope=1.0 / ratio) if ratio > 0 else replace(row, slope=1.0, high=np.inf)
