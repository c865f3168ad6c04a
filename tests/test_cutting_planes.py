"""Cutting planes against conic solvers, LIBLINEAR and our own solvers, in memory and in parts."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.svm import LinearSVC

from conftest import chunk_of, make_data
from thresher import LinearClassifier, LinearRegressor, train
from thresher.losses import EpsilonInsensitive, Hinge, Loss, Pinball
from thresher.penalties import L2, WeightedL2
from thresher.solvers import MCPA, OCAS, CuttingPlane, Problem, Status, driver
from thresher.solvers._cut_quadratic import minimise
from thresher.solvers._kinked_line import BINS, add_kinks, root_of_bins, search
from thresher.testing import check_loss

X, Y = make_data(n=300, d=6, seed=1)
NUMBERS = X @ np.arange(6.0) + np.random.default_rng(0).standard_t(2, size=300) + 3.0
SOLVERS = [
    CuttingPlane(),
    OCAS(),
    MCPA(partitions=1),
    MCPA(partitions=7, rest=2, recheck=10),
    MCPA(partitions=3, memory=1.0),
]


def solved(K, s, block, blocks):
    """The minimum of a'Ka/2 - s'a over products of simplices, by a conic solver."""
    import clarabel

    m = s.size
    sums = np.zeros((blocks, m))
    sums[block, np.arange(m)] = 1.0
    A = sparse.vstack([sparse.csc_matrix(sums), -sparse.eye_array(m)], format="csc")
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-11
    cones = [clarabel.ZeroConeT(blocks), clarabel.NonnegativeConeT(m)]
    b = np.append(np.ones(blocks), np.zeros(m))
    P = sparse.csc_matrix(np.triu(K))
    a = np.array(clarabel.DefaultSolver(P, -s, A, b, cones, options).solve().x)
    return 0.5 * a @ K @ a - s @ a


@pytest.mark.parametrize(("m", "rank", "blocks"), [(5, 3, 1), (40, 8, 3), (120, 150, 10)])
def test_the_quadratic_problem_is_solved_as_a_conic_solver_does(m, rank, blocks):
    rng = np.random.default_rng(m)
    S = rng.normal(size=(m, rank)) * np.logspace(0.0, -3.0, rank)
    K, s = S @ S.T, 0.1 * rng.normal(size=m)
    block = np.append(np.arange(blocks), rng.integers(blocks, size=m - blocks))
    alpha = np.zeros(m)
    alpha[:blocks] = 1.0
    minimise(K, s, block, blocks, alpha, 1e-11, 10_000)
    np.testing.assert_allclose(np.bincount(block, alpha), 1.0)
    assert alpha.min() >= 0.0
    assert 0.5 * alpha @ K @ alpha - s @ alpha == pytest.approx(
        solved(K, s, block, blocks), abs=1e-9
    )


@pytest.mark.parametrize("loss", [Hinge(), Pinball(0.4), EpsilonInsensitive(0.3)])
def test_the_search_finds_the_minimum_on_the_line(loss):
    y = Y if "classification" in loss.tasks else NUMBERS
    rng = np.random.default_rng(3)
    p, q = rng.normal(size=300), rng.normal(size=300) + 0.3 * y
    weight, order = np.full(300, 1 / 300), np.arange(300, dtype=np.uint32)
    value = np.vectorize(loss.value)

    def along(k):
        return 0.05 * k * k - 0.02 * k + float(weight @ value(y, p + k * (q - p)))

    k = search(y, weight, order, loss, p, q, 0.1, -0.02)
    best = minimize_scalar(along, bounds=(0.0, 10.0), method="bounded", options={"xatol": 1e-9})
    assert along(k) <= best.fun + 1e-9
    assert search(y, weight, order, loss, q, p, 0.1, 10.0) == 0.0  # uphill from the start


def test_thousands_of_equal_kinks_end_the_search_too():
    y, p, q = np.ones(2000), np.zeros(2000), np.full(2000, 2.0)
    order = np.arange(2000, dtype=np.uint32)
    assert search(y, np.full(2000, 1 / 2000), order, Hinge(), p, q, 1.0, 0.0) == 0.5


def test_bins_of_a_stream_give_the_same_place_and_add_up():
    chunk = chunk_of(X, Y)
    w, v = np.zeros(7), np.append(np.linspace(-1.0, 1.0, 6), 0.2)
    p, q = np.zeros(300), X @ v[:-1] + v[-1]
    weight = np.full(300, 1 / 300)
    exact = search(chunk.y, weight, chunk.order, Hinge(), p, q, 0.1, 0.0)
    bins, start = np.zeros(BINS), 0.0
    for part in np.array_split(chunk.order, 3):
        start = add_kinks(chunk.rows, chunk.y, weight, part, Hinge(), w, v, bins, start)
    assert root_of_bins(bins, start, 0.1) == pytest.approx(exact, rel=2e-3)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_the_optimum_of_the_hinge(solver):
    """Smoothed Newton's, by a gap that is a bound; resting cuts and a full memory change little."""
    given = {"loss": "hinge", "alpha": 0.01}
    best = LinearClassifier(solver="smoothed_newton", tol=1e-9, **given).fit(X, Y)
    model = LinearClassifier(solver=solver, tol=1e-6, max_iter=1000, **given).fit(X, Y)
    assert model.status_ is Status.CONVERGED
    problem, chunk = Problem(Hinge(), L2(0.01), 6), chunk_of(X, Y)
    values = [
        driver.objective(problem, chunk, m.coef_[0], float(m.intercept_[0])) for m in (best, model)
    ]
    assert values[0] - 1e-8 <= values[1] <= values[0] * (1.0 + 2e-6)


