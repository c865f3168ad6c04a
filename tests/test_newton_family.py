"""Proximal and smoothed Newton against conic solvers, scikit-learn and optimality conditions."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.linear_model import Lasso

from thresher import LinearClassifier, LinearRegressor
from thresher._rows import as_rows
from thresher.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    LeastSquares,
    Logistic,
    Pinball,
    SquaredHinge,
)
from thresher.penalties import L1, L2, Box, ElasticNet, GroupL2, Penalty, WeightedL1, WeightedL2
from thresher.solvers import (
    Chunk,
    Newton,
    Problem,
    ProximalNewton,
    QuasiNewton,
    SmoothedNewton,
    Status,
    driver,
)


def data(n=150, d=20, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    score = X[:, :4] @ [2.0, -1.5, 1.0, -0.5]
    return X, np.where(score + rng.standard_normal(n) > 0.3, 1.0, -1.0), score + 0.3


def solve(solver, loss, penalty, X, y, tol, **options):
    problem = Problem(loss, penalty, X.shape[1], tol=tol, **options)
    chunk = driver.whole(as_rows(X), y)
    result = driver.learn(solver, problem, chunk, driver.Plan(solver.default_passes))
    return result, driver.objective(problem, chunk, result.coef, result.intercept)


# ------------------------------------------------ sparse models


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()], ids=repr)
@pytest.mark.parametrize(
    "penalty",
    [L1(0.03), ElasticNet(0.1, 0.5), WeightedL1(np.linspace(0.5, 2.0, 20), 0.03), Box(-0.2, 0.4)],
    ids=lambda p: type(p).__name__,
)
def test_no_proximal_gradient_step_moves_the_solution(loss, penalty, layout):
    """w = prox(w - g, 1): the optimality condition of every separable penalty."""
    X, y, _ = data()
    result, _ = solve(ProximalNewton(first=4), loss, penalty, layout(X), y, 1e-12)
    assert result.status is Status.CONVERGED
    slopes = np.array(
        [loss.deriv(t, p) for t, p in zip(y, X @ result.coef + result.intercept, strict=True)]
    )
    gradient = X.T @ slopes / y.size
    moved = [
        penalty.prox(w - g, 1.0, j)
        for j, (w, g) in enumerate(zip(result.coef, gradient, strict=True))
    ]
    np.testing.assert_allclose(moved, result.coef, atol=1e-5)
    assert abs(slopes.mean()) < 1e-5  # the free intercept
    if not isinstance(penalty, Box):
        assert 0 < np.count_nonzero(result.coef) < 20


def test_lasso_is_scikit_learns():
    from sklearn.linear_model import Lasso

    X, _, target = data()
    ours = LinearRegressor(penalty="l1", alpha=0.1, tol=1e-10).fit(X, target)
    assert type(ours.solver_) is ProximalNewton
    theirs = Lasso(alpha=0.1, tol=1e-10).fit(X, target)
    np.testing.assert_allclose(ours.coef_[0], theirs.coef_, atol=1e-6)
    np.testing.assert_array_equal(ours.coef_[0] == 0.0, theirs.coef_ == 0.0)
    assert ours.intercept_[0] == pytest.approx(theirs.intercept_, abs=1e-6)


def test_working_sets_find_the_same_model_as_all_coordinates_at_once():
    rng = np.random.default_rng(3)
    X = sparse.random_array((200, 400), density=0.05, format="csr", rng=rng)
    y = np.where(X[:, :10].sum(axis=1) > np.median(X[:, :10].sum(axis=1)), 1.0, -1.0)
    small, f_small = solve(ProximalNewton(first=2), Logistic(), L1(0.004), X, y, 1e-11)
    full, f_full = solve(ProximalNewton(first=400), Logistic(), L1(0.004), X, y, 1e-11)
    assert f_small == pytest.approx(f_full, rel=1e-7)
    np.testing.assert_allclose(small.coef, full.coef, atol=1e-3)


@dataclass(frozen=True)
class NonNegativeL1(Penalty):
    strength: float = 1.0

    def value(self, w, j):
        return self.strength * w if w >= 0.0 else math.inf

    def prox(self, w, step, j):
        return max(w - step * self.strength, 0.0)


def test_a_penalty_of_a_user_gives_its_exact_model():
    from scipy.optimize import minimize

    X, y, _ = data()
    ours = LinearClassifier("logistic", penalty=NonNegativeL1(0.01), tol=1e-10).fit(X, y)

    def objective(v):
        return np.logaddexp(0, -y * (X @ v[:-1] + v[-1])).mean() + 0.01 * v[:-1].sum()

    best = minimize(objective, np.zeros(21), bounds=[(0, None)] * 20 + [(None, None)], tol=1e-14)
    np.testing.assert_allclose(ours.coef_[0], best.x[:-1], atol=2e-4)
    assert np.all(ours.coef_ >= 0.0)


def test_a_sampled_hessian_changes_the_steps_and_not_the_model():
    X, y, _ = data(n=10_000)
    few, f_few = solve(ProximalNewton(hessian_rows=1), Logistic(), L1(0.05), X, y, 1e-9)
    _, f_all = solve(ProximalNewton(hessian_rows=10_000), Logistic(), L1(0.05), X, y, 1e-9)
    assert few.status is Status.CONVERGED
    assert f_few == pytest.approx(f_all, rel=1e-6)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_a_sampled_hessian_is_not_misled_by_rare_features(layout):
    """Features that a sample misses, and indicators that add up to one, seem flat in it."""
    rng = np.random.default_rng(3)
    n = 20_000
    groups = np.eye(15)[rng.integers(0, 15, n)]
    rare = np.where(rng.random((n, 15)) < 3e-4, 50.0, 0.0)
    X = np.column_stack([groups, rare])
    y = np.where(X @ rng.normal(size=30) + rng.normal(size=n) > 0, 1.0, -1.0)
    few, f_few = solve(ProximalNewton(hessian_rows=1), Logistic(), L1(1e-4), layout(X), y, 1e-7)
    full = ProximalNewton(hessian_rows=n)
    _, f_all = solve(full, Logistic(), L1(1e-4), layout(X), y, 1e-7)
    assert few.status is Status.CONVERGED
    assert few.passes <= 20
    assert f_few == pytest.approx(f_all, rel=1e-5)


def lasso_gap(X, y, w, intercept, strength):
    """Objective of the lasso less that of its dual at the scaled residuals: a certificate."""
    residual = y - X @ w - intercept
    primal = residual @ residual / (2 * y.size) + strength * np.abs(w).sum()
    dual = residual - residual.mean()  # the intercept asks for a sum of zero
    dual = dual * min(1.0, strength / np.max(np.abs(X.T @ dual / y.size)))
    return primal, primal - (dual @ y - dual @ dual / 2) / y.size


@pytest.mark.parametrize("shift", [0.0, 1e3])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_working_sets_of_any_size_reach_the_optimum(layout, dtype, shift):
    """Ten times as many weights as the largest matrix: the duality gap says how good."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((250, 150)).astype(dtype) + dtype(shift)
    y = (X - dtype(shift)) @ rng.standard_normal(150).astype(dtype)
    y = y + 7.0 + 0.1 * rng.standard_normal(250)
    solver = ProximalNewton(first=4, largest=12)
    rows = X if layout is np.asarray else sparse.csr_array(X)
    loss, tol = LeastSquares(), 1e-8 if dtype is np.float64 else 1e-6
    result, _ = solve(solver, loss, L1(0.05), rows, y.astype(dtype), tol, dtype=dtype)
    assert result.status is Status.CONVERGED
    assert np.count_nonzero(result.coef) > 100
    exact = np.float64(y.astype(dtype)), result.coef.astype(np.float64), result.intercept
    primal, gap = lasso_gap(np.float64(X), *exact, 0.05)
    slack = 1e-4 if dtype is np.float64 and not shift else 5e-3  # of single-precision weights
    assert gap < slack * primal


