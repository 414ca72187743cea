"""The figures of the golden set are those that were recorded."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from golden.calls import figures
from golden.cases import CASES
from golden.record import RECORDED

# Solvers reach the optimum to a precision; what follows from stored rules and rows alone is exact.
NEAR_THE_OPTIMUM = {"value", "bound", "loss value", "unconstrained value", "rules", "conflict"}
KNOWN = json.loads(RECORDED.read_text())


def different(recorded: Any, found: Any, where: str = "", within: float = 1e-9) -> Iterator[str]:
    """Every place where two trees of plain values differ."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        if recorded.keys() != found.keys():
            yield f"{where}: {sorted(recorded.keys() ^ found.keys())} in one of them only"
        for name in recorded.keys() & found.keys():
            near = 1e-6 if name in NEAR_THE_OPTIMUM else within
            yield from different(recorded[name], found[name], f"{where}/{name}", near)
    elif isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        for place, (one, other) in enumerate(zip(recorded, found, strict=True)):
            yield from different(one, other, f"{where}/{place}", within)
    elif isinstance(recorded, float) and isinstance(found, float):
        if where.endswith("/violation") and recorded <= 1e-9:
            same = found <= 1e-9
        else:
            same = math.isclose(recorded, found, rel_tol=0.0, abs_tol=within)
        if not same:
            yield f"{where}: recorded {recorded!r}, found {found!r}"
    elif recorded != found:
        yield f"{where}: recorded {recorded!r}, found {found!r}"


def test_every_case_is_recorded():
    assert [case.name for case in CASES if case.name not in KNOWN] == []
    assert sorted(KNOWN) == sorted({case.name for case in CASES})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_figures_are_those_recorded(case):
    found = json.loads(json.dumps(figures(case)))
    assert list(different(KNOWN[case.name], found)) == []
