"""Solvers against loops written in NumPy straight from the papers, and against known optima."""

import dataclasses
import math
import pickle
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from conftest import (
    CONJUGATES,
    FORMULAS,
    READY,
    ROOT,
    SMOOTH,
    asgd_reference,
    batches,
    chunk_of,
    close,
    feed,
    logistic_slope,
    make_data,
    pinball_slope,
    rda_reference,
    reference,
    soft,
    visits,
)
from thresher import losses, schedules
from thresher._random import uniform
from thresher.kernels import RBF, Cosine, Linear, Polynomial
from thresher.losses import Hinge, LeastSquares, Logistic, SquaredHinge
from thresher.penalties import L1, L2, ElasticNet, WeightedL2
from thresher.registry import LOSSES, SOLVERS
from thresher.solvers import (
    FOBOS,
    RDA,
    SGD,
    AdaptiveRDA,
    AveragedSGD,
    DropoutPegasos,
    DualDescent,
    Newton,
    Pegasos,
    Problem,
    ReweightedL1,
    Solver,
    Status,
    TruncatedGradient,
    driver,
)
from thresher.solvers.asgd import WINDOW
from thresher.solvers.base import check_compatible
from thresher.solvers.budgeted import MAINTENANCE, Budgeted
from thresher.solvers.confidence import COMBINATIONS
from thresher.solvers.confidence_diagonal import DiagonalConfidence
from thresher.solvers.confidence_full import FullConfidence
from thresher.solvers.confidence_low_rank import LowRankConfidence
from thresher.solvers.confidence_rules import AROW, Recursive
from thresher.solvers.hyperplanes import Hyperplanes
from thresher.testing import check_solver


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", SOLVERS)
def test_a_solver_is_a_state_and_an_update(name, dtype):
    """Layouts, chunks, resuming, merging, weights: see ``check_solver``."""
    check_solver(READY[name], dtype=dtype)


# Solvers without a name, which learn functions that are not linear.
HINGE = Hinge()
NONLINEAR = [
    *((Budgeted(RBF(0.1), budget=10, maintenance=m), HINGE) for m in MAINTENANCE),
    *((Budgeted(RBF(0.1), budget=10, maintenance=m), LeastSquares()) for m in MAINTENANCE),
    (Budgeted(RBF(0.1), budget=100, constant=1.0), HINGE),
    (Budgeted(RBF(0.1), budget=10, memory=None), HINGE),
    (Budgeted(Polynomial(2, 0.1), budget=10, maintenance="remove"), HINGE),
    (Budgeted(Polynomial(2, 0.1), budget=10, maintenance="project"), HINGE),
    (Budgeted(Linear(), budget=10, maintenance="remove"), HINGE),
    (Budgeted(Linear(), budget=10, maintenance="project"), HINGE),
    (Budgeted(Cosine(), budget=10, maintenance="project"), HINGE),
    (Hyperplanes(cap=5), HINGE),
    (Hyperplanes(cap=1, constant=0.0), HINGE),
    (Hyperplanes(cap=5, every=7, threshold=3.0, average=False), HINGE),
    (Hyperplanes(cap=5, clone=0.5, endless=True), HINGE),
    (Hyperplanes(cap=5, alternating=True), HINGE),
    *(
        (form(rule, combine=how), loss)
        for form, ways in (
            (DiagonalConfidence, COMBINATIONS),
            (FullConfidence, COMBINATIONS),
            (LowRankConfidence, ("average",)),
        )
        for how in ways
        for rule, loss in ((AROW(r=2.0), SquaredHinge()), (Recursive(r=2.0), LeastSquares()))
    ),
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("solver", "loss"), NONLINEAR)
def test_a_solver_of_other_functions_is_one_too(solver, loss, dtype):
    check_solver(solver, loss, dtype=dtype)


def test_every_registered_solver_is_among_those_tested():
    assert set(READY) == set(SOLVERS)
    assert {n: type(s) for n, s in READY.items()} == dict(SOLVERS)


@dataclass(frozen=True)
class Forgetful(Solver):
    """A running mean that forgets what earlier chunks said: check_solver must notice."""

    def init(self, problem, chunk=None):
        return pickle.loads(pickle.dumps(READY["rda"].init(problem)))

    def update(self, problem, state, chunk):
        return READY["rda"].update(problem, self.init(problem), chunk)

    def finish(self, problem, state):
        return READY["rda"].finish(problem, state)