def test_as_many_features_as_rows_take_few_steps():
    """Sweeps alone come to an end so slowly that each of 33 steps fell short."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((300, 300))
    y = X @ rng.standard_normal(300) + 0.1 * rng.standard_normal(300)
    solver = ProximalNewton(first=200, largest=200)
    result, value = solve(solver, LeastSquares(), L1(1e-3), X, y, 1e-7)
    assert result.status is Status.CONVERGED
    assert result.passes < 20
    theirs = Lasso(alpha=1e-3, tol=1e-9, max_iter=10**6).fit(X, y)
    assert value <= lasso_gap(X, y, theirs.coef_, theirs.intercept_, 1e-3)[0] * (1 + 1e-5)


@pytest.mark.parametrize("largest", [8, 2000])
def test_matrix_and_columns_lead_to_the_same_model(largest):
    X, y, _ = data(d=60)
    solver = ProximalNewton(first=4, largest=largest)
    result, value = solve(solver, Logistic(), L1(0.002), X, y, 1e-10)
    _, least = solve(ProximalNewton(), Logistic(), L1(0.002), X, y, 1e-10)
    assert result.status is Status.CONVERGED
    assert value == pytest.approx(least, rel=1e-6)
    assert np.count_nonzero(result.coef) > 20


@pytest.mark.parametrize("largest", [3, 2000])
@pytest.mark.parametrize("seed", [0, 1, 237, 287])
def test_a_converged_model_lies_in_its_box(seed, largest):
    """A weight that rounding or an extrapolation leaves outside has an infinite penalty."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((80, 7))
    y = X @ rng.standard_normal(7) + rng.standard_normal(80)
    low, high = -0.1 - 0.2 * rng.random(), 0.1 + 0.2 * rng.random()
    result, value = solve(
        ProximalNewton(first=2, largest=largest), Huber(0.3), Box(low, high), X, y, 1e-9
    )
    assert result.status is Status.CONVERGED
    assert low <= result.coef.min()
    assert result.coef.max() <= high
    assert math.isfinite(value)


