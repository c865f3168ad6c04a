"""Exact solvers do not care where the zero of a feature or a target is, nor what its unit is.

With a free intercept the model of shifted rows is the model of the rows, shifted: the oracle is the
fit on rows about their mean, where nothing is far from zero.
"""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

from thresher import KernelRegressor, LinearClassifier, LinearRegressor
from thresher._rows import as_rows
from thresher.losses import LeastSquares
from thresher.penalties import L2
from thresher.solvers import DirectLeastSquares, Newton, Problem, driver

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 6))
X -= X.mean(axis=0)
NOISE = RNG.standard_normal(400)
Y = X @ [2.0, -1.0, 0.5, 0.0, 1.0, -3.0] + NOISE
LABELS = Y > 0.3

EXACT = {
    "newton": Newton(),
    "conjugate gradients": Newton(direct_features=1),
    "quasi_newton": "quasi_newton",
    "least_squares": "least_squares",
}
LAYOUTS = pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])


@LAYOUTS
@pytest.mark.parametrize("far", [1e3, 1e5, 1e6])
@pytest.mark.parametrize("solver", EXACT.values(), ids=EXACT)
def test_least_squares_of_shifted_rows_is_ridge(solver, far, layout):
    tol = None if solver == "least_squares" else 1e-10
    model = LinearRegressor(solver=solver, alpha=0.01, tol=tol).fit(layout(X + far), Y)
    found = Ridge(alpha=0.01 * 400).fit(X, Y)
    # One solve has the digits that squares about zero leave; the others go on from there.
    lost = 1e-14 * far**2 if solver == "least_squares" else 0.0
    np.testing.assert_allclose(model.coef_[0], found.coef_, atol=2e-5 + lost)
    np.testing.assert_allclose(
        model.predict(layout(X + far)), found.predict(X), atol=1e-4 + 5 * lost
    )


@pytest.mark.parametrize("solver", ["auto", "least_squares", "quasi_newton"])
def test_a_column_of_timestamps(solver):
    day = np.linspace(0.0, 1.0, 300)
    seconds = (1.7e9 + 1e7 * day)[:, None]
    target = 5.0 * day + 0.01 * NOISE[:300]
    model = LinearRegressor(solver=solver).fit(seconds, target)
    assert model.score(seconds, target) > 0.999
    assert model.status_.name in ("CONVERGED", "COMPLETED")


@LAYOUTS
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "hinge"])
def test_classifiers_of_shifted_rows(loss, layout):
    near = LinearClassifier(loss, solver="auto").fit(X, LABELS)
    model = LinearClassifier(loss, solver="auto").fit(layout(X + 1e5), LABELS)
    assert model.status_.name == "CONVERGED"
    scores = model.decision_function(layout(X + 1e5))
    np.testing.assert_allclose(scores, near.decision_function(X), atol=2e-3)


def test_many_classes_of_shifted_rows():
    classes = np.digitize(Y, [-2.0, 0.0, 2.0])
    near = LinearClassifier("logistic", solver="quasi_newton", tol=1e-10).fit(X, classes)
    model = LinearClassifier("logistic", solver="quasi_newton", tol=1e-10).fit(X + 1e4, classes)
    expected = near.decision_function(X)
    np.testing.assert_allclose(model.decision_function(X + 1e4), expected, atol=1e-3)


@pytest.mark.parametrize("solver", EXACT.values(), ids=EXACT)
def test_a_large_feature_does_not_hide_a_small_one(solver):
    """Without a penalty the unit of a feature is its own affair: least squares is equivariant."""
    unit = np.array([1e8, 1.0, 1e-6, 1e3, 1.0, 1e-3])
    if solver == EXACT["conjugate gradients"]:
        unit = unit**0.1  # they are quick where eigenvalues are few, and honest elsewhere
    tol = None if solver == "least_squares" else 1e-12
    model = LinearRegressor(solver=solver, alpha=0.0, tol=tol).fit(X * unit, Y)
    expected = np.linalg.lstsq(np.c_[X, np.ones(400)], Y, rcond=None)[0][:-1]
    np.testing.assert_allclose(model.coef_[0] * unit, expected, atol=1e-4)


def test_newton_is_done_only_at_the_optimum_however_large_the_features():
    model = LinearClassifier("logistic", solver="newton", alpha=1e-6).fit(X * 1e16, LABELS)
    near = LinearClassifier("logistic", solver="newton", alpha=0.0).fit(X, LABELS)
    assert model.status_.name == "CONVERGED"
    scores = model.decision_function(X * 1e16)
    np.testing.assert_allclose(scores, near.decision_function(X), rtol=1e-4, atol=1e-4)


def test_a_constant_column_without_a_penalty_gets_no_weight():
    constant = np.c_[X, np.full(400, 1e5)]
    for solver in ("newton", "least_squares", "quasi_newton"):
        model = LinearRegressor(solver=solver, alpha=0.0).fit(constant, Y)
        assert abs(model.coef_[0, -1]) < 1e-4, solver
        np.testing.assert_allclose(
            model.predict(constant), Ridge(0.0).fit(X, Y).predict(X), atol=1e-3
        )


@pytest.mark.parametrize("level", [0.0, 1e4, 1e6])
def test_single_precision_targets_far_from_zero(level):
    rows, target = X.astype(np.float32), (np.sin(X[:, 0]) + level).astype(np.float32)
    model = KernelRegressor(random_state=0).fit(rows, target)
    plain = KernelRegressor(random_state=0).fit(X, np.float64(target) - level)
    assert model.score(rows, target) > plain.score(X, np.float64(target) - level) - 0.01
    assert model.loo_error_ == pytest.approx(plain.loo_error_, rel=0.05)


def test_single_precision_sums_are_those_of_double():
    rows = (X + 300.0).astype(np.float32)
    target = (Y + 1e5).astype(np.float32)
    solver, problem = DirectLeastSquares(), Problem(LeastSquares(), L2(0.1), 6, dtype=np.float32)
    chunk = driver.whole(as_rows(rows), target)
    state = solver.update(problem, solver.init(problem), chunk)
    ones = np.c_[np.float64(rows), np.ones(400)]
    np.testing.assert_allclose(np.triu(state.gram), np.triu(ones.T @ ones), rtol=1e-9)
    np.testing.assert_allclose(state.moments[:, 0], ones.T @ target, rtol=1e-9)
    # One row at a time gives the same sums.
    again = solver.init(problem)
    for i in chunk.order:
        again = solver.update(problem, again, chunk._replace(order=np.array([i], np.uint32)))
    np.testing.assert_allclose(np.triu(again.gram), np.triu(state.gram), rtol=1e-9)


@pytest.mark.parametrize("intercept", [True, False])
def test_leave_one_out_of_features_that_repeat_themselves(intercept):
    """A matrix that is singular to rounding, and no penalty: formerly a LinAlgError."""
    twice = np.c_[X, X, X @ np.ones((6, 3))].astype(np.float32)
    solver = DirectLeastSquares()
    problem = Problem(LeastSquares(), L2(0.0), 15, fit_intercept=intercept, dtype=np.float32)
    chunk = driver.whole(as_rows(twice), Y)
    state = solver.update(problem, solver.init(problem), chunk)
    _, predictions = solver.leave_one_out(problem, state, chunk)
    design = np.c_[X, np.ones(400)] if intercept else X
    hat = design @ np.linalg.pinv(design)
    expected = Y - (Y - hat @ Y) / (1.0 - np.diag(hat))
    np.testing.assert_allclose(predictions[:, 0], expected, atol=2e-2)