def test_check_solver_rejects_a_solver_that_depends_on_the_chunks():
    with pytest.raises(AssertionError, match="another cut"):
        check_solver(Forgetful(), penalty=L1(0.01))


# ------------------------------------------------ lazy and scaled updates against O(d) loops


def eta(t):
    return 0.4 / math.sqrt(t)


def truncate(t, w, lam, every, ceiling):
    cut = (t % every == 0) & (np.abs(w) <= ceiling)
    return np.where(cut, soft(w, every * eta(t) * lam), w)


@pytest.mark.parametrize("batch", [1, 3])
def test_fobos_l1_skips_coordinates_exactly(sparse_problem, batch):
    X, y, chunk, order = sparse_problem
    got = feed(FOBOS(ROOT, batch), Problem(Logistic(), L1(0.02), 150), chunk, order)
    want = reference(
        X, y, order, batch, lambda t, w, g: (soft(w - eta(t) * g, eta(t) * 0.02), eta(t))
    )
    close(got, want)
    assert 0 < np.count_nonzero(got[0]) < 150


@pytest.mark.parametrize("strength", [0.03, 8.0])
def test_fobos_elastic_net_is_exact_even_when_the_scale_is_renormalised(sparse_problem, strength):
    """The stronger ridge drives the common scale below 1e-9 several times."""
    X, y, chunk, order = sparse_problem
    l1, l2 = strength * 0.05, strength * 0.95

    def move(t, w, g):
        return soft(w - eta(t) * g, eta(t) * l1) / (1 + eta(t) * l2), eta(t)

    got = feed(FOBOS(ROOT), Problem(Logistic(), ElasticNet(strength, 0.05), 150), chunk, order)
    close(got, reference(X, y, order, 1, move))


@pytest.mark.parametrize(
    ("penalty", "ceiling"),
    [(L1(0.02), math.inf), (L1(0.02), 0.15), (ElasticNet(0.1, 0.3), math.inf)],
)
def test_truncated_gradient(sparse_problem, penalty, ceiling):
    X, y, chunk, order = sparse_problem
    lam = penalty.strength * getattr(penalty, "l1_ratio", 1.0)

    def move(t, w, g):
        return truncate(t, w - eta(t) * g, lam, 3, ceiling) / (1 + eta(t) * penalty.ridge), eta(t)

    solver = TruncatedGradient(ROOT, every=3, ceiling=ceiling)
    got = feed(solver, Problem(Logistic(), penalty, 150), chunk, order)
    close(got, reference(X, y, order, 1, move))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("ratio", [1.0, 0.4])
def test_rda_closed_form(sparse_problem, ratio, batch):
    X, y, chunk, order = sparse_problem
    lam, gamma, rho = 0.01, 0.8, 0.05

    def weight(g, squares, t, penalised):
        beta = gamma / math.sqrt(t)
        if not penalised:
            return -g / beta
        return -soft(g, lam * ratio + beta * rho) / (lam * (1 - ratio) + beta)

    problem = Problem(Logistic(), ElasticNet(lam, ratio), 150)
    got = feed(RDA(gamma, rho, batch=batch), problem, chunk, order)
    close(got, rda_reference(X, y, order, batch, weight))
    assert 0 < np.count_nonzero(got[0]) < 150


@pytest.mark.parametrize("batch", [1, 3])
def test_adaptive_rda(sparse_problem, batch):
    X, y, chunk, order = sparse_problem
    lam, gamma, rho = 0.01, 0.8, 0.5

    def weight(g, squares, t, penalised):
        return -soft(g, lam * penalised) * t / (gamma * (rho + np.sqrt(squares)))

    problem = Problem(Logistic(), ElasticNet(lam, 1.0), 150)
    got = feed(AdaptiveRDA(gamma, rho, batch), problem, chunk, order)
    close(got, rda_reference(X, y, order, batch, weight))


