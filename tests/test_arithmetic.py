"""Linear algebra in a fixed order agrees with LAPACK's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.arithmetic import solve
from support.examples import examples

modest = examples(60)


@modest
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 12), more=st.sampled_from([(), (1,), (5,)]))
def test_systems_are_solved(seed, size, more):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(*more, size, size + 2))
    matrix, right = root @ np.swapaxes(root, -1, -2), rng.normal(size=(*more, size))
    expected = np.linalg.solve(matrix, right[..., None])[..., 0]
    found = solve(np.moveaxis(matrix, 0, -1) if more else matrix, np.moveaxis(right, 0, -1) if more else right)
    found = np.moveaxis(found, -1, 0) if more else found
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)
