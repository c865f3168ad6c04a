import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numba import njit
from scipy import sparse

from thresher._rows import CSR, Dense, ScaledCSR, ScaledDense, as_rows, scaled
from thresher.estimators.input import to_rows

MATRICES = npst.arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 7)),
    elements=st.sampled_from([0.0, 0.0, 0.0, 1.0, -2.5, 3.25, 1e-3, 40.0]),
)


@njit
def visit(rows, w, W, dots, added, sqnorms, many, built):
    """Every primitive on every row, compiled."""
    for i in range(dots.size):
        dots[i] = rows.dot(i, w)
        sqnorms[i] = rows.sqnorm(i)
        rows.add(i, 0.5 + i, added)
        rows.dots(i, W, many[i])
        for k in range(rows.start(i), rows.stop(i)):
            built[i, rows.column(i, k)] += rows.element(i, k)


def check_primitives(rows, X, tol=1e-12):
    """All primitives of ``rows`` against the explicit matrix X."""
    n, d = X.shape
    rng = np.random.default_rng(0)
    dtype = rows.dtype
    w, W = (rng.normal(size=s).astype(dtype) for s in (d, (d, 3)))
    out = [np.zeros(s, dtype=dtype) for s in (n, d, n, (n, 3), (n, d))]
    visit(rows, w, W, *out)
    X = X.astype(np.float64)
    wanted = [
        X @ w,
        X.T @ (0.5 + np.arange(n)),
        (X * X).sum(axis=1),
        X @ W,
        X,
    ]
    assert rows.shape == (n, d)
    for got, value in zip(out, wanted, strict=True):
        np.testing.assert_allclose(got, value, rtol=tol, atol=tol * (1 + np.abs(X).max() ** 2))


@given(X=MATRICES)
def test_dense_rows_are_the_matrix(X):
    check_primitives(as_rows(X), X)


@given(X=MATRICES)
def test_sparse_rows_are_the_matrix(X):
    check_primitives(as_rows(sparse.csr_array(X)), X)


@given(X=MATRICES)
def test_scaled_rows_are_the_matrix_in_other_units(X):
    shift, scale = np.linspace(-1, 2, X.shape[1]), np.linspace(0.5, 3, X.shape[1])
    check_primitives(scaled(as_rows(X), shift, scale), (X - shift) * scale)
    check_primitives(scaled(as_rows(X), None, scale), X * scale)
    check_primitives(scaled(as_rows(sparse.csr_array(X)), None, scale), X * scale)


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_containers_and_types(container, index, dtype):
    X = sparse.random_array((9, 7), density=0.4, rng=np.random.default_rng(1)).toarray()
    S = container(X.astype(dtype))
    S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
    rows = as_rows(S)
    assert rows.dtype == dtype
    check_primitives(rows, X, tol=1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_memory_orders(dtype):
    base = np.random.default_rng(2).normal(size=(12, 10)).astype(dtype)
    tol = 1e-5 if dtype == np.float32 else 1e-12
    views = (base, np.asfortranarray(base), base[::2, ::3], base.T, base[:, ::-1])
    for X in views:
        check_primitives(as_rows(X), X, tol)


def test_c_order_and_csr_are_used_in_place():
    X = np.ones((3, 2))
    assert np.shares_memory(as_rows(X).X, X)
    S = sparse.csr_array(X)
    assert np.shares_memory(as_rows(S).data, S.data)
    assert np.shares_memory(as_rows(S).indices, S.indices)


def test_read_only_arrays_share_the_type_of_writable_ones():
    """Memory-mapped data must not compile a second copy of every solver."""
    X = np.ones((3, 2))
    frozen = X.copy()
    frozen.setflags(write=False)
    assert Dense(X)._numba_type_ == Dense(frozen)._numba_type_
    check_primitives(as_rows(frozen), frozen)


def test_estimators_add_up_duplicate_entries_before_rows_are_made():
    S = sparse.csr_array(
        (np.array([1.0, 2.0, 5.0, -1.0]), np.array([1, 1, 0, 1]), np.array([0, 2, 4])),
        shape=(2, 3),
    )
    before = S.data.copy()
    check_primitives(to_rows(S), S.toarray())
    np.testing.assert_array_equal(S.data, before)  # the caller's matrix is left alone


def test_unsorted_columns_and_empty_rows():
    S = sparse.csr_array(
        (np.array([3.0, 1.0, 2.0]), np.array([2, 0, 1]), np.array([0, 2, 2, 3])), shape=(3, 3)
    )
    check_primitives(as_rows(S), S.toarray())


def test_scaling_twice_multiplies_the_scales():
    X = np.random.default_rng(3).normal(size=(4, 3))
    a, b, shift = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.1, 4.0]), np.array([1.0, 0.0, -1.0])
    check_primitives(scaled(scaled(as_rows(X), shift, a), None, b), (X - shift) * a * b)
    S = sparse.csr_array(X)
    check_primitives(scaled(scaled(as_rows(S), None, a), None, b), X * a * b)


def test_a_shift_is_refused_where_it_would_fill_in_zeros_or_be_ambiguous():
    X, one = np.eye(3), np.ones(3)
    with pytest.raises(ValueError, match="fill in"):
        scaled(as_rows(sparse.csr_array(X)), one, one)
    with pytest.raises(ValueError, match="scaled already"):
        scaled(scaled(as_rows(X), one, one), one, one)


@pytest.mark.parametrize(
    ("make", "cls"),
    [
        (lambda X, s: as_rows(X), Dense),
        (lambda X, s: as_rows(sparse.csr_array(X)), CSR),
        (lambda X, s: scaled(as_rows(X), s, s), ScaledDense),
        (lambda X, s: scaled(as_rows(sparse.csr_array(X)), None, s), ScaledCSR),
    ],
)
def test_compiled_equals_interpreted(make, cls):
    X = np.random.default_rng(4).normal(size=(5, 4)) * (np.arange(4) != 1)
    rows = make(X, np.array([1.0, 2.0, 0.5, 3.0]))
    assert type(rows) is cls
    args = (np.arange(4.0), np.arange(12.0).reshape(4, 3))
    results = []
    for kernel in (visit, getattr(visit, "py_func", visit)):
        out = [np.zeros(s) for s in (5, 4, 5, (5, 3), (5, 4))]
        kernel(rows, *args, *out)
        results.append(out)
    for compiled, interpreted in zip(*results, strict=True):
        np.testing.assert_allclose(compiled, interpreted, rtol=1e-13, atol=1e-13)