@pytest.mark.parametrize(("growth", "seed"), [("root", 0), ("root", 1), ("log", 2)])
def test_rda_step_is_the_minimiser_a_conic_solver_finds(growth, seed):
    import clarabel

    rng = np.random.default_rng(seed)
    d, t, lam, ratio, gamma, rho = 12, 25, 0.3, 0.6, 0.7, 0.2
    problem = Problem(Logistic(), ElasticNet(lam, ratio), d, fit_intercept=False)
    solver = RDA(gamma, rho, growth)
    state = solver.init(problem)._replace(gradient=t * rng.normal(size=d), step=t)
    beta = gamma * (math.sqrt(t) if growth == "root" else 1 + math.log(t)) / t
    # over (w, u): <g, w> + (lam1 + beta rho) sum u + (lam2 + beta)/2 |w|^2 with |w| <= u
    eye = sparse.eye_array(d)
    P = sparse.block_diag([(lam * (1 - ratio) + beta) * eye, 0 * eye], format="csc")
    q = np.concatenate([state.gradient / t, np.full(d, lam * ratio + beta * rho)])
    A = sparse.block_array([[eye, -eye], [-eye, -eye]], format="csc")
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-11
    cones = [clarabel.NonnegativeConeT(2 * d)]
    solution = clarabel.DefaultSolver(P, q, A, np.zeros(2 * d), cones, options).solve()
    w, _ = solver.finish(problem, state)
    np.testing.assert_allclose(w, solution.x[:d], atol=1e-6)
    assert 0 < np.count_nonzero(w) < d


@pytest.mark.parametrize("project", [True, False])
@pytest.mark.parametrize("batch", [1, 4])
def test_pegasos_with_pinball_loss_and_projection(sparse_problem, batch, project):
    X, y, chunk, order = sparse_problem
    lam = 0.5

    def move(t, w, g):
        w = (1 - 1 / t) * w - g / (lam * t)
        norm = np.linalg.norm(w)
        return w * (min(1.0, 1 / (math.sqrt(lam) * norm)) if project and norm else 1.0), 1 / lam / t

    problem = Problem(losses.Pinball(0.3), L2(lam), 150)
    got = feed(Pegasos(batch, project), problem, chunk, order)
    close(got, reference(X, y, order, batch, move, pinball_slope))


def test_pegasos_with_the_bias_of_the_thesis(sparse_problem):
    """Algs 4 and 5: the bias is the mean residual, of the batch, and of all rows at the end."""
    X, y, chunk, _ = sparse_problem
    w, lam = np.zeros(150), 0.5
    for t, A in batches(chunk.order, 10):
        p = X[A] @ w
        g = X[A].T @ pinball_slope(y[A], p + np.mean(y[A] - p)) / A.size
        w = (1 - 1 / t) * w - g / (lam * t)
        w *= min(1.0, 1 / (math.sqrt(lam) * np.linalg.norm(w)))
    problem = Problem(losses.Pinball(0.3), L2(lam), 150)
    result = driver.learn(
        Pegasos(10, bias="residual", average=False), problem, chunk,
        driver.Plan(1, order="sequential"),
    )  # fmt: skip
    close((result.coef, result.intercept), (w, np.mean(y - X @ w)))


NOT_FOUND = {"schedule", "hold"}  # None says that a rule of the solver's own is followed


@pytest.mark.parametrize("name", [name for name, cls in SOLVERS.items() if cls.streaming])
def test_a_prepared_solver_has_all_that_was_to_be_found(name):
    X, y = make_data()
    penalty = (L1 if SOLVERS[name].default_penalty == "l1" else L2)(0.01)
    problem = Problem(LeastSquares(), penalty, 12)
    solver, _ = SOLVERS[name]().planned(1000).prepare(problem, chunk_of(X, y))
    left = {f.name for f in dataclasses.fields(solver) if getattr(solver, f.name) is None}
    assert left <= NOT_FOUND


def test_gamma_is_chosen_on_enough_rows_of_a_rare_class(monkeypatch):
    """Both parts hold 250 rows of it, or half of all; of two equal classes they are as before."""
    seen = []

    def objective(problem, chunk, *model):
        seen.append(chunk.order.size)
        return 1.0

    monkeypatch.setattr(driver, "objective", objective)
    X, y = make_data(n=8000, d=3)
    for share, size in ((0.5, 500), (0.1, 2500), (0.01, 4000)):
        y = np.where(np.arange(8000) < share * 8000, 1.0, -1.0)
        RDA().prepare(Problem(Hinge(), L1(0.01), 3), chunk_of(X, y))
        assert set(seen) == {size}
        seen.clear()


