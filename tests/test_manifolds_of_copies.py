"""RDA+ where groups share features: identification and local phase on the copies, whose sums are
the weights."""

from __future__ import annotations

from dataclasses import replace

import clarabel
import numpy as np
import pytest
from scipy import sparse

from conftest import chunk_of
from thresher import LinearClassifier, LinearRegressor, train
from thresher.losses import LeastSquares, Logistic
from thresher.penalties import GroupL2, SparseGroupL2, edge_groups, pattern_of
from thresher.solvers import LPS, RDA, Problem, ProximalNewton, RDAPlus, driver
from thresher.solvers._manifold import Units, of_copies
from thresher.solvers._views import View, copied_columns, gradient_at, predicted
from thresher.solvers.base import Near
from thresher.solvers.stream import Facts, Stream

N, D = 300, 12
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, D)) * (RNG.random((N, D)) < 0.7)
NUMBERS = X[:, 2] - X[:, 3] + 0.5 * X[:, 6] + 0.7 + 0.5 * RNG.normal(size=N)
SIGNS = np.where(NUMBERS > 0.0, 1.0, -1.0)
OVERLAPPING = [[0, 1, 2], [2, 3], [3, 4, 5, 6], [6, 7], [7, 8, 9, 0], [10, 11]]
TWICE = [[0], [0], [1], *([j] for j in range(1, D))]
PENALTIES = {
    "groups": GroupL2(OVERLAPPING, 0.06),
    "elastic": GroupL2(OVERLAPPING, 0.06, elastic=0.2),
    "sparse groups": SparseGroupL2(OVERLAPPING, 0.04, 0.5),
    "graph": GroupL2(edge_groups([(j, j + 1) for j in range(D - 1)], D), 0.06),
    "one feature twice": GroupL2(TWICE, 0.06),
}


def parts_of(chunk, size=70):
    n = chunk.order.size
    return [chunk._replace(order=chunk.order[k : k + size]) for k in range(0, n, size)]


def clarabels_weights(penalty, X, y):
    """Of least squares: min 1/(2n) ||y - X A v - b||^2 + sum_g weight_g ||v_g||, and w = A v."""
    copies, groups, n = penalty.order.size, penalty.n_groups, y.size
    A = np.zeros((X.shape[1], copies))
    A[penalty.order, np.arange(copies)] = 1.0
    Z = np.column_stack([X @ A, np.ones(n)])
    P = sparse.block_diag([Z.T @ Z / n, np.zeros((groups, groups))], format="csc")
    weights = [penalty.weight(g) for g in range(groups)]
    q = np.concatenate([-Z.T @ y / n, weights])
    lines, cones = [], []
    for g in range(groups):
        start, stop = penalty.pointers[g], penalty.pointers[g + 1]
        block = np.zeros((stop - start + 1, copies + 1 + groups))
        block[0, copies + 1 + g] = -1.0
        block[1 + np.arange(stop - start), np.arange(start, stop)] = -1.0
        lines.append(block)
        cones.append(clarabel.SecondOrderConeT(stop - start + 1))
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-11
    G = sparse.csc_matrix(np.concatenate(lines))
    solved = clarabel.DefaultSolver(
        sparse.triu(P, format="csc"), q, G, np.zeros(G.shape[0]), cones, options
    ).solve()
    x = np.array(solved.x)
    return A @ x[:copies], x[copies]


@pytest.mark.parametrize("solver", [RDAPlus(), RDAPlus(least_rows=0), LPS()])
def test_the_optimum_is_that_of_clarabel(solver):
    problem = Problem(LeastSquares(), PENALTIES["groups"], D, tol=1e-8)
    found = driver.learn(solver, problem, chunk_of(X, NUMBERS), driver.Plan(60))
    w, b = clarabels_weights(PENALTIES["groups"], X, NUMBERS)
    assert found.status.name == "CONVERGED"
    np.testing.assert_allclose(found.coef, w, atol=1e-5)
    assert found.intercept == pytest.approx(b, abs=1e-5)
    assert 0 < np.count_nonzero(found.coef) < D


@pytest.mark.parametrize(
    ("name", "layout"), [*((name, "dense") for name in PENALTIES), ("groups", "csr")]
)
def test_the_optimum_is_that_of_proximal_newton(name, layout):
    """In memory, in a stream by sums over its rows, and in one on a sample of them."""
    problem = Problem(Logistic(), PENALTIES[name], D, tol=1e-8)
    chunk = chunk_of(X, SIGNS, layout)
    exact = replace(problem, tol=1e-15)
    best = driver.learn(ProximalNewton(), exact, chunk, driver.Plan(300))
    ways = [driver.learn(RDAPlus(least_rows=0), problem, chunk, driver.Plan(60))]
    ways.append(driver.learn(LPS(gradient_fraction=0.5), problem, chunk, driver.Plan(400)))
    for solver in (RDAPlus(least_rows=0), RDAPlus(least_rows=0, reservoir=N)):
        stream = Stream.open(problem, solver, chunk, Facts(N))
        ways.append(driver.run(stream, [parts_of(chunk)] * 60, 60))
        stream.check(D, 1)
    for found in ways:
        assert found.status.name == "CONVERGED"
        np.testing.assert_allclose(found.coef, best.coef, atol=2e-5)
        assert np.array_equal(found.coef == 0.0, best.coef == 0.0)
        assert found.intercept == pytest.approx(best.intercept, abs=2e-5)
    assert 0 < np.count_nonzero(best.coef) < D