def test_a_loss_that_is_straight_at_zero_has_a_sparse_model():
    """Huber's with targets far beyond delta has no curvature at w = 0."""
    X, _, score = data()
    y = 1e4 * score + 3e4
    result, value = solve(ProximalNewton(), Huber(1.35), L1(0.1), X, y, 1e-9)
    assert result.status is Status.CONVERGED
    expected = minimize(
        lambda v: np.mean(huber(X @ v[:-1] + v[-1] - y)) + 0.1 * np.abs(v[:-1]).sum(),
        np.append(1e4 * np.array([2.0, -1.5, 1.0, -0.5] + [0.0] * 16), 3e4 + 3e3),
        method="Powell", options={"maxiter": 20000, "ftol": 1e-14, "xtol": 1e-12},
    )  # fmt: skip
    assert value <= expected.fun * (1.0 + 1e-6)


def test_an_intercept_on_its_way_is_not_an_all_zero_model():
    """Far targets and a penalty that leaves no weight: the intercept takes some steps."""
    X, _, score = data()
    chunk = driver.whole(as_rows(X), 1e3 * score + 1e6)
    for passes, status in ((2, Status.MAX_ITER), (100, Status.ALL_ZERO)):
        problem = Problem(Huber(1.35), L1(1e3), 20, tol=1e-9)
        result = driver.learn(ProximalNewton(), problem, chunk, driver.Plan(passes))
        assert not np.any(result.coef)
        assert result.status is status
    best = np.median(1e3 * score + 1e6)
    assert result.intercept == pytest.approx(best, abs=100.0)


@pytest.mark.parametrize("loss", [SquaredHinge(), Logistic(), LeastSquares()], ids=repr)
def test_equal_targets_need_an_intercept_only(loss):
    X, y, _ = data()
    result, _ = solve(Newton(), loss, L2(0.1), X, np.full_like(y, -1.0), 1e-6)
    assert result.status is not Status.ALL_ZERO
    assert np.abs(result.coef).max() < 0.05
    assert result.intercept < -0.99