def test_dropout_pegasos(sparse_problem):
    X, y, chunk, order = sparse_problem
    lam = 0.05

    def move(t, w, g):
        shrink = np.array([uniform(7, t, j) for j in range(150)]) < w**2 / (1 + w**2)
        w = w - (lam * shrink * w + g) / (lam * t)
        return w * min(1.0, 1 / (math.sqrt(lam) * np.linalg.norm(w))), 1 / lam / t

    problem = Problem(Logistic(), L2(lam), 150, seed=7)
    got = feed(DropoutPegasos(batch=3), problem, chunk, order)
    close(got, reference(X, y, order, 3, move))


@pytest.mark.parametrize("average_from", [None, 0, 40])
@pytest.mark.parametrize("penalty", [L2(0.1), L1(0.02)], ids=repr)
def test_sgd_window_average_is_the_step_weighted_mean_of_iterates(
    sparse_problem, penalty, average_from
):
    X, y, chunk, order = sparse_problem
    w, b, seen = np.zeros(150), 0.0, []
    for t, A in batches(order, 2):
        s = logistic_slope(y[A], X[A] @ w + b) / 2
        slope = 0.1 * w if isinstance(penalty, L2) else 0.02 * np.sign(w)
        w, b = w - eta(t) * (X[A].T @ s + slope), b - min(eta(t), 1 / math.sqrt(t)) * s.sum()
        seen.append((eta(t), w, b))
    kept = seen[-1:] if average_from is None else seen[average_from:]
    shares = np.array([e for e, _, _ in kept]) / sum(e for e, _, _ in kept)
    want = shares @ [v for _, v, _ in kept], shares @ [v for _, _, v in kept]
    got = feed(SGD(ROOT, average_from, 2), Problem(Logistic(), penalty, 150), chunk, order)
    np.testing.assert_allclose(got[0], want[0], atol=1e-10)
    assert got[1] == pytest.approx(want[1])


@pytest.mark.parametrize(("lam", "eta0"), [(0.01, 0.3), (3.0, 0.3)])
def test_averaged_sgd(sparse_problem, lam, eta0):
    """Also where the scale is renormalised."""
    X, y, chunk, order = sparse_problem
    got = feed(AveragedSGD(eta0, 10, 3.0), Problem(Logistic(), L2(lam), 150), chunk, order)
    want = asgd_reference(X, y, order, lam, eta0, 10, 3.0)
    np.testing.assert_allclose(got[0], want[0], atol=1e-10)
    assert got[1] == pytest.approx(want[1], abs=1e-10)


@pytest.mark.parametrize(("lam", "eta0"), [(0.01, 0.3), (3.0, 0.3)])
def test_averaged_sgd_that_predicts_early(sparse_problem, lam, eta0):
    """As planned passes do; the bias and the shrinking are those of the moment."""
    X, y, chunk, order = sparse_problem
    solver = AveragedSGD(eta0, 10, 3.0).planned(order.size)
    got = feed(solver, Problem(Logistic(), L2(lam), 150), chunk, order)
    want = asgd_reference(X, y, order, lam, eta0, 10, 3.0, order.size, WINDOW)
    np.testing.assert_allclose(got[0], want[0], atol=1e-10)
    assert got[1] == pytest.approx(want[1], abs=1e-10)


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_planned_passes_may_be_cut_between_windows(layout):
    X, y = make_data(n=500)
    chunk, problem = chunk_of(X, y, layout), Problem(Hinge(), L2(0.01), 12)
    solver, order = AveragedSGD(0.3, 16).planned(1500), visits(500)
    cuts = np.split(order, [solver.seam, 5 * solver.seam, 12 * solver.seam])
    assert solver.seam == WINDOW
    close(feed(solver, problem, chunk, order), feed(solver, problem, chunk, *cuts))