def test_copies_are_a_view():
    """Predictions and gradients are those of columns that are written out."""
    penalty = PENALTIES["groups"]
    problem = of_copies(Problem(Logistic(), penalty, D))
    units = Units.of(penalty, D)
    written = X[:, penalty.order]
    v = RNG.normal(size=penalty.order.size)
    whole = View.whole(chunk_of(X, SIGNS), units.members)
    plain = View.whole(chunk_of(written, SIGNS))
    p = predicted(whole, v, 0.3)
    np.testing.assert_allclose(p, written @ v + 0.3)
    np.testing.assert_allclose(units.summed(v), [v[penalty.order == j].sum() for j in range(D)])
    few = np.array([1, 2, 3, 5])
    for view in (whole, copied_columns(whole, few)):
        got, wanted = (gradient_at(problem, one, p) for one in (view, plain))
        np.testing.assert_allclose(got[few], wanted[few])
        looked = gradient_at(problem, view, p, few)
        np.testing.assert_allclose(looked[few], wanted[few])
        assert np.count_nonzero(looked[:-1]) == few.size
    assert copied_columns(whole, few).columns.tolist() == [1, 2, 3]


def test_patterns_are_those_of_the_copies():
    """A feature's weight is not zero as soon as one of its copies is not."""
    penalty = PENALTIES["groups"]
    problem = Problem(Logistic(), penalty, D)
    chunk = chunk_of(X, SIGNS)
    stream = Stream.open(problem, RDAPlus(least_rows=0, gamma=2.0, every=1), chunk, Facts(N))
    stream.update(chunk)
    state, solver = stream.state, RDA(gamma=2.0, batch=8)
    v = solver.coordinates(problem, state.dual_of(problem))
    alive = np.array([np.any(part) for part in np.split(v, penalty.pointers[1:-1])])
    assert np.array_equal(state.pattern, alive)
    assert 0 < alive.sum() < alive.size
    w = solver.finish(problem, state.dual_of(problem)).coef
    np.testing.assert_allclose(Units.of(penalty, D).summed(v), w)
    assert np.array_equal(pattern_of(penalty.latent, v), alive)


def test_shards_are_merged_in_both_phases():
    problem, chunk = Problem(Logistic(), PENALTIES["groups"], D, tol=1e-8), chunk_of(X, SIGNS)
    stream = Stream.open(problem, RDAPlus(least_rows=0), chunk, Facts(N))
    for done in range(1, 15):
        solver, base = stream.solver, stream.state
        halves = np.split(chunk.order, [100])
        shards = [
            solver.update(problem, solver.copy(base), chunk._replace(order=half)) for half in halves
        ]
        stream.state = solver.merge(problem, shards, base, [100.0, 200.0])
        stream.between(None, done, 15)
    best = driver.learn(ProximalNewton(), replace(problem, tol=1e-15), chunk, driver.Plan(300))
    np.testing.assert_allclose(stream.function().coef, best.coef, atol=1e-5)


@pytest.mark.parametrize("solver", ["rda_plus", "lps"])
def test_groups_of_one_feature_each(solver):
    """As those of the columns of an array: they have no terms of coordinates either."""
    model = LinearRegressor(penalty=GroupL2(), alpha=0.05, solver=solver, tol=1e-9)
    plain = LinearRegressor(penalty="l1", alpha=0.05, solver="proximal_newton", tol=1e-14)
    np.testing.assert_allclose(model.fit(X, NUMBERS).coef_, plain.fit(X, NUMBERS).coef_, atol=1e-6)
    problem = Problem(LeastSquares(), GroupL2(np.arange(D), 0.05), D, tol=1e-9)
    chunk = chunk_of(X, NUMBERS)
    stream = Stream.open(problem, RDAPlus(least_rows=0), chunk, Facts(N))
    found = driver.run(stream, [parts_of(chunk)] * 20, 20)
    assert found.status.name == "CONVERGED"
    np.testing.assert_allclose(found.coef, plain.coef_[0], atol=1e-4)


def test_an_estimator_starts_where_a_neighbour_ended_and_reports_groups():
    model = LinearClassifier(
        "logistic", penalty=GroupL2({"first": [0, 1, 2], "second": [2, 3], "rest": range(3, D)}),
        solver="rda_plus", random_state=0,
    ).fit(X, SIGNS)  # fmt: skip
    assert model.status_.name == "CONVERGED"
    assert model.group_norms_.shape == (3,)
    problem = Problem(Logistic(), PENALTIES["groups"], D, tol=1e-8)
    near = driver.learn(LPS(), problem, chunk_of(X, SIGNS), driver.Plan(60))
    again = driver.learn(
        LPS(), problem, chunk_of(X, SIGNS), driver.Plan(60), Near.of(problem, near)
    )
    assert again.passes < near.passes
    np.testing.assert_allclose(again.coef, near.coef, atol=1e-6)


def test_a_file_is_streamed(tmp_path):
    path = tmp_path / "data.csv"
    np.savetxt(
        path, np.column_stack([X, SIGNS]), delimiter=",", comments="",
        header=",".join([*(f"x{j}" for j in range(D)), "y"]),
    )  # fmt: skip
    penalty = GroupL2([[f"x{j}" for j in group] for group in OVERLAPPING])
    params = {"loss": "logistic", "penalty": penalty, "alpha": 0.06}
    about = {"target": "y", "holdout": 0.0}
    stream = train(path, params={**params, "solver": "rda_plus", "tol": 1e-7}, memory=1, **about)
    whole = train(path, params={**params, "solver": "proximal_newton"}, **about)
    assert not stream.training["in_memory"]
    np.testing.assert_allclose(stream.function.coef, whole.function.coef, atol=1e-3)