def huber(r, delta=1.35):
    return np.where(np.abs(r) <= delta, r**2 / 2, delta * (np.abs(r) - delta / 2))


# ------------------------------------------------ the metric of the Gram matrix


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()], ids=repr)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_quasi_newton_finds_newtons_optimum_for_each_class(loss, fit_intercept, layout):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 12)) * np.geomspace(1.0, 1e-3, 12)
    y = rng.integers(0, 4, 300).astype(float)
    weight = rng.uniform(0.2, 3.0, 300)
    chunk = Chunk(as_rows(layout(X)), y, weight, np.arange(0, 300, 2, dtype=np.uint32))
    problem = Problem(loss, L2(1e-6), 12, tol=1e-12, outputs=4, fit_intercept=fit_intercept)
    joint = driver.learn(QuasiNewton(), problem, chunk, driver.Plan(500))
    assert joint.status is Status.CONVERGED
    for c in range(4):
        one = replace(problem, outputs=1)
        alone = chunk._replace(y=np.where(y == c, 1.0, -1.0))
        best = driver.learn(Newton(), one, alone, driver.Plan(200))
        value = driver.objective(one, alone, joint.coef[c], joint.intercept[c])
        least = driver.objective(one, alone, best.coef, best.intercept)
        assert value == pytest.approx(least, rel=1e-8)


def test_quasi_newton_of_one_output_and_a_user_weighted_penalty():
    X, y, target = data()
    for loss, labels in ((Logistic(), y), (LeastSquares(), target)):
        penalty = WeightedL2(np.linspace(0.5, 2.0, 20), 0.1)
        ours, f = solve(QuasiNewton(memory=3), loss, penalty, X, labels, 1e-13)
        _, best = solve(Newton(), loss, penalty, X, labels, 1e-13)
        assert ours.status is Status.CONVERGED
        assert f == pytest.approx(best, rel=1e-9)


def test_quasi_newton_refuses_what_it_cannot_do():
    X, y, _ = data()
    with pytest.raises(ValueError, match="matrix of 20 x 20"):
        solve(QuasiNewton(max_features=10), Logistic(), L2(0.1), X, y, 1e-3)
    with pytest.raises(ValueError, match="memory"):
        solve(QuasiNewton(memory=0), Logistic(), L2(0.1), X, y, 1e-3)
    with pytest.raises(ValueError, match="curvature"):
        LinearClassifier("hinge", solver="quasi_newton").fit(X, y)


def test_quasi_newton_with_repeated_and_constant_features():
    """The Gram matrix is singular, and the penalty next to nothing."""
    X, y, _ = data()
    X = np.column_stack([X, X, np.ones(150), np.zeros(150)]).astype(np.float32)
    ours, f = solve(QuasiNewton(), Logistic(), L2(1e-9), X, y, 1e-6)
    _, best = solve(Newton(), Logistic(), L2(1e-9), X.astype(np.float64), y, 1e-10)
    assert np.all(np.isfinite(ours.coef))
    assert f == pytest.approx(best, rel=1e-3)


# ------------------------------------------------ losses with kinks


def conic_optimum(X, y, lam, kinks):
    """min lam/2 ||w||^2 + mean max_k (a_k + s_k p): every kinked loss is such a maximum."""
    import clarabel

    n, d = X.shape
    size = d + 1 + n
    P = sparse.diags([lam] * d + [0.0] * (1 + n), format="csc")
    q = np.concatenate([np.zeros(d + 1), np.full(n, 1.0 / n)])
    blocks, rhs = [], []
    for offset, slope in kinks(y):  # a + s p - xi <= 0
        design = np.hstack([slope[:, None] * X, slope[:, None]])
        blocks.append(sparse.hstack([sparse.csc_array(design), -sparse.eye_array(n)]))
        rhs.append(-offset)
    A = sparse.csc_matrix(sparse.vstack(blocks))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.NonnegativeConeT(A.shape[0])]
    solution = clarabel.DefaultSolver(P, q, A, np.concatenate(rhs), cones, settings).solve()
    assert len(solution.x) == size
    return solution.obj_val


