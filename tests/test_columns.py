"""Columns of a Gram matrix: those of the matrix, whatever is kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from thresher import RBF, Polynomial
from thresher.kernels.columns import Columns
from thresher.kernels.gram import gram

X = np.random.default_rng(0).normal(size=(40, 3))
KERNEL = RBF(0.3)
FULL = gram(KERNEL, X)


@given(
    asked=st.lists(st.lists(st.integers(0, 39), min_size=1, max_size=8), max_size=12),
    slots=st.integers(0, 50),
)
def test_columns_are_those_of_the_matrix(asked, slots):
    columns = Columns(KERNEL, X, memory=4 * 40 * slots)
    for rows in asked:
        got = columns.take(np.array(rows))
        np.testing.assert_allclose(got, FULL[rows], rtol=1e-6, atol=1e-7)
    assert columns.computed <= sum(len(set(rows)) for rows in asked)


def test_the_column_that_was_not_asked_for_the_longest_makes_room():
    columns = Columns(KERNEL, X, memory=4 * 40 * 3)
    for i in (0, 1, 2, 0, 3):  # 1 is the oldest then
        columns.take(np.array([i]))
    assert columns.computed == 4
    columns.take(np.array([0, 2, 3]))
    assert columns.computed == 4
    columns.take(np.array([1]))
    assert columns.computed == 5


@pytest.mark.parametrize("kernel", [KERNEL, Polynomial(2)])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix])
def test_layouts_and_the_diagonal(kernel, storage):
    columns = Columns(kernel, storage(X))
    full = gram(kernel, X)
    np.testing.assert_allclose(columns.take(np.arange(40)), full, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(columns.diagonal, np.diag(full), rtol=1e-12)
