"""ASSET against a batch optimum and a literal transcription; direct least squares against KKT."""

import math

import numpy as np
import pytest

from conftest import chunk_of, feed, make_data, visits
from thresher.losses import Hinge, LeastSquares, Logistic
from thresher.penalties import L2, WeightedL2
from thresher.solvers import DualDescent, Problem, driver
from thresher.solvers.asset import ASSET
from thresher.solvers.least_squares import DirectLeastSquares
from thresher.testing import check_solver

X, Y = make_data(n=150, d=8)
CHUNK = chunk_of(X, Y)
ORDER = visits(150, passes=4)


def asset_reference(lam, first, box, start, star):
    """Algorithm 3 of Lee's thesis, line by line."""
    w, b, mean, total = np.zeros(8), 0.0, np.zeros(9), 0.0
    for t, i in enumerate(ORDER, start=1):
        eta = 1 / (lam * t) if star else first / math.sqrt(t)
        slope = -Y[i] if Y[i] * (w @ X[i] + b) < 1 else 0.0
        w = (1 - eta * lam) * w - eta * slope * X[i]
        w *= min(1.0, 1 / (math.sqrt(lam) * max(np.linalg.norm(w), 1e-300)))
        if not star:
            b = np.clip(b - eta * slope, -box, box)
        if t >= start:
            mean = (total * mean + eta * np.append(w, b)) / (total + eta)
            total += eta
    return mean[:-1], mean[-1]


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("star", [False, True])
@pytest.mark.parametrize("start", [1, 300])
def test_asset_is_the_published_algorithm(star, start, layout):
    solver = ASSET(star=star, box=0.4, start=start, first=0.7)
    problem = Problem(Hinge(), L2(0.05), 8, fit_intercept=not star)
    chunk = chunk_of(X, Y, layout)
    got = feed(solver, problem, chunk, ORDER)
    wanted = asset_reference(0.05, 0.7, 0.4, start, star)
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-9, atol=1e-11)
    assert got[1] == pytest.approx(wanted[1], abs=1e-11)
    # where the stream is cut does not matter
    cut = feed(solver, problem, chunk, ORDER[:77], ORDER[77:])
    np.testing.assert_allclose(cut[0], got[0], rtol=1e-12)


@pytest.mark.parametrize("star", [False, True])
@pytest.mark.parametrize("theta", [None, 0.1])
def test_asset_reaches_the_batch_optimum(star, theta):
    problem = Problem(Hinge(), L2(0.05), 8, fit_intercept=not star)
    best = driver.learn(
        DualDescent(intercept_scaling=100.0),
        Problem(Hinge(), L2(0.05), 8, fit_intercept=not star, tol=1e-6),
        CHUNK,
        driver.Plan(passes=20_000),
    )
    optimum = driver.objective(problem, CHUNK, best.coef, best.intercept)
    result = driver.learn(ASSET(theta, star=star), problem, CHUNK, driver.Plan(passes=200))
    assert driver.objective(problem, CHUNK, result.coef, result.intercept) < 1.01 * optimum


def test_pilot_estimates():
    problem = Problem(Hinge(), L2(0.25), 8)
    solver, _ = ASSET(theta=1.0, pilot=1000).prepare(problem, CHUNK)
    square = (X**2).sum(axis=1)
    box = 1 + math.sqrt(square.max()) * 2
    assert solver.box == pytest.approx(box)
    assert solver.first == pytest.approx(math.hypot(2.0, box) / math.sqrt(np.mean(square + 1)))


def test_asset_options():
    problem = Problem(Hinge(), L2(0.1), 8)
    for solver, message in (
        (ASSET(star=True), "no bias"),
        (ASSET(theta=0.0), "theta"),
        (ASSET(box=-1.0), "box"),
        (ASSET(rho=1.0), "rho"),
    ):
        with pytest.raises(ValueError, match=message):
            driver.learn(solver, problem, CHUNK, driver.Plan())
    with pytest.raises(ValueError, match="positive alpha"):
        driver.learn(ASSET(), Problem(Hinge(), L2(0.0), 8), CHUNK, driver.Plan())


def test_asset_keeps_the_protocol():
    check_solver(ASSET(first=0.5, box=1.0))


# ---------------------------------------------------------------- least squares


