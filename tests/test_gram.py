"""Kernel matrices in blocks against scikit-learn's and against the formula."""

import sys
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise

from thresher.kernels import RBF, Cosine, Exponential, Kernel, Linear, Polynomial, Sigmoid
from thresher.kernels.gram import blocks, self_values
from thresher.kernels.width import resolve_kernel
from thresher.maps import Points, gram, median_gamma

RNG = np.random.default_rng(0)
X = RNG.normal(size=(70, 9)) * (RNG.uniform(size=(70, 9)) < 0.6)
Z = RNG.normal(size=(23, 9)) * (RNG.uniform(size=(23, 9)) < 0.6)
PEERS = {
    "rbf": (RBF(0.3), lambda A, B: pairwise.rbf_kernel(A, B, 0.3)),
    "exponential": (
        Exponential(0.4), lambda A, B: np.exp(-0.4 * pairwise.euclidean_distances(A, B))
    ),
    "polynomial": (
        Polynomial(3, 0.2, 0.7), lambda A, B: pairwise.polynomial_kernel(A, B, 3, 0.2, 0.7)
    ),
    "linear": (Linear(), pairwise.linear_kernel),
    "sigmoid": (Sigmoid(0.2, 0.1), lambda A, B: pairwise.sigmoid_kernel(A, B, 0.2, 0.1)),
    "cosine": (Cosine(), pairwise.cosine_similarity),
}  # fmt: skip


def laid_out(A, layout):
    return A if layout == "dense" else sparse.csr_array(A)


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rows", ["dense", "csr"])
@pytest.mark.parametrize("points", ["dense", "csr"])
def test_against_scikit_learn(name, dtype, rows, points):
    kernel, peer = PEERS[name]
    K = gram(kernel, laid_out(X.astype(dtype), rows), laid_out(Z.astype(dtype), points))
    assert K.dtype == dtype
    tol = 1e-12 if dtype == np.float64 else 2e-5
    np.testing.assert_allclose(K, peer(X, Z), rtol=tol, atol=tol)


def test_own_kernel_at_native_speed():
    @dataclass(frozen=True)
    class Cauchy(Kernel):
        gamma: float = 1.0

        def of(self, inner, sq_x, sq_z):
            return 1.0 / (1.0 + self.gamma * (sq_x + sq_z - 2.0 * inner))

    wanted = 1.0 / (1.0 + 0.5 * pairwise.euclidean_distances(X, Z, squared=True))
    np.testing.assert_allclose(gram(Cauchy(0.5), X, Z), wanted, rtol=1e-10)


@given(st.integers(1, 40), st.integers(1, 30), st.integers(1, 6), st.integers(0, 10**6))
def test_any_shape(n, m, d, seed):
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    np.testing.assert_allclose(gram(RBF(0.5), A, B), pairwise.rbf_kernel(A, B, 0.5), atol=1e-9)


def test_blocks_cover_the_rows_once():
    parts = list(blocks(1000, 7, elements=700, least=3))
    assert np.array_equal(np.concatenate([np.arange(1000)[p] for p in parts]), np.arange(1000))
    assert max(p.stop - p.start for p in parts) == 100


def test_many_blocks_and_slices_of_points_change_nothing(monkeypatch):
    whole = gram(RBF(0.3), sparse.csr_array(X), Z)
    monkeypatch.setattr(sys.modules["thresher.kernels.gram"], "_WIDE", 20)
    np.testing.assert_array_equal(gram(RBF(0.3), sparse.csr_array(X), Z), whole)
    points = Points(RBF(0.3), Z)
    pieces = np.concatenate([points(X[a : a + 13]) for a in range(0, 70, 13)])
    np.testing.assert_allclose(pieces, points(X), rtol=1e-13)


def test_tiny_values_are_exact_zeros():
    K = gram(RBF(1.0), np.arange(40.0, dtype=np.float32)[:, None])
    assert np.all((K == 0.0) | (K > 0.9e-9))
    assert np.array_equal(np.diag(K), np.ones(40))


