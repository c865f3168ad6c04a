"""The dual with K equality rows against a conic solver, and what must not change a solution."""

import itertools

import clarabel
import numpy as np
import pytest
from scipy.sparse import csc_matrix, csr_matrix, eye, triu, vstack

from thresher import L2, RBF, Status
from thresher._rows import as_rows
from thresher.kernels.column_cache import ColumnCache
from thresher.kernels.columns import KernelColumns
from thresher.kernels.gram import gram
from thresher.losses import EpsilonInsensitive, Huber, LeastSquares
from thresher.solvers import Problem, driver
from thresher.solvers._equality_qp import EqualityQP, violations
from thresher.solvers._incomplete_cholesky import incomplete_cholesky
from thresher.solvers._interior_point import LowRank, WholeMatrix, interior_point
from thresher.solvers._saddle_steps import ridge_scales, saddle_steps
from thresher.solvers.base import Near
from thresher.solvers.semiparametric import SemiparametricDual, orthonormal
from thresher.solvers.semiparametric_ridge import SemiparametricLeastSquares

KERNEL, EPSILON = RBF(0.25), 0.05


def hat(m, seed=0):
    """The Mexican hat: psi = sin(x), sinc(2 pi (x - 5)), each with the coefficient one."""
    g = np.random.default_rng(seed)
    x = g.uniform(0.0, 10.0, m)
    psi = np.column_stack([np.sin(x), np.sinc(2.0 * (x - 5.0))])
    return x[:, None], psi, psi.sum(axis=1) + g.normal(0.0, 0.2, m)


def conic(X, psi, y, bound):
    """(alpha, alpha*) by an interior-point method of others; its optimum and multipliers."""
    n, K = y.size, psi.shape[1]
    Q = gram(KERNEL, X)
    P = csc_matrix(triu(np.block([[Q, -Q], [-Q, Q]])))
    A = csc_matrix(vstack([np.hstack([psi.T, -psi.T]), -eye(2 * n), eye(2 * n)]))
    b = np.concatenate([np.zeros(K), np.zeros(2 * n), bound, bound])
    options = clarabel.DefaultSettings()
    options.verbose = False
    cones = [clarabel.ZeroConeT(K), clarabel.NonnegativeConeT(4 * n)]
    linear = np.concatenate([EPSILON - y, EPSILON + y])
    found = clarabel.DefaultSolver(P, linear, A, b, cones, options).solve()
    return found.obj_val, np.array(found.z[:K])


def problem_of(m, c, features, tol=1e-4):
    return Problem(EpsilonInsensitive(EPSILON), L2(1.0 / (c * m)), features, False, tol=tol)


def learned(X, psi, y, c, weight=None, passes=300, tol=1e-4, near=None, **options):
    rows = as_rows(np.column_stack([X, psi]))
    total = y.size if weight is None else np.count_nonzero(weight)
    problem = problem_of(total, c, rows.shape[1], tol)
    solver = SemiparametricDual(KERNEL, psi.shape[1], **options)
    chunk = driver.whole(rows, y, weight)
    return driver.learn(solver, problem, chunk, driver.Plan(passes), near)


def objective(result):
    state = result.state
    return state.work.qp.objective(state.z, state.images)


WAYS = {
    "interior": {"working": 60},
    "interior from zero": {"working": 60, "start": "zero"},
    "interior at once": {"decompose": False},
    "pdsg": {"inner": "pdsg", "working": 60, "start": "zero"},
    "pdsg at once": {"inner": "pdsg", "decompose": False},
    "multipliers": {"inner": "multipliers", "working": 60, "start": "zero"},
    "multipliers at once": {"inner": "multipliers", "decompose": False},
}


