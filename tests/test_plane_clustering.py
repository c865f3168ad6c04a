"""Plane clustering against SciPy's eigenvectors and plain NumPy, and its promises."""

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import eigh
from scipy.optimize import minimize

from thresher import PlaneClustering, Status
from thresher._rows import as_rows
from thresher.losses import LeastSquares
from thresher.penalties import L1
from thresher.solvers import Problem, driver
from thresher.solvers.proximal_planes import ProximalPlanes

RNG = np.random.default_rng(0)


def flats(n=600, noise=0.02, seed=0):
    """Rows on three planes in space."""
    rng = np.random.default_rng(seed)
    normals = np.array([[1.0, 0.2, 0.0], [0.0, 1.0, -0.4], [0.5, 0.5, 1.0]])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    X, labels = rng.normal(size=(n, 3)) * 3.0, rng.integers(0, 3, n)
    away = np.einsum("ij,ij->i", X, normals[labels]) - np.array([1.0, -2.0, 0.5])[labels]
    return X - away[:, None] * normals[labels] + noise * rng.normal(size=(n, 3)), labels


def problem_of(X, k):
    return Problem(
        LeastSquares(), L1(0.0), X.shape[1], dtype=X.dtype, tol=1e-9, outputs=k, targets="none"
    )


def chunk_of(X, weight=None):
    return driver.whole(as_rows(X), np.zeros(X.shape[0]), weight)


def test_a_plane_is_the_smallest_eigenvector():
    X = RNG.normal(size=(200, 4)) @ RNG.normal(size=(4, 4)) + 5.0
    model = PlaneClustering(1, random_state=0).fit(X)
    values, vectors = eigh(np.cov(X.T, bias=True))
    normal = vectors[:, 0] * np.sign(vectors[:, 0] @ model.coef_[0])
    assert np.allclose(model.coef_[0], normal)
    assert model.intercept_[0] == pytest.approx(-model.coef_[0] @ X.mean(axis=0))
    assert model.inertia_ == pytest.approx(200 * values[0])


def test_repulsion_minimises_its_objective():
    X, labels = flats(300, noise=0.5)
    weight = RNG.uniform(0.5, 2.0, 300)
    c = 0.3
    solver, problem, chunk = ProximalPlanes(c), problem_of(X, 3), chunk_of(X, weight)
    state = solver.init(problem, chunk)
    from thresher.solvers._nearest import see
    from thresher.solvers.proximal_planes import _added

    filled = _added(state, see(chunk, state.shift, False), labels, np.zeros(300))
    found = solver.finish(problem, filled)
    for cluster in range(3):
        own = labels == cluster
        mean = np.average(X[own], axis=0, weights=weight[own])

        def cost(w, own=own, mean=mean):
            w = w / np.linalg.norm(w)
            away = ((X - mean) @ w) ** 2
            inside = np.average(away[own], weights=weight[own])
            return inside - c * np.average(away[~own], weights=weight[~own])

        starts = RNG.normal(size=(8, 3))
        best = min(minimize(cost, start).fun for start in starts)
        assert cost(found.coef[cluster]) == pytest.approx(best, abs=1e-6)


def test_planes_are_found():
    X, labels = flats()
    model = PlaneClustering(3, n_init=20, random_state=0).fit(X)
    assert model.status_ is Status.CONVERGED
    assert model.inertia_ / 600 < 0.02**2
    from sklearn.metrics import adjusted_rand_score

    assert adjusted_rand_score(labels, model.labels_) > 0.9
    assert np.array_equal(model.predict(X), model.labels_)
    assert model.score(X) == pytest.approx(-model.inertia_)
    assert np.allclose(model.transform(X), np.abs(X @ model.coef_.T + model.intercept_))


def test_sparse_rows_scaling_and_weights():
    X, _ = flats(400, noise=0.3)
    dense = PlaneClustering(3, random_state=0).fit(X)
    again = PlaneClustering(3, random_state=0).fit(sparse.csr_array(X))
    assert np.array_equal(dense.labels_, again.labels_)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    scaled = PlaneClustering(3, scale=True, random_state=0).fit(X)
    plain = PlaneClustering(3, random_state=0).fit(Z)
    assert np.array_equal(scaled.labels_, plain.labels_)
    assert scaled.inertia_ == pytest.approx(plain.inertia_)
    assert np.allclose(scaled.transform(X), plain.transform(Z))


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_map_and_reduce_is_the_pass_over_all_rows(shards):
    X, _ = flats(500, noise=0.3)
    problem, chunk, solver = problem_of(X, 3), chunk_of(X), ProximalPlanes(0.1)
    single = base = solver.init(problem, chunk)
    for done in range(4):
        single = solver.update(problem, solver.between(problem, single, None, done, None), chunk)
        base = solver.between(problem, base, None, done, None)
        parts = [part.astype(np.uint32) for part in np.array_split(np.arange(500), shards)]
        states = [
            solver.update(problem, solver.copy(base), chunk._replace(order=part)) for part in parts
        ]
        base = solver.merge(problem, states, base, [float(part.size) for part in parts])
        assert np.allclose(base.moments, single.moments)
    solver.check_state(problem, base)
    ends = [solver.finish(problem, state) for state in (single, base)]
    assert np.allclose(ends[0].coef, ends[1].coef)


def test_options_are_checked_by_name():
    X, _ = flats(50)
    wrong = {"n_clusters": 0, "repulsion": -1.0, "init": "refined", "n_init": 0, "max_iter": 0,
             "tol": -1.0}  # fmt: skip
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=name):
            PlaneClustering(**{name: value}).fit(X)
    with pytest.raises(ValueError, match="should be at least n_clusters=3"):
        PlaneClustering(3).fit(X[:2])
