"""The order of rows: sorted once, and the same as sorting afresh wherever it is carried on."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from logofair.columns.segments import RowOrder
from support.examples import examples

modest = examples(100)
rows = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=40)


def columns(drawn):
    scores, cells = zip(*drawn, strict=True) if drawn else ((), ())
    return np.array(scores, dtype=float) / 6, np.array(cells, dtype=np.int32)


@modest
@given(rows)
def test_rows_stand_by_cell_then_score_then_as_they_came(drawn):
    scores, cells = columns(drawn)
    order = RowOrder.of(scores, cells, 4)
    assert order.rows.tolist() == np.lexsort((scores, cells)).tolist()
    assert order.cells.tolist() == sorted(cells.tolist())
    known = RowOrder.of(scores, cells, 4, np.argsort(scores, kind="stable"))
    assert known.rows.tolist() == order.rows.tolist()


@modest
@given(rows, st.lists(st.integers(-1, 3), min_size=7, max_size=7))
def test_the_order_along_other_levels_is_that_of_sorting_afresh(drawn, steps):
    """Levels rise, stay or, as by rounding, fall with the score."""
    scores, cells = columns(drawn)
    levels = np.cumsum(steps)[np.rint(6 * scores).astype(int)].astype(float)
    along = RowOrder.of(scores, cells, 4).along(levels)
    assert along.rows.tolist() == np.lexsort((levels, cells)).tolist()


def test_an_order_that_fits_is_kept():
    scores, cells = np.array([0.3, 0.1, 0.3]), np.zeros(3, dtype=np.int32)
    order = RowOrder.of(scores, cells, 1)
    assert order.along(2 * scores) is order