@pytest.mark.parametrize("loss", [LeastSquares(), SquaredHinge()])
def test_early_predictions_do_not_swing_up(loss):
    """The same row again and again, with the longest step: each error is answered twice."""
    chunk = chunk_of(np.tile([[30.0, -10.0]], (400, 1)), np.ones(400))
    problem = Problem(loss, L2(1e-9), 2, fit_intercept=False)
    coef, _ = feed(AveragedSGD(1e3, 16).planned(400), problem, chunk, chunk.order)
    assert loss.value(1.0, coef @ [30.0, -10.0]) < 1e-6


def test_steps_and_ceilings_without_meaning_are_refused():
    with pytest.raises(ValueError, match="below 1/alpha"):
        check_compatible(AveragedSGD(0.5), Problem(Logistic(), L2(2.0), 3))
    with pytest.raises(ValueError, match="finite ceiling"):
        check_compatible(TruncatedGradient(ceiling=0.1), Problem(Logistic(), ElasticNet(0.1), 3))


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("k", [3, 16, 20])  # less than a vector register, a whole one, and more
def test_joint_classes_equal_separate_one_versus_rest_models(layout, k):
    X, _ = make_data(n=90)
    codes = np.random.default_rng(5).integers(k, size=90).astype(float)
    solver, order = AveragedSGD(0.2, 16), visits(90)
    joint = Problem(Logistic(), L2(0.02), 12, outputs=k)
    coef, bias = feed(solver, joint, chunk_of(X, codes, layout), order)
    assert coef.shape == (k, 12)
    one = dataclasses.replace(joint, outputs=1)
    for c in range(k):
        close(
            (coef[c], bias[c]),
            feed(solver, one, chunk_of(X, np.where(codes == c, 1.0, -1.0), layout), order),
        )


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_the_mean_loss_of_several_classes_is_the_sum_over_them(layout):
    rng = np.random.default_rng(2)
    X, _ = make_data(n=40)
    codes, weight = rng.integers(18, size=40), rng.uniform(0.5, 2.0, size=40)
    coef, intercept = rng.normal(size=(18, 12)), rng.normal(size=18)
    chunk = chunk_of(X, codes.astype(float), layout)._replace(weight=weight)
    margins = np.where(codes[:, None] == np.arange(18), 1.0, -1.0) * (X @ coef.T + intercept)
    wanted = np.average(np.logaddexp(0.0, -margins).sum(axis=1), weights=weight)
    problem = Problem(Logistic(), L2(0.1), 12, outputs=18)
    assert driver.mean_loss(problem, chunk, coef, intercept) == pytest.approx(wanted)


# ------------------------------------------------ optima, certified independently


# Parameters and costs that are no power of two: a dual variable at its bound c * slope must not
# leave the conjugate's domain by rounding.
DUALS = [(name, (), 0.03) for name in LOSSES] + [("pinball", (0.1,), 0.1), ("huber", (0.2,), 0.07)]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("name", "parameters", "lam"), DUALS)
def test_dual_descent_reaches_a_small_duality_gap(name, parameters, lam, intercept):
    """Primal and dual values are worked out here: their gap bounds the distance to the optimum."""
    X, y = make_data(regression="epsilon" in name or name == "huber")
    loss, chunk = LOSSES[name](*parameters), chunk_of(X, y)
    problem = Problem(loss, L2(lam), 12, fit_intercept=intercept, tol=1e-6)
    result = driver.learn(DualDescent(), problem, chunk, driver.Plan(3000))
    assert result.status is Status.CONVERGED
    Z = np.column_stack([X, np.full(200, float(intercept))])  # the intercept is a penalised feature
    dual, origin, c = result.state.dual, result.state.origin, 1 / (lam * 200)
    assert origin == (pytest.approx(y.mean()) if intercept and np.any(np.abs(y) != 1.0) else 0.0)
    w = np.append(result.coef, result.intercept - origin)  # pulled to the mean of numbers
    primal = w @ w / 2 + c * np.sum(FORMULAS[name](y, Z @ w + origin, *parameters))
    conjugate = c * np.sum(CONJUGATES[name](y, -dual / c)) + origin * np.sum(dual)
    np.testing.assert_allclose(Z.T @ dual, w, atol=1e-9)
    gap = primal + w @ w / 2 + conjugate
    assert -1e-9 * primal <= gap <= 2e-6 * primal


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("name", "seed", "tol"),
    [("hinge", 10, 1e-4), ("hinge", 3, 1e-4), ("logistic", 33, 1e-4), ("squared_hinge", 18, 1e-2)],
)
def test_dual_descent_is_done_only_when_the_gap_is_as_small_as_asked(name, seed, tol, threads):
    """Not the gap of the terms as rows were visited: that was up to twice too small."""
    X, y = make_data(seed=seed)
    problem = Problem(LOSSES[name](), L2(0.003), 12, tol=tol, seed=seed)
    solver = DualDescent(threads=threads)
    result = driver.learn(solver, problem, chunk_of(X, y), driver.Plan(3000))
    assert result.status is Status.CONVERGED
    Z = np.column_stack([X, np.ones(200)])
    w, c = np.append(result.coef, result.intercept), 1 / (0.003 * 200)
    primal = w @ w / 2 + c * np.sum(FORMULAS[name](y, Z @ w))
    gap = primal + w @ w / 2 + c * np.sum(CONJUGATES[name](y, -result.state.dual / c))
    assert gap <= tol * primal
    assert result.residual == pytest.approx(gap / primal, rel=1e-6, abs=1e-12)