def kkt(A, y, ridge, weight=None):
    """The LS-SVM's dual system: rows of alpha sum to zero, K alpha + ridge alpha / s + b = y."""
    n = len(y)
    s = np.ones(n) if weight is None else weight
    M = np.zeros((n + 1, n + 1))
    M[0, 1:] = M[1:, 0] = 1.0
    M[1:, 1:] = A @ A.T + np.diag(ridge / s)
    b, alpha = np.split(np.linalg.solve(M, np.append(0.0, y)), [1])
    return A.T @ alpha, b[0]


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_direct_solve_against_the_dual_system(layout):
    problem = Problem(LeastSquares(), L2(0.02), 8)
    weight = np.linspace(0.5, 1.5, 150)
    chunk = chunk_of(X, Y, layout, weight=weight)
    result = driver.learn(DirectLeastSquares(), problem, chunk, driver.Plan(passes=1))
    coef, intercept = kkt(X, Y, 0.02 * 150, weight)
    np.testing.assert_allclose(result.coef, coef, atol=1e-8)
    assert result.intercept == pytest.approx(intercept, abs=1e-8)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_leave_one_out_against_brute_force(fit_intercept):
    solver = DirectLeastSquares()
    problem = Problem(LeastSquares(), L2(0.02), 8, fit_intercept=fit_intercept)
    state = solver.update(problem, solver.init(problem), CHUNK)
    targets, predictions = solver.leave_one_out(problem, state, CHUNK)
    np.testing.assert_array_equal(targets[:, 0], Y)
    for i in (0, 17, 149):
        kept = np.delete(np.arange(150), i)
        A, extra = X[kept], np.ones((149, 1)) if fit_intercept else np.zeros((149, 0))
        A = np.hstack([A, extra])
        ridge = 0.02 * 150 * np.eye(A.shape[1])
        ridge[8:, 8:] = 0.0
        w = np.linalg.solve(A.T @ A + ridge, A.T @ Y[kept])
        x = np.append(X[i], 1.0) if fit_intercept else X[i]
        assert predictions[i, 0] == pytest.approx(x @ w, abs=1e-8)


def test_all_classes_share_the_matrix():
    codes = np.digitize(X[:, 0], [-0.2, 0.4]).astype(float)
    problem = Problem(LeastSquares(), L2(0.02), 8, outputs=3)
    chunk = chunk_of(X, codes)
    joint = driver.learn(DirectLeastSquares(), problem, chunk, driver.Plan(passes=1))
    for c in range(3):
        coef, intercept = kkt(X, np.where(codes == c, 1.0, -1.0), 3.0)
        np.testing.assert_allclose(joint.coef[c], coef, atol=1e-8)
        assert joint.intercept[c] == pytest.approx(intercept, abs=1e-8)


def test_states_of_different_rows_merge_to_the_whole():
    solver, problem = DirectLeastSquares(), Problem(LeastSquares(), L2(0.02), 8)
    parts = [
        solver.update(problem, solver.init(problem), CHUNK._replace(order=order))
        for order in (np.arange(40, dtype=np.uint32), np.arange(40, 150, dtype=np.uint32))
    ]
    whole = solver.update(problem, solver.init(problem), CHUNK)
    merged = solver.merge(problem, parts, solver.init(problem), [40, 110])
    np.testing.assert_allclose(
        solver.finish(problem, merged)[0], solver.finish(problem, whole)[0], rtol=1e-9
    )


def test_singular_and_weighted_penalties():
    constant = np.column_stack([X[:, :2], np.zeros(150), np.ones(150)])
    problem = Problem(LeastSquares(), L2(0.0), 4)
    result = driver.learn(DirectLeastSquares(), problem, chunk_of(constant, Y), driver.Plan(1))
    assert np.all(np.isfinite(result.coef))
    fit = constant @ result.coef + result.intercept
    best = np.column_stack([X[:, :2], np.ones(150)])
    wanted = best @ np.linalg.lstsq(best, Y, rcond=None)[0]
    np.testing.assert_allclose(fit, wanted, atol=1e-5)
    heavy = Problem(LeastSquares(), WeightedL2(np.array([1.0, 1e9] + [1.0] * 6), 0.1), 8)
    coef = driver.learn(DirectLeastSquares(), heavy, CHUNK, driver.Plan(1)).coef
    assert abs(coef[1]) < 1e-6


def test_refuses_other_losses_and_huge_matrices():
    for problem, message in (
        (Problem(Logistic(), L2(0.1), 8), "these do: least_squares"),
        (Problem(LeastSquares(), L2(0.1), 50_000), "raise max_features"),
    ):
        with pytest.raises(ValueError, match=message):
            driver.learn(DirectLeastSquares(), problem, CHUNK, driver.Plan())