def test_numbers_pinballs_and_weights_of_features():
    lam = np.linspace(0.5, 2.0, 6)
    penalty = WeightedL2(lam, 0.01)
    for estimator, loss, y in (
        (LinearRegressor, "epsilon_insensitive", NUMBERS),
        (LinearClassifier, "pinball", Y),
    ):
        pair = [
            estimator(loss, penalty=penalty, solver=solver, tol=1e-8, max_iter=2000).fit(X, y)
            for solver in ("smoothed_newton", MCPA(partitions=5))
        ]
        np.testing.assert_allclose(*(np.ravel(m.coef_) for m in pair), rtol=2e-3, atol=2e-4)


def test_a_penalised_intercept_is_liblinears():
    solver = MCPA(penalize_intercept=True, partitions=4)
    ours = LinearClassifier("hinge", solver=solver, alpha=0.1 / 3, tol=1e-9).fit(X + 1.0, Y)
    peer = LinearSVC(loss="hinge", C=0.1, tol=1e-10, max_iter=10**6).fit(X + 1.0, Y)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=2e-4)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, atol=2e-4)


def test_without_an_intercept():
    model = LinearClassifier("hinge", solver="ocas", fit_intercept=False, alpha=0.1).fit(X, Y)
    assert model.intercept_[0] == 0.0
    assert model.status_ is Status.CONVERGED


def test_the_bound_lies_below_and_the_best_value_falls():
    problem, chunk = Problem(Hinge(), L2(0.01), 6, tol=1e-7), chunk_of(X, Y)
    optimum = driver.learn(MCPA(), problem, chunk, driver.Plan(500)).state.best_value
    solver, last = OCAS(), np.inf
    state = solver.between(problem, solver.init(problem, chunk), chunk, 0, None)
    for done in range(1, 40):
        state = solver.update(problem, state, chunk)
        state = solver.between(problem, state, chunk, done, None)
        assert state.lower <= optimum * (1.0 + 1e-9)
        assert state.best_value <= last
        last = state.best_value


def test_a_held_intercept_needs_fewer_passes_and_is_as_free():
    problem, chunk = _rare_columns()
    held = driver.learn(MCPA(partitions=1), problem, chunk, driver.Plan(500))
    free = driver.learn(_Unheld(partitions=1), problem, chunk, driver.Plan(500))
    assert held.state.best_value == pytest.approx(free.state.best_value, rel=2e-4)
    assert held.passes < free.passes


def _rare_columns():
    """Binary columns, most of them rare, a weak penalty."""
    rng = np.random.default_rng(2)
    rows = (rng.uniform(size=(3000, 60)) < rng.uniform(0.0, 0.3, size=60)).astype(float)
    y = np.where(rows @ rng.normal(size=60) + rng.normal(size=3000) > 1.0, 1.0, -1.0)
    return Problem(Hinge(), L2(1e-4), 60, tol=1e-4), chunk_of(rows, y)