def test_dual_descent_without_a_tolerance_still_reaches_the_optimum():
    """Rows that were put to rest too early must be woken even if no tolerance ever asks for it."""
    X, y = make_data()
    problem = Problem(losses.Hinge(), L2(0.02), 12, fit_intercept=False)
    values = []
    for tol in (None, 1e-9):
        chunk = chunk_of(X, y)
        p = dataclasses.replace(problem, tol=tol)
        result = driver.learn(DualDescent(), p, chunk, driver.Plan(3000))
        values.append(driver.objective(p, chunk, result.coef, result.intercept))
    assert values[0] == pytest.approx(values[1], rel=1e-8)


def objective(name, X, y, precision):
    def value(v):
        return np.mean(FORMULAS[name](y, X @ v[:-1] + v[-1])) + precision @ v[:-1] ** 2 / 2

    return value


@pytest.mark.parametrize("direct", [600, 0], ids=["factored", "conjugate gradients"])
@pytest.mark.parametrize("name", SMOOTH)
def test_newton_reaches_the_optimum_of_a_general_minimiser(name, direct):
    X, y = make_data(regression="epsilon" in name)
    weights = np.linspace(0.5, 2.0, 12)
    problem = Problem(LOSSES[name](), WeightedL2(weights, 0.02), 12, tol=1e-12)
    result = driver.learn(Newton(direct), problem, chunk_of(X, y), driver.Plan(300))
    f = objective(name, X, y, 0.02 * weights)
    best = minimize(f, np.zeros(13), method="BFGS", options={"gtol": 1e-7, "maxiter": 5000})
    assert result.status is Status.CONVERGED
    assert f(np.append(result.coef, result.intercept)) <= best.fun * (1 + 1e-7)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_dual_descent_agrees_with_liblinear(loss):
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    X, y = make_data()
    lam = 0.02
    if loss == "logistic":
        peer: Any = LogisticRegression(
            C=1 / (200 * lam), solver="liblinear", tol=1e-8, max_iter=100000
        )
    else:
        peer = LinearSVC(C=1 / (200 * lam), loss=loss, dual=True, tol=1e-8, max_iter=10**6)
    peer.fit(X, y)
    problem = Problem(LOSSES[loss](), L2(lam), 12, tol=1e-9)
    result = driver.learn(DualDescent(), problem, chunk_of(X, y), driver.Plan(20000))
    np.testing.assert_allclose(result.coef, peer.coef_[0], atol=1e-3)
    assert result.intercept == pytest.approx(peer.intercept_[0], abs=1e-3)


# ------------------------------------------------ behaviour around the updates


def test_no_weights_are_unit_weights():
    X, y = make_data()
    plain = driver.whole(chunk_of(X, y).rows, y)
    problem = Problem(Logistic(), L2(0.1), 12)
    order = visits(200)
    close(feed(Pegasos(3), problem, plain, order), feed(Pegasos(3), problem, chunk_of(X, y), order))