KINKED = {
    "hinge": (Hinge(), lambda y: [(np.ones_like(y), -y), (np.zeros_like(y), np.zeros_like(y))]),
    "pinball": (Pinball(0.3), lambda y: [(np.ones_like(y), -y), (-0.3 * np.ones_like(y), 0.3 * y)]),
    "tube": (
        EpsilonInsensitive(0.2),
        lambda y: [
            (-y - 0.2, np.ones_like(y)),
            (y - 0.2, -np.ones_like(y)),
            (np.zeros_like(y), np.zeros_like(y)),
        ],
    ),
}


@pytest.mark.parametrize("name", KINKED)
@pytest.mark.parametrize("lam", [0.1, 0.002])
def test_smoothed_newton_reaches_the_conic_solvers_optimum(name, lam):
    loss, kinks = KINKED[name]
    X, labels, target = data(d=6)
    y = target if name == "tube" else labels
    best = conic_optimum(X, y, lam, kinks)
    result, value = solve(SmoothedNewton(), loss, L2(lam), X, y, 1e-6)
    assert result.status is Status.CONVERGED
    assert best - 1e-9 <= value <= best * (1 + 2e-6) + 1e-9


def test_smoothed_newton_takes_weights_per_coordinate():
    X, y, _ = data(d=6)
    scale = np.linspace(0.5, 2.0, 6)
    # lambda_j w_j^2 on x is the plain penalty on x / sqrt(lambda_j).
    weighted, f = solve(SmoothedNewton(), Hinge(), WeightedL2(scale, 0.01), X, y, 1e-8)
    plain, g = solve(SmoothedNewton(), Hinge(), L2(0.01), X / np.sqrt(scale), y, 1e-8)
    assert f == pytest.approx(g, rel=1e-6)
    np.testing.assert_allclose(weighted.coef * np.sqrt(scale), plain.coef, atol=1e-3)


@pytest.mark.parametrize("loss", [Hinge(), Pinball(0.4), EpsilonInsensitive(0.3)], ids=repr)
def test_a_smoothed_loss_lies_above_and_comes_closer(loss):
    p = np.linspace(-3, 3, 301)
    exact = np.array([loss.value(1.0, v) for v in p])
    worst = []
    for width in (0.5, 0.1, 0.01):
        rounded = np.array([loss.smoothed(width).value(1.0, v) for v in p])
        assert np.all(rounded >= exact - 1e-12)
        worst.append(np.max(rounded - exact))
    assert worst[0] > worst[1] > worst[2]
    assert worst[2] < 0.02


def test_least_squares_is_one_step():
    X, _, target = data()
    result, _ = solve(ProximalNewton(), LeastSquares(), Box(-9.0, 9.0), X, target, 1e-10)
    exact = np.linalg.lstsq(np.column_stack([X, np.ones(150)]), target, rcond=None)[0]
    np.testing.assert_allclose(result.coef, exact[:-1], atol=1e-6)


@pytest.mark.parametrize("scale", [1e-18, 1e19])
@pytest.mark.parametrize("groups", [None, [0, 0, 1, 1]])
def test_the_optimum_is_there_whatever_the_units_of_the_features(scale, groups):
    """Squares of such features leave the range of single precision."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=200) > 0.0
    found = []
    for unit in (1.0, scale):
        penalty = "l1" if groups is None else GroupL2(groups)
        model = LinearClassifier(
            "logistic", penalty=penalty, alpha=0.03 * unit, solver="proximal_newton", tol=1e-10
        )
        found.append(unit * model.fit(unit * X, y).coef_)
    assert np.any(found[0])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3, atol=1e-5)
