"""Linear algebra in a fixed order agrees with LAPACK's, and no order of addition changes a bit of a product."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.arithmetic import principal_axes, product, solve
from support.examples import examples

modest = examples(60)


@modest
@given(seed=st.integers(0, 2**32 - 1), inner=st.integers(0, 300))
def test_a_product_is_numpys_and_the_same_in_any_order(seed, inner):
    rng = np.random.default_rng(seed)
    size = 10.0 ** rng.integers(-8, 8, inner)
    one, other = rng.normal(size=(3, inner)) * size, rng.normal(size=(inner, 4)) / size[:, None]
    found = product(one, other)
    largest = np.abs(one).max(axis=1, initial=0.0)[:, None] * np.abs(other).max(axis=0, initial=0.0)
    assert np.all(np.abs(found - one @ other) <= 1e-10 * inner * largest)
    order = rng.permutation(inner)
    assert product(one[:, order], other[order]).tobytes() == found.tobytes()
    assert product(one[:, order[::-1]], other[order[::-1]]).tobytes() == found.tobytes()


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


@modest
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 12), twice=st.booleans())
def test_principal_axes_are_those_of_lapack(seed, size, twice):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(size, size)) * 10.0 ** rng.integers(-3, 4)
    matrix = matrix + matrix.T
    if twice:  # eigenvalues that are equal
        axes = np.linalg.qr(matrix)[0]
        matrix = (axes * np.where(np.arange(size) < size / 2, 1.0, 3.0)) @ axes.T
        matrix = 0.5 * (matrix + matrix.T)
    sizes, axes = principal_axes(matrix)
    scale = np.abs(matrix).max()
    assert sizes == pytest.approx(np.linalg.eigvalsh(matrix), abs=1e-13 * size * scale)
    assert axes.T @ axes == pytest.approx(np.eye(size), abs=1e-12)
    assert (axes * sizes) @ axes.T == pytest.approx(matrix, abs=1e-12 * size * scale)