@pytest.mark.parametrize("name", ["dcd", "newton"])
def test_integer_weights_are_repetitions_at_the_optimum(name):
    X, y = make_data()
    weight = np.arange(200) % 3
    problem = Problem(Logistic(), L2(0.02), 12, tol=1e-11)
    models = []
    for chunk in (
        chunk_of(X, y, weight=weight),
        chunk_of(np.repeat(X, weight, 0), np.repeat(y, weight)),
    ):
        result = driver.learn(READY[name], problem, chunk, driver.Plan(3000))
        models.append((result.coef, result.intercept))
    close(*models, tol=1e-4)


@pytest.mark.parametrize("name", sorted(set(READY) - {"dropout_pegasos", "weighted_pegasos"}))
def test_permuted_features_permute_the_coefficients(name):
    """Dropout draws by feature number, and weights belong to features: those two are exempt."""
    solver = READY[name]
    penalty = L1(0.01) if solver.default_penalty == "l1" else L2(0.01)
    X, y = make_data()
    loss = losses.Hinge() if name == "smoothed_newton" else Logistic()
    problem, swap = Problem(loss, penalty, 12), np.random.default_rng(0).permutation(12)
    orders = [visits(200)] if solver.streaming else [chunk_of(X, y).order] * 12
    coef, bias = feed(solver, problem, chunk_of(X, y), *orders)
    close(feed(solver, problem, chunk_of(X[:, swap], y), *orders), (coef[swap], bias), tol=1e-8)


@pytest.mark.parametrize("name", ["sgd", "fobos"])
def test_divergence_is_reported_and_the_last_finite_model_kept(name):
    X, y = make_data(regression=True)
    solver = dataclasses.replace(READY[name], schedule=schedules.Constant(1e6))
    problem = Problem(losses.LeastSquares(), L2(1e-3), 12)
    result = driver.learn(solver, problem, chunk_of(X, y), driver.Plan(50))
    assert result.status is Status.DIVERGED
    assert np.all(np.isfinite(result.coef))
    assert math.isfinite(result.intercept)
    assert result.passes < 50


@pytest.mark.parametrize("name", ["fobos", "rda", "truncated_gradient"])
def test_all_zero_only_where_the_penalty_outweighs_every_gradient(name):
    """Around the largest mean gradient at zero; steps are short, so the answer is clear-cut."""
    X, y = make_data()
    solver = {
        "fobos": FOBOS(schedules.InverseRoot(0.01), batch=200),
        "rda": RDA(gamma=20.0, batch=200),
        "truncated_gradient": TruncatedGradient(schedules.InverseRoot(0.01), every=1, batch=200),
    }[name]
    largest = np.max(np.abs(X.T @ logistic_slope(y, np.zeros(200)) / 200))
    for factor, zero in ((1.01, True), (0.9, False)):
        problem = Problem(Logistic(), L1(factor * largest), 12, fit_intercept=False, tol=1e-10)
        result = driver.learn(solver, problem, chunk_of(X, y), driver.Plan(30))
        assert (result.status is Status.ALL_ZERO) == zero
        assert np.any(result.coef) != zero


def test_standing_still_at_zero_in_the_first_pass_is_not_convergence():
    """The first mean gradients may all lie below the threshold and later ones above it."""
    X, y = make_data()
    solver = ReweightedL1(gamma=2.0, epsilon=2.0, batch=200)
    # Theta_1 = 1 holds everything at zero in step 1; from step 2 on Theta is 1/epsilon
    largest = np.max(np.abs(X.T @ logistic_slope(y, np.zeros(200)) / 200))
    problem = Problem(Logistic(), L1(1.02 * largest), 12, fit_intercept=False, tol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = driver.learn(solver, problem, chunk_of(X, y), driver.Plan(50))
    assert result.passes > 1
    assert np.any(result.coef)


def test_two_threads_reach_the_same_dual_optimum():
    X, y = make_data()
    values = []
    for threads in (1, 2):
        chunk = chunk_of(X, y, "csr")
        problem = Problem(losses.Hinge(), L2(0.03), 12, tol=1e-7)
        result = driver.learn(DualDescent(threads=threads), problem, chunk, driver.Plan(5000))
        assert result.status is Status.CONVERGED
        values.append(driver.objective(problem, chunk, result.coef, result.intercept))
    assert values[0] == pytest.approx(values[1], rel=1e-5)
