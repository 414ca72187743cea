"""The order of rows: sorted once, and the same as sorting afresh wherever it is carried on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.columns import segments
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
    assert order.in_input_order(scores[order.rows]).tolist() == scores.tolist()


@modest
@given(rows, st.integers(0, 8), st.sampled_from([1e-300, 1e-9, 1.0, 1e6]))
def test_scores_that_differ_by_less_than_a_packed_number_tells_are_still_in_order(drawn, bits, width):
    """Most of the score is left out of the number that is sorted: as with very many rows and cells."""
    scores, cells = columns(drawn)
    scores = width * (scores - 0.5) + np.tile([0.0, 1e-9 * width], scores.size)[: scores.size]
    with pytest.MonkeyPatch.context() as patch:
        real = segments._packed
        patch.setattr(segments, "_packed", lambda *columns: real(*columns[:2], bits, columns[3]))
        order = RowOrder.of(scores, cells, 4)
    assert order.rows.tolist() == np.lexsort((scores, cells)).tolist()


@modest
@given(rows, st.lists(st.integers(-1, 3), min_size=7, max_size=7))
def test_levels_that_fall_inside_a_cell_are_noticed(drawn, steps):
    """Levels rise, stay or, as by rounding, fall with the score."""
    scores, cells = columns(drawn)
    levels = np.cumsum(steps)[np.rint(6 * scores).astype(int)].astype(float)
    order = RowOrder.of(scores, cells, 4)
    ordered = levels[order.rows]
    assert order.falls(ordered) == bool(np.any((np.diff(ordered) < 0) & (np.diff(order.cells) == 0)))
    changes = (np.diff(ordered) != 0) | (np.diff(order.cells) != 0)
    assert order.changes(ordered).tolist() == changes.tolist()
