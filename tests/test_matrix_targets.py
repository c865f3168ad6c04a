"""Targets that are a matrix of real numbers: one regression for each column."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import lstsq

from conftest import READY, chunk_of, make_data
from thresher.losses import Hinge, LeastSquares, Logistic
from thresher.penalties import L2, WeightedL2
from thresher.solvers import DirectLeastSquares, Pegasos, Problem, driver
from thresher.solvers.base import check_compatible

X, _ = make_data(n=150, d=8)
RNG = np.random.default_rng(0)
Y = X @ RNG.normal(size=(8, 3)) + 0.3 * RNG.normal(size=(150, 3)) + [1.0, -2.0, 0.5]
WEIGHT = np.linspace(0.2, 3.0, 150)


def problem_of(penalty, outputs=3, **changed):
    return Problem(LeastSquares(), penalty, 8, outputs=outputs, targets="matrix", **changed)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_each_column_is_the_ridge_regression_of_a_closed_form(layout, fit_intercept, ridge):
    chunk = chunk_of(X, Y, layout, weight=WEIGHT)
    problem = problem_of(L2(ridge), fit_intercept=fit_intercept)
    result = driver.learn(DirectLeastSquares(), problem, chunk, driver.Plan(1))
    root = np.sqrt(chunk.weight)[:, None]
    A = np.column_stack([X, np.ones(150)]) if fit_intercept else X
    penalty = np.sqrt(ridge * chunk.weight.sum()) * np.eye(8, A.shape[1])
    wanted = lstsq(np.vstack([root * A, penalty]), np.vstack([root * Y, np.zeros((8, 3))]))[0]
    assert_allclose(result.coef, wanted[:8].T, atol=1e-8)
    assert_allclose(result.intercept, wanted[8] if fit_intercept else np.zeros(3), atol=1e-8)


def test_columns_are_those_of_separate_problems():
    penalty = WeightedL2(np.linspace(0.5, 2.0, 8), 0.1)
    joint = driver.learn(DirectLeastSquares(), problem_of(penalty), chunk_of(X, Y), driver.Plan(1))
    for c in range(3):
        one = driver.learn(
            DirectLeastSquares(), Problem(LeastSquares(), penalty, 8), chunk_of(X, Y[:, c]),
            driver.Plan(1),
        )  # fmt: skip
        assert_allclose(joint.coef[c], one.coef, rtol=1e-9)
        assert joint.intercept[c] == pytest.approx(one.intercept, rel=1e-9)


def test_one_column_is_one_regression():
    problem, solver = problem_of(L2(0.1), outputs=1), DirectLeastSquares()
    state = solver.update(problem, solver.init(problem), chunk_of(X, Y[:, :1]))
    plain = Problem(LeastSquares(), L2(0.1), 8)
    other = solver.update(plain, solver.init(plain), chunk_of(X, Y[:, 0]))
    assert np.array_equal(state.moments, other.moments)


def test_chunks_shards_and_leave_one_out():
    chunk, problem, solver = chunk_of(X, Y), problem_of(L2(0.1)), DirectLeastSquares()
    assert chunk.size == 150
    whole = solver.update(problem, solver.init(problem), chunk)
    base = solver.init(problem)
    parts = np.split(chunk.order, [40, 90])
    shards = [
        solver.update(problem, solver.copy(base), chunk._replace(order=part)) for part in parts
    ]
    merged = solver.merge(problem, shards, base, [part.size for part in parts])
    assert_allclose(solver.finish(problem, merged)[0], solver.finish(problem, whole)[0], rtol=1e-9)
    targets, predictions = solver.leave_one_out(problem, whole, chunk)
    assert_allclose(targets, Y)
    without = np.delete(np.arange(150), 7)
    A = np.column_stack([X, np.ones(150)])
    ridge = 0.1 * 150 * np.diag([1.0] * 8 + [0.0])
    w = np.linalg.solve(A[without].T @ A[without] + ridge, A[without].T @ Y[without])
    assert_allclose(predictions[7], A[7] @ w, atol=1e-8)


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_the_mean_loss_is_the_sum_over_the_columns(layout):
    chunk, problem = chunk_of(X, Y, layout, weight=WEIGHT), problem_of(L2(0.1))
    coef, intercept = RNG.normal(size=(3, 8)), RNG.normal(size=3)
    errors = 0.5 * np.sum((X @ coef.T + intercept - Y) ** 2, axis=1)
    wanted = np.average(errors, weights=WEIGHT)
    assert driver.mean_loss(problem, chunk, coef, intercept) == pytest.approx(wanted)


@pytest.mark.parametrize(
    "name", [name for name, solver in READY.items() if "matrix" not in solver.target_kinds]
)
def test_other_solvers_refuse_them(name):
    kinked = name == "smoothed_newton" or "kinks" in READY[name].loss_needs
    loss = Hinge() if kinked else Logistic()
    problem = Problem(loss, L2(0.1), 12, outputs=3, targets="matrix")
    kind = type(READY[name]).__name__
    with pytest.raises(ValueError, match=f"{kind} does not learn a matrix .*do: .*least_squares"):
        check_compatible(READY[name], problem)


def test_bad_targets_are_refused():
    with pytest.raises(ValueError, match="one of classes, matrix, pairs, none, got 'rows'"):
        check_compatible(Pegasos(), Problem(Logistic(), L2(0.1), 12, targets="rows"))
    solver, problem = DirectLeastSquares(), problem_of(L2(0.1))
    for wrong in (Y[:, :2], Y[:, 0]):
        with pytest.raises(ValueError, match=r"a problem of 3 outputs needs \(rows, 3\)"):
            solver.update(problem, solver.init(problem), chunk_of(X, wrong))