@pytest.mark.parametrize("c", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_reaches_the_conic_solvers_optimum(way, c):
    X, psi, y = hat(120)
    best, beta = conic(X, psi, y, np.full(120, c))
    fine = "interior" in way  # single steps on a large c only creep at the end
    result = learned(X, psi, y, c, tol=1e-5 if fine else 1e-3, **WAYS[way])
    assert result.status is Status.CONVERGED
    assert objective(result) == pytest.approx(best, rel=1e-5 if fine else 1e-3)
    np.testing.assert_allclose(result.function.beta, beta, atol=1e-3 if fine else 2e-2)


def test_the_residual_is_what_the_conditions_say():
    X, psi, y = hat(150)
    result = learned(X, psi, y, 1.0, tol=1e-6, working=64, start="zero")
    state, qp = result.state, result.state.work.qp
    scores = result.function.scores(np.column_stack([X, psi]))[:, 0]
    error, weights = y - scores, qp.weights(state.z)
    assert np.all(error[weights >= 1.0 - 1e-9] >= EPSILON - 1e-5)
    assert np.all(error[weights <= -1.0 + 1e-9] <= -EPSILON + 1e-5)
    assert np.all(np.abs(error[weights == 0.0]) <= EPSILON + 1e-5)
    np.testing.assert_allclose(psi.T @ weights, 0.0, atol=1e-5)
    # Primal and dual meet.
    images = gram(KERNEL, X) @ weights
    primal = 0.5 * weights @ images + np.maximum(np.abs(error) - EPSILON, 0.0).sum()
    assert primal == pytest.approx(-qp.objective(state.z, images), rel=1e-4)
    assert state.gap < 1e-4


def kept(X):
    return ColumnCache(KernelColumns(KERNEL, X, np.float64), 1e7)


def test_the_gap_bounds_the_distance_from_the_optimum():
    X, psi, y = hat(60)
    bound = np.full(60, 1.0)
    best, _ = conic(X, psi, y, bound)
    qp = EqualityQP.tube(KERNEL, X, kept(X), y, EPSILON, bound, psi)
    g = np.random.default_rng(0)
    for _ in range(20):
        z = g.uniform(qp.lower, qp.upper) * g.integers(0, 2, 120)
        images, eta = qp.images(qp.weights(z)), g.normal(size=2)
        assert qp.objective(z, images) - qp.gap(z, images, eta) <= best + 1e-6


def test_a_weight_is_so_many_rows():
    X, psi, y = hat(80)
    times = np.random.default_rng(1).integers(0, 4, 80)
    weighed = learned(X, psi, y, 1.0, weight=times.astype(float), tol=1e-6, working=64)
    # c of the weighed fit is per row of weight one: both have the same sum of bounds.
    many = np.repeat(np.arange(80), times)
    c = np.count_nonzero(times) / many.size
    repeated = learned(X[many], psi[many], y[many], c, tol=1e-6, working=64)
    np.testing.assert_allclose(weighed.function.beta, repeated.function.beta, atol=1e-4)


def test_units_and_order_of_functions_and_rows_do_not_matter():
    X, psi, y = hat(200)
    usual = learned(X, psi, y, 1.0, tol=1e-6, working=64)
    order = np.random.default_rng(2).permutation(200)
    mixed = np.column_stack([1e4 * psi[:, 1], 1e-4 * psi[:, 0] + psi[:, 1]])
    other = learned(X[order], mixed[order], y[order], 1.0, tol=1e-6, working=64)
    beta = other.function.beta
    np.testing.assert_allclose([1e-4 * beta[1], 1e4 * beta[0] + beta[1]], usual.function.beta,
                               atol=1e-4)  # fmt: skip
    scaled = learned(X, psi, 100.0 * y, 1.0, tol=1e-6, working=64, unit=100.0)
    assert scaled.status is Status.CONVERGED


def test_starts_are_no_part_of_the_answer():
    X, psi, y = hat(200)
    strong = learned(X, psi, y, 0.1, tol=1e-6, working=64)
    rows = np.column_stack([X, psi])
    near = Near.of(problem_of(200, 0.1, 3), strong)
    warm = learned(X, psi, y, 1.0, tol=1e-6, working=64, near=near)
    cold = learned(X, psi, y, 1.0, tol=1e-6, working=64)
    np.testing.assert_allclose(warm.function.scores(rows), cold.function.scores(rows), atol=1e-4)
    same = learned(X, psi, y, 0.1, tol=1e-5, working=64, near=near)
    assert same.passes == 1


def test_sparse_rows_are_dense_ones():
    X, psi, y = hat(100)
    X = np.column_stack([X, np.where(X > 5.0, X, 0.0)])
    dense = learned(X, psi, y, 1.0, tol=1e-6, working=64)
    rows = as_rows(csr_matrix(np.column_stack([X, psi])))
    chunk = driver.whole(rows, y)
    solver = SemiparametricDual(KERNEL, 2, working=64)
    sparse = driver.learn(solver, problem_of(100, 1.0, 4, 1e-6), chunk, driver.Plan(300))
    np.testing.assert_allclose(sparse.function.beta, dense.function.beta, atol=1e-4)


def test_repeated_rows_and_an_empty_tube():
    X, psi, y = hat(60)
    X, psi, y = np.repeat(X, 5, axis=0), np.repeat(psi, 5, axis=0), np.repeat(y, 5)
    assert learned(X, psi, y, 10.0, working=64).status is Status.CONVERGED
    line = learned(X, psi, 3.0 * psi[:, 0], 1.0, working=64)
    np.testing.assert_allclose(line.function.beta, [3.0, 0.0], atol=0.1)  # within the tube


def test_the_interior_point_method_takes_either_curvature():
    X, psi, y = hat(80)
    bound = np.full(80, 10.0)
    qp = EqualityQP.tube(KERNEL, X, kept(X), y, EPSILON, bound, psi)
    best, _ = conic(X, psi, y, bound)
    G, rest = incomplete_cholesky(qp.columns, 80, 1e-9)
    assert rest < 1e-9
    start = np.zeros(160), np.zeros(2)
    parts = (qp.linear, qp.lower, qp.upper, qp.A[:, qp.row], qp.target, start, 1e-5, 1.0)
    for Q in (WholeMatrix(gram(KERNEL, X), qp.row), LowRank(G, qp.row)):
        z, eta, count = interior_point(Q, *parts)
        images = qp.images(qp.weights(z))
        assert qp.objective(z, images) == pytest.approx(best, rel=1e-5)
        assert violations(z, qp.slopes(images, eta), qp.lower, qp.upper).max() < 1e-3
        assert count < 40


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_free_variable_near_a_far_bound_stays_free(side):
    """Half a millionth of a wide bound is more than the tolerance allows; 0 itself is a bound."""
    n, wide = 4, np.full(4, 200.0)
    lower, upper = (np.zeros(n), wide) if side > 0 else (-wide, np.zeros(n))
    linear = -side * np.array([1e-4, 50.0, 500.0, -1.0])
    z, _, _ = interior_point(
        WholeMatrix(np.eye(n), np.arange(n)), linear, lower, upper, np.zeros((0, n)), np.zeros(0),
        (np.zeros(n), np.zeros(0)), 1e-6, 1.0,
    )  # fmt: skip
    np.testing.assert_allclose(z, side * np.array([1e-4, 50.0, 200.0, 0.0]), atol=1e-6)
    assert z[2] == side * 200.0
    assert z[3] == 0.0


def test_incomplete_cholesky_explains_the_matrix():
    X, _, _ = hat(50)
    K = gram(KERNEL, X)
    G, rest = incomplete_cholesky(kept(X), 7, 1e-12)
    assert G.shape == (50, 7)
    assert rest == pytest.approx(np.mean(np.diag(K - G @ G.T)), abs=1e-6)
    assert np.linalg.eigvalsh(K - G @ G.T).min() > -1e-5


def test_steps_that_diverge_come_back():
    X, psi, y = hat(100)
    bound = np.full(100, 1.0)
    qp = EqualityQP.tube(KERNEL, X, kept(X), y, EPSILON, bound, orthonormal(psi)[0])
    block = qp.block(np.arange(200), np.zeros(200), np.zeros(100))
    safe = ridge_scales(block)
    found = saddle_steps(
        block, np.zeros(200), np.zeros(2), 1e-4 * safe, group=2, patient=False, tol=1e-3,
        most=100_000,
    )  # fmt: skip
    assert found.violation < 1e-3
    assert np.all(found.scales > 1e-4 * safe)


def test_least_squares_solves_its_equations():
    X, psi, y = hat(90)
    weight = np.random.default_rng(3).uniform(0.5, 2.0, 90)
    rows = as_rows(np.column_stack([X, psi]))
    problem = Problem(LeastSquares(), L2(0.01), 3, False)
    solver = SemiparametricLeastSquares(KERNEL, 2)
    function = driver.learn(solver, problem, driver.whole(rows, y, weight), driver.Plan(1)).function
    share = weight * 90 / weight.sum()
    system = np.block([
        [gram(KERNEL, X) + np.diag(0.9 / share), psi], [psi.T, np.zeros((2, 2))]
    ])  # fmt: skip
    exact = np.linalg.solve(system, np.concatenate([y, np.zeros(2)]))
    np.testing.assert_allclose(function.beta, exact[90:], atol=1e-8)
    np.testing.assert_allclose(function.part.coef[0], exact[:90], atol=1e-7)


def test_what_cannot_work_is_refused():
    X, psi, y = hat(40)
    for options, told in (
        ({"inner": "simplex"}, "inner must be one of interior, pdsg, multipliers"),
        ({"working": 4}, "raise it to 6"),
        ({"memory": 100.0}, "two kernel columns of 40 rows take 320 bytes"),
        ({"memory": 1e4, "decompose": False}, "raise memory=1e.04 to that or use decompose=True"),
        ({"fresh": 0}, "fresh must lie between 1 and working=512"),
        ({"start": "there"}, "start must be"),
    ):
        with pytest.raises(ValueError, match=told):
            learned(X, psi, y, 1.0, **options)
    with pytest.raises(ValueError, match="free function 1 depends on those before it"):
        learned(X, np.column_stack([psi[:, 0], 2.0 * psi[:, 0]]), y, 1.0)
    rows = driver.whole(as_rows(np.column_stack([X, psi])), y)
    with pytest.raises(ValueError, match=r"EpsilonInsensitive|epsilon_insensitive"):
        driver.learn(
            SemiparametricDual(KERNEL, 2), Problem(Huber(), L2(1.0), 3, False), rows, driver.Plan()
        )


@pytest.mark.slow
def test_the_large_hat_converges_for_all_bounds():
    X, psi, y = hat(5000)
    for c, inner in itertools.product((0.1, 1.0, 10.0), ("interior", "pdsg")):
        result = learned(X, psi, y, c, tol=1e-3, inner=inner, passes=2000)
        assert result.status is Status.CONVERGED
        np.testing.assert_allclose(result.function.beta, [1.0, 1.0], atol=0.25)
