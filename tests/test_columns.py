"""Columns of a Gram matrix: those of the matrix, whatever is kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from thresher import RBF, Polynomial
from thresher.kernels.column_cache import ColumnCache
from thresher.kernels.columns import (
    GramColumns,
    KernelColumns,
    WeightedColumns,
    fitting_precision,
    take,
)
from thresher.kernels.gram import gram

X = np.random.default_rng(0).normal(size=(40, 3))
KERNEL = RBF(0.3)
FULL = gram(KERNEL, X)


@given(
    asked=st.lists(st.lists(st.integers(0, 39), min_size=1, max_size=8, unique=True), max_size=12),
    room=st.integers(8, 50),
)
def test_columns_are_those_of_the_matrix(asked, room):
    with ColumnCache(KernelColumns(KERNEL, X), memory=4 * 40 * room) as cache:
        for rows in asked:
            got = cache.table[cache.places(np.array(rows))]
            np.testing.assert_allclose(got, FULL[rows], rtol=2e-6, atol=1e-7)
        assert cache.computed + cache.found == sum(map(len, asked))


def test_the_column_that_was_not_asked_for_the_longest_makes_room():
    with ColumnCache(KernelColumns(KERNEL, X), memory=4 * 40 * 3) as cache:
        for i in (0, 1, 2, 0, 3):  # 1 is the oldest then
            cache.places(np.array([i]))
        assert cache.computed == 4
        cache.places(np.array([0, 2, 3]))
        assert cache.computed == 4
        cache.places(np.array([1]))
        assert cache.computed == 5


def test_memory_for_less_than_a_column_is_refused_with_the_number():
    with pytest.raises(ValueError, match=r"cannot hold one kernel column of 40 rows.*least 160"):
        ColumnCache(KernelColumns(KERNEL, X), memory=100)


def test_a_column_that_failed_is_not_found_again():
    class Failing(GramColumns):
        fails = True

        def fill(self, *args):
            if self.fails:
                raise KeyboardInterrupt
            super().fill(*args)

    source = Failing(FULL)
    with ColumnCache(source, memory=1e5) as cache:
        with pytest.raises(KeyboardInterrupt):
            cache.places(np.array([5]))
        source.fails = False
        np.testing.assert_allclose(cache.table[cache.places(np.array([5]))[0]], FULL[5], rtol=1e-6)


@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", [KERNEL, Polynomial(2)])
@pytest.mark.parametrize("density", [None, 1.0, 0.05])
def test_layouts_blocks_and_the_diagonal(kernel, density, precision):
    rows = X
    if density is not None:
        rows = sparse.random(40, 30, density, "csr", random_state=0, dtype=np.float64)
    columns = KernelColumns(kernel, rows, precision)
    full = gram(kernel, rows)
    np.testing.assert_allclose(take(columns, np.arange(40)), full, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(columns.diagonal, np.diag(full), rtol=1e-12)
    some, others = np.array([3, 1, 39]), np.array([0, 39, 7, 8])
    out = np.empty((5, 6), np.float32)
    columns.block(some, others, out)
    np.testing.assert_allclose(out[:3, :4], full[np.ix_(some, others)], rtol=1e-5, atol=1e-6)


def test_threads_fill_the_same_table():
    rows = np.random.default_rng(1).normal(size=(5000, 4))
    wanted = np.array([4, 4999, 17])
    tables = []
    for threads in (1, 2):
        with ColumnCache(KernelColumns(KERNEL, rows), 1e7, threads) as cache:
            tables.append(cache.table[cache.places(wanted)].copy())
    np.testing.assert_allclose(*tables, rtol=1e-6)


def test_a_weighted_sum_of_sources():
    both = WeightedColumns([KernelColumns(KERNEL, X), GramColumns(X @ X.T)], [0.5, 2.0])
    full = 0.5 * FULL + 2.0 * X @ X.T
    np.testing.assert_allclose(take(both, np.arange(40)), full, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(both.diagonal, np.diag(full))
    out = np.empty((2, 3), np.float32)
    both.block(np.array([1, 2]), np.array([0, 5, 9]), out)
    np.testing.assert_allclose(out, full[np.ix_([1, 2], [0, 5, 9])], rtol=1e-5, atol=1e-5)


def test_double_precision_where_distances_are_large_beside_the_tolerance():
    assert fitting_precision(RBF(0.1), X, 1.0, 1e-3) == np.float32
    assert fitting_precision(RBF(0.1), 1e4 * X, 100.0, 1e-3) == np.float64
    assert fitting_precision(Polynomial(2), 1e4 * X, 100.0, 1e-3) == np.float32