def test_far_from_the_origin_in_single_precision():
    far = (X + 1000.0).astype(np.float32)
    wanted = pairwise.rbf_kernel(far.astype(np.float64), gamma=0.3)
    np.testing.assert_allclose(gram(RBF(0.3), far), wanted, atol=1e-4)


def test_self_values_and_result_in_place():
    K = np.empty((70, 70))
    assert gram(Polynomial(2), X, out=K) is K
    np.testing.assert_allclose(self_values(Polynomial(2), X), np.diag(K), rtol=1e-12)


def test_repeated_entries_of_sparse_rows_are_added():
    A = sparse.csr_array((np.array([1.0, 2.0]), np.array([0, 0]), np.array([0, 2])), shape=(1, 9))
    np.testing.assert_allclose(gram(Linear(), A, Z)[0], 3.0 * Z[:, 0])


@pytest.mark.parametrize("density", [0.0, 0.02, 0.6])
def test_sparse_points_by_column_or_all_together(density):
    A, B = (sparse.random_array((n, 300), density=density, rng=n, format="csr") for n in (50, 20))
    np.testing.assert_allclose(gram(Linear(), A, B), (A @ B.T).toarray(), atol=1e-12)
    points = Points(Linear(), B)
    pieces = np.concatenate([points(A[a : a + 13]) for a in range(0, 50, 13)])
    np.testing.assert_array_equal(pieces, points(A))  # whatever rows come together


def test_other_number_of_features():
    with pytest.raises(ValueError, match="rows have 8 features, but the points 9"):
        gram(RBF(), X[:, :8], Z)


# ---------------------------------------------------------------- widths


def test_median_width():
    distances = pairwise.euclidean_distances(X, squared=True)[np.triu_indices(70, 1)]
    assert median_gamma(RBF(), X) == pytest.approx(1.0 / np.median(distances))
    assert median_gamma(RBF(), sparse.csr_array(X)) == pytest.approx(1.0 / np.median(distances))
    assert median_gamma(Exponential(), X) == pytest.approx(np.median(distances) ** -0.5)
    assert median_gamma(Polynomial(), X) == pytest.approx(1.0 / (X**2).sum(axis=1).mean())


def test_width_of_equal_rows_and_of_one_row():
    assert median_gamma(RBF(), np.ones((5, 3))) == 1.0
    assert median_gamma(RBF(), np.ones((1, 3))) == 1.0
    # repeated rows do not pull the width to zero
    repeated = np.concatenate([np.zeros((50, 1)), np.full((3, 1), 2.0)])
    assert median_gamma(RBF(), repeated) == pytest.approx(0.25)


def test_resolving_a_kernel():
    assert resolve_kernel("rbf", 0.7, X) == RBF(0.7)
    assert resolve_kernel(RBF(0.2), None, X) == RBF(0.2)
    assert resolve_kernel(RBF(0.2), "median", X) == resolve_kernel("rbf", None, X)
    assert resolve_kernel("linear", None, X) == Linear()
    with pytest.raises(ValueError, match="kernel='gauss' is unknown"):
        resolve_kernel("gauss", None, X)
    with pytest.raises(ValueError, match="has no gamma; these have: rbf"):
        resolve_kernel("linear", 0.5, X)
    for bad in (0.0, -1.0, float("nan"), "scale"):
        with pytest.raises(ValueError, match="gamma must be"):
            resolve_kernel("rbf", bad, X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_wide_rows_come_in_blocks(dtype):
    """700 rows of 5,000 columns are more than one block of the caches."""
    rng = np.random.default_rng(0)
    X, Z = (0.02 * rng.normal(size=(n, 5000)).astype(dtype) for n in (700, 30))
    whole = Points(RBF(0.7), Z)(X)
    np.testing.assert_allclose(whole, Points(RBF(0.7), Z)(X[::-1])[::-1], rtol=1e-5)
    exact = np.exp(-0.7 * cdist(X.astype(float), Z.astype(float), "sqeuclidean"))
    np.testing.assert_allclose(whole, exact, rtol=1e-4 if dtype == np.float32 else 1e-11)