class _Unheld(MCPA):
    def _held(self, s, precision):
        return None


def test_more_partitions_need_fewer_passes():
    passes = [
        LinearClassifier("hinge", solver=MCPA(partitions=p), alpha=1e-3, tol=1e-5).fit(X, Y).n_iter_
        for p in (1, 5, 30)
    ]
    assert passes[0] > passes[1] > passes[2]


@pytest.mark.parametrize("solver", [CuttingPlane(), MCPA(partitions=4)], ids=["naive", "mcpa"])
def test_rows_in_parts_reach_the_same_optimum(solver):
    """Two passes a round instead of one, and bins instead of kinks; nothing else changes."""
    given = {"loss": "hinge", "alpha": 0.01, "tol": 1e-4, "max_iter": 2000}
    parts = train(X, Y, memory=1, holdout=0.0, params={"solver": solver, **given})
    whole = LinearClassifier(solver="smoothed_newton", scale=True, **given | {"tol": 1e-9})
    gaps = parts.estimator.decision_function(X) - whole.fit(X, Y).decision_function(X)
    assert parts.training["status"] == "CONVERGED"
    assert np.abs(gaps).max() < 0.1


def test_a_partition_is_a_function_of_the_row():
    """Shards that are merged cut as one machine does, whatever the order of the rows."""
    problem, chunk, solver = Problem(Hinge(), L2(0.01), 6), chunk_of(X, Y), MCPA(partitions=5)
    one = solver.update(problem, solver.init(problem), chunk)
    mixed = chunk._replace(order=np.random.default_rng(0).permutation(chunk.order))
    again = solver.update(problem, solver.init(problem), mixed)
    np.testing.assert_allclose(one.new_slopes, again.new_slopes, atol=1e-9)
    sizes = np.abs(one.new_offsets)
    assert np.all(sizes > 0.25 * sizes.mean())


@dataclass(frozen=True)
class Stairs(Loss):
    """Three lines of one's own."""

    def value(self, y, p):
        return max(0.0, 1.0 - y * p, 3.0 * (0.5 - y * p))

    def deriv(self, y, p):
        m = y * p
        return -3.0 * y if m < 0.25 else (-y if m < 1.0 else 0.0)

    def kinks(self, y):
        return ((0.25 * y, 2.0), (y, 1.0)) if y > 0.0 else ((y, 1.0), (0.25 * y, 2.0))


@dataclass(frozen=True)
class Wrong(Stairs):
    def kinks(self, y):
        return ((0.25 * y, 1.0), (y, 1.0)) if y > 0.0 else ((y, 1.0), (0.25 * y, 1.0))


def test_a_loss_of_ones_own():
    check_loss(Stairs())
    with pytest.raises(AssertionError, match="by its kinks"):
        check_loss(Wrong())
    model = LinearClassifier(Stairs(), solver="mcpa", alpha=0.01, tol=1e-6).fit(X, Y)
    assert model.status_ is Status.CONVERGED
    assert model.score(X, Y) > 0.8


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"loss": "logistic", "solver": "ocas"}, "offers kinks, which Logistic does not"),
        ({"penalty": "l1", "solver": "mcpa"}, "offers quadratic"),
        ({"alpha": 0.0, "solver": "ocas"}, "penalty on every weight"),
        ({"solver": OCAS(beyond=0.0)}, "beyond must lie in"),
        ({"solver": MCPA(partitions=0)}, "partitions must be at least 1"),
        ({"solver": MCPA(rest=0)}, "rest must be at least 1"),
    ],
)
def test_what_cannot_work_is_refused(params, message):
    with pytest.raises(ValueError, match=message):
        LinearClassifier(**{"loss": "hinge"} | params).fit(X, Y)


def test_cuts_of_other_partitions_are_refused():
    problem, chunk, solver = Problem(Hinge(), L2(0.01), 6), chunk_of(X, Y), MCPA(partitions=3)
    state = solver.update(problem, solver.init(problem), chunk)
    state = solver.between(problem, state, None, 1, None)
    solver.check_state(problem, state)
    for field, value, message in (
        ("block", state.block + 3, "other partitions"),
        ("alpha", -state.alpha - 1.0, "weights, mass or phase"),
        ("products", state.products[:1], "products has shape"),
    ):
        with pytest.raises(ValueError, match=message):
            solver.check_state(problem, state._replace(**{field: value}))


@pytest.mark.parametrize("solver", [CuttingPlane(), OCAS(), MCPA()], ids=repr)
@pytest.mark.parametrize("feature", [0.0, 1.0])
@pytest.mark.parametrize("whole", [True, False])
def test_features_that_say_nothing_leave_the_intercept(solver, feature, whole):
    """The mean hinge of a constant is least at that of more rows: 2 x 40 of 100."""
    y = np.repeat([1.0, -1.0], [40, 60])
    chunk = chunk_of(np.full((100, 3), feature), y)
    problem = Problem(Hinge(), L2(0.01), 3, tol=1e-6)
    if whole:
        found = driver.learn(solver, problem, chunk, driver.Plan(30))
        state = found.state
    else:
        solver = solver.for_stream(problem)
        state = solver.init(problem)
        for _ in range(40):
            state = solver.update(problem, state, chunk)
            state = solver.between(problem, state, None, 1, None)
    assert 0.8 + 1e-12 >= state.lower >= 0.8 - 1e-3
    assert state.best_value == pytest.approx(0.8, abs=1e-3)


@pytest.mark.parametrize("solver", ["cutting_plane", "ocas", "mcpa"])
def test_calls_without_the_end_of_a_pass_are_not_for_them(solver):
    model = LinearClassifier("hinge", solver=solver)
    assert not hasattr(model, "partial_fit")
    assert model.streams_files()


@pytest.mark.parametrize("solver", [CuttingPlane(), OCAS(), MCPA(partitions=4)])
def test_one_cut_can_be_the_optimum(solver):
    """Of classes of the same size and features that say nothing: it has no slope at all."""
    chunk = chunk_of(np.ones((40, 3)), np.tile([1.0, -1.0], 20))
    found = driver.learn(solver, Problem(Hinge(), L2(0.01), 3, tol=1e-6), chunk, driver.Plan(5))
    assert found.state.lower == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("solver", [CuttingPlane(), OCAS(), MCPA(partitions=4)])
@pytest.mark.parametrize("strength", [1e2, 1e5])
def test_a_strong_penalty_does_not_hold_the_intercept(solver, strength):
    """Weights are nearly zero, and the loss is nearly that of a constant, 2 x 40 of 100."""
    X = np.random.default_rng(0).normal(size=(100, 3))
    chunk = chunk_of(X, np.repeat([1.0, -1.0], [40, 60]))
    problem = Problem(Hinge(), L2(strength), 3, tol=1e-5)
    found = driver.learn(solver, problem, chunk, driver.Plan(40))
    assert found.state.best_value == pytest.approx(0.8, abs=0.01)
    assert found.state.best_value - found.state.lower <= 1e-5


def test_the_search_needs_no_parabola():
    y, p, q = np.array([1.0, 1.0, -1.0]), np.zeros(3), np.full(3, 0.5)
    order, weight = np.arange(3, dtype=np.uint32), np.full(3, 1 / 3)
    assert search(y, weight, order, Hinge(), p, q, 0.0, 0.0) == 2.0
    assert search(y, weight, order, Hinge(), p, p, 0.0, -1.0) == 0.0
    bins = np.zeros(BINS)
    start = add_kinks(
        chunk_of(np.zeros((3, 1)), y).rows, y, weight, order, Hinge(), np.zeros(2),
        np.array([0.0, 0.5]), bins, 0.0,
    )  # fmt: skip
    assert root_of_bins(bins, start, 0.0) == pytest.approx(2.0, rel=2e-3)


def test_a_little_beyond_needs_fewer_passes_than_the_published_places():
    """A tenth of the way, or none unless that would stand still."""
    problem, chunk = _rare_columns()

    def passes(solver):
        found = driver.learn(solver, problem, chunk, driver.Plan(500))
        assert found.status is Status.CONVERGED
        return found.passes

    assert passes(OCAS()) < passes(OCAS(beyond=0.1))
    assert passes(MCPA()) < passes(MCPA(beyond=0.1, on_demand=True))
