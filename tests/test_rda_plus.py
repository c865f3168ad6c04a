"""RDA+: the manifold is identified online and finished on; against other solvers and the KKT
conditions."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from conftest import chunk_of
from thresher import LinearClassifier, LinearRegressor
from thresher._rows import as_rows
from thresher.losses import LeastSquares, Logistic, SquaredHinge
from thresher.penalties import L1, ElasticNet, GroupL2, SparseGroupL2, WeightedL1, pattern_of
from thresher.solvers import LPS, RDA, Problem, ProximalNewton, RDAPlus, Status, driver
from thresher.solvers._manifold import Units, distance, tempted
from thresher.solvers.driver import Plan
from thresher.solvers.manifold_tracker import ManifoldTracker
from thresher.solvers.stream import Facts, Stream
from thresher.views.charts.manifold import manifold_chart

N, D = 400, 24
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, D)) * (RNG.random((N, D)) < 0.7)
TRUTH = np.where(np.arange(D) < 6, RNG.normal(size=D) * 2.0, 0.0)
NUMBERS = X @ TRUTH + 0.7 + 0.5 * RNG.normal(size=N)
SIGNS = np.where(NUMBERS > 0.0, 1.0, -1.0)
WEIGHT = RNG.random(N) + 0.5
GROUPS = np.arange(D) % 8
PENALTIES = {
    "l1": L1(0.03),
    "elastic net": ElasticNet(0.05, 0.6),
    "weighted": WeightedL1(np.linspace(0.2, 2.0, D), 0.03),
}


def problem_of(penalty, loss=None, **more):
    return Problem(loss or Logistic(), penalty, D, **more)


def learned(solver, problem, layout="dense", y=SIGNS, weight=None, **plan):
    return driver.learn(solver, problem, chunk_of(X, y, layout, weight=weight), Plan(**plan))


def gradient_of(problem, y, w, b, weight=None):
    """Mean gradient by NumPy, and its slope along the intercept."""
    weight = np.ones(N) if weight is None else weight
    slopes = np.array([problem.loss.deriv(a, p) for a, p in zip(y, X @ w + b, strict=True)])
    slopes = slopes * weight / weight.sum()
    return X.T @ slopes, slopes.sum()


def delta_by_hand(strength, ridge, w, g, slope):
    smooth = g + ridge * w
    r = np.where(
        w != 0.0,
        smooth + strength * np.sign(w),
        np.sign(g) * np.maximum(np.abs(g) - strength, 0.0),
    )
    return np.sqrt((r @ r + slope**2) / (w.size + 1))


# ---------------------------------------------------------------- the measure and the manifold


@pytest.mark.parametrize("sparse", [True, False])
def test_delta_is_the_subgradient_of_least_norm(sparse):
    rng = np.random.default_rng(0)
    for _ in range(20):
        w, g = rng.normal(size=9), 0.3 * rng.normal(size=9)
        w[rng.random(9) < 0.5] = 0.0
        if not sparse:
            w[:] = 0.0
        found = distance(L1(0.2), w, g, 0.1)
        assert found == pytest.approx(delta_by_hand(0.2, 0.0, w, g, 0.1), rel=1e-6)
        net = ElasticNet(0.4, 0.5)
        found = distance(net, w, g, 0.1)
        assert found == pytest.approx(delta_by_hand(0.2, 0.2, w, g, 0.1), rel=1e-4)


def test_delta_of_groups():
    """At a group that is not zero: gradient + weight w / ||w||; at zero what exceeds the weight."""
    penalty = GroupL2([0, 0, 1, 1, 1], 0.3)
    w, g = np.array([0.6, -0.8, 0.0, 0.0, 0.0]), np.array([0.1, 0.2, 1.0, -2.0, 2.0])
    first = g[:2] + 0.3 * np.sqrt(2.0) * w[:2]
    second = g[2:] * (1.0 - 0.3 * np.sqrt(3.0) / 3.0)
    by_hand = np.sqrt((first @ first + second @ second + 0.25) / 6)
    assert distance(penalty, w, g, 0.5) == pytest.approx(by_hand, rel=1e-4)


def test_nearly_strong_gradients_are_tempted():
    units = Units.of(L1(1.0), 4)
    w, g = np.array([0.0, 0.0, 0.5, 0.0]), np.array([0.9, 0.8, 3.0, -1.2])
    assert tempted(L1(1.0), units, w, g, 0.85).tolist() == [True, False, False, True]
    assert tempted(L1(1.0), units, w, g).tolist() == [False, False, False, True]


def test_units_of_groups():
    units = Units.of(GroupL2(["b", "a", "b", "c"]), 4)
    assert units.with_any(np.array([True, False, False, False])).tolist() == [False, True, False]
    assert units.coordinates(np.array([1, 2])).tolist() == [0, 2, 3]
    assert units.starts(np.array([1, 2])).tolist() == [0, 2, 3]


# ---------------------------------------------------------------- the optimum


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("solver", [RDAPlus(), RDAPlus(least_rows=0), LPS()])
def test_the_optimum_is_that_of_proximal_newton(solver, name):
    problem = problem_of(PENALTIES[name], tol=1e-9)
    found = learned(solver, problem, weight=WEIGHT, passes=40)
    exact = problem_of(PENALTIES[name], tol=1e-15)
    best = learned(ProximalNewton(), exact, weight=WEIGHT, passes=60)
    assert found.status.name == "CONVERGED"
    np.testing.assert_allclose(found.coef, best.coef, atol=1e-6)
    assert np.array_equal(found.coef == 0.0, best.coef == 0.0)
    assert found.intercept == pytest.approx(best.intercept, abs=1e-6)


def test_few_rows_begin_with_phase_two():
    problem = problem_of(L1(0.03), tol=1e-9)
    few, many = (learned(RDAPlus(least_rows=n), problem).state for n in (N + 1, N))
    assert (few.step, few.phase) == (0, 1)
    assert many.step > 0
    stream = Stream.open(problem, RDAPlus(), chunk_of(X, SIGNS), Facts(N))
    stream.update(chunk_of(X, SIGNS))
    assert stream.state.step > 0  # rows in parts are not known to be few


def test_a_wide_manifold_asks_for_no_hessian_in_memory():
    """Of a manifold of 400,000 features it would have 1.3 TB."""
    rows, width = 40, 10_000
    places = np.arange(rows * width)
    wide = csr_matrix((np.ones(rows * width), places, [*places[::width].tolist(), rows * width]))
    problem = Problem(Logistic(), L1(1e-3), wide.shape[1], tol=1e-3)
    chunk = driver.whole(as_rows(wide), np.where(np.arange(rows) % 2 == 0, 1.0, -1.0))
    found = driver.learn(RDAPlus(), problem, chunk, Plan(3))
    assert found.state.inside.sum() > wide.shape[1] // 2


def test_the_optimum_is_that_of_liblinear():
    """Whose intercept is penalised, so without one."""
    peer = LogisticRegression(
        l1_ratio=1.0, solver="liblinear", C=1.0 / (N * 0.03), fit_intercept=False, tol=1e-10,
        max_iter=10_000,
    ).fit(X, SIGNS)  # fmt: skip
    found = learned(RDAPlus(least_rows=0), problem_of(L1(0.03), fit_intercept=False, tol=1e-9))
    np.testing.assert_allclose(found.coef, peer.coef_[0], atol=1e-4)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("loss", [Logistic(), LeastSquares()])
def test_the_conditions_of_the_optimum_hold(loss, layout):
    y = NUMBERS if loss == LeastSquares() else SIGNS
    problem = problem_of(L1(0.04), loss, tol=1e-8)
    found = learned(RDAPlus(least_rows=0), problem, layout, y, WEIGHT)
    g, slope = gradient_of(problem, y, found.coef, found.intercept, WEIGHT)
    assert delta_by_hand(0.04, 0.0, found.coef, g, slope) <= 2e-8
    assert 0 < np.count_nonzero(found.coef) < D


def test_groups_become_zero_as_a_whole():
    """||g_group|| <= weight where it is zero, g = -weight w / ||w|| where it is not."""
    penalty = GroupL2(GROUPS, 0.04)
    problem = problem_of(penalty, tol=1e-8)
    found = learned(RDAPlus(least_rows=0), problem, passes=40)
    g, slope = gradient_of(problem, SIGNS, found.coef, found.intercept)
    weight, zero = 0.04 * np.sqrt(3.0), 0
    for group in range(8):
        w, mine = found.coef[group == GROUPS], g[group == GROUPS]
        if np.any(w):
            np.testing.assert_allclose(mine, -weight * w / np.linalg.norm(w), atol=1e-6)
        else:
            zero += 1
            assert np.linalg.norm(mine) <= weight + 1e-7
    assert abs(slope) < 1e-6
    assert 0 < zero < 8


def test_prox_steps_serve_groups_above_the_newton_threshold():
    problem = problem_of(GroupL2(GROUPS, 0.04), tol=1e-5)
    best = learned(LPS(), problem, passes=100)
    found = learned(LPS(newton_threshold=0), problem, passes=3000)
    assert (best.status.name, found.status.name) == ("CONVERGED", "CONVERGED")
    np.testing.assert_allclose(found.coef, best.coef, atol=2e-3)


def test_columns_serve_above_the_newton_threshold():
    problem = problem_of(L1(0.03), tol=1e-8)
    few, many = (
        learned(RDAPlus(least_rows=0, newton_threshold=t), problem, "csr") for t in (2, 2000)
    )
    np.testing.assert_allclose(few.coef, many.coef, atol=1e-6)


def test_a_part_of_the_gradient_and_of_the_rows_is_enough():
    problem = problem_of(L1(0.03), tol=1e-7)
    best = learned(RDAPlus(least_rows=0), problem)
    for solver in (RDAPlus, LPS):
        part = solver(gradient_fraction=0.3, hessian_rows=100)
        found = learned(part, problem, passes=100)
        assert found.status.name == "CONVERGED"
        np.testing.assert_allclose(found.coef, best.coef, atol=1e-5)


@pytest.mark.parametrize(
    "solver",
    [
        RDAPlus(least_rows=0, gamma=1e5),  # nothing but zeros after phase one: all have been missed
        RDAPlus(least_rows=0, gamma=1e-6),  # steps that lead far beyond the optimum
        RDAPlus(least_rows=0, coverage=0.01, online_passes=0.01, rho=1.0, tau=1),
        RDAPlus(least_rows=0, coverage=1.0, online_passes=3.0),
    ],
)
def test_a_manifold_that_is_not_the_right_one_costs_no_optimum(solver):
    problem = problem_of(L1(0.01), tol=1e-7)
    found, best = learned(solver, problem), learned(LPS(), problem, passes=50)
    assert found.status.name == "CONVERGED"
    np.testing.assert_allclose(found.coef, best.coef, atol=1e-4)


def test_phase_one_ends_when_the_pattern_is_stable_and_the_rows_were_seen():
    problem = problem_of(L1(0.15), tol=1e-6)
    chunk = chunk_of(X, SIGNS)
    solver, problem = RDAPlus(
        least_rows=0, tau=50, coverage=1.0, online_passes=20.0, batch=1
    ).prepare(problem, chunk)
    state = solver.init(problem, chunk)
    order = np.tile(chunk.order, 20)
    state = solver.update(problem, state, chunk._replace(order=order))
    assert N <= state.seen < order.size
    assert state.step - state.since >= 50
    coef = solver.finish(problem, state).coef
    assert np.array_equal(pattern_of(problem.penalty, coef), state.pattern)


def test_no_weights_above_the_largest_useful_strength():
    found = learned(RDAPlus(least_rows=0), problem_of(L1(10.0), tol=1e-6))
    assert (found.status.name, np.count_nonzero(found.coef)) == ("ALL_ZERO", 0)


# ---------------------------------------------------------------- streams


def parts_of(chunk, size=100):
    return [chunk._replace(order=chunk.order[k : k + size]) for k in range(0, N, size)]


@pytest.mark.parametrize("penalty", [L1(0.03), GroupL2(GROUPS, 0.03)], ids=["l1", "groups"])
def test_a_stream_finishes_by_sums_over_its_later_passes(penalty):
    problem, chunk = problem_of(penalty, tol=1e-7), chunk_of(X, SIGNS)
    stream = Stream.open(problem, RDAPlus(least_rows=0), chunk, Facts(N))
    found = driver.run(stream, [parts_of(chunk)] * 30, 30)
    best = learned(RDAPlus(least_rows=0), problem)
    assert found.status.name == "CONVERGED"
    assert 3 <= found.passes < 20
    np.testing.assert_allclose(found.coef, best.coef, atol=1e-5)
    assert np.array_equal(found.coef == 0.0, best.coef == 0.0)
    assert found.residual <= 1e-7
    stream.check(D, 1)


def test_merged_shards_take_the_newton_steps_of_one_stream():
    problem, chunk = problem_of(L1(0.03), tol=1e-7), chunk_of(X, SIGNS)
    alone = Stream.open(problem, RDAPlus(least_rows=0), chunk, Facts(N))
    driver.run(alone, [parts_of(chunk)] * 2, 2)
    solver, problem, state = alone.solver, alone.problem, alone.state
    assert state.phase == 1
    state = solver.between(problem, state, None, 2, 30)
    one = solver.update(problem, state, chunk)
    shards = [
        solver.update(problem, solver.copy(state), chunk._replace(order=part))
        for part in np.split(chunk.order, [150])
    ]
    merged = solver.merge(problem, shards, state, [150.0, 250.0])
    for name in ("sums", "hessian", "value", "mass"):
        np.testing.assert_allclose(getattr(merged, name), getattr(one, name), rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="different phases"):
        solver.merge(problem, [merged, solver.init(problem)], state, [1.0, 1.0])


def test_partial_fit_is_dual_averaging():
    plus, plain = (
        LinearClassifier("logistic", penalty="l1", alpha=0.02, solver=solver)
        for solver in (
            RDAPlus(least_rows=0, gamma=3.0, origin=0.0),
            RDA(gamma=3.0, batch=8, origin=0.0),
        )
    )
    for part in np.array_split(np.arange(N), 5):
        for model in (plus, plain):
            model.partial_fit(X[part], SIGNS[part], classes=[-1.0, 1.0])
    np.testing.assert_allclose(plus.coef_, plain.coef_, atol=1e-12)


def test_a_state_from_a_file_is_checked():
    problem, chunk = problem_of(L1(0.03), tol=1e-7), chunk_of(X, SIGNS)
    stream = Stream.open(problem, RDAPlus(least_rows=0), chunk, Facts(N))
    driver.run(stream, [parts_of(chunk)] * 3, 3)
    good = stream.state
    for bad in (
        good._replace(hessian=np.zeros((3, 3))),
        good._replace(phase=7),
        good._replace(inside=np.full(D, 5, np.int8)),
        good._replace(length=0.0),
        good._replace(point=np.zeros(D)),
    ):
        with pytest.raises(ValueError, match="state"):
            stream.solver.check_state(stream.problem, bad)
    stream.solver.check_state(stream.problem, good)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rho": 0.0}, "rho"), ({"tau": 0}, "tau"), ({"coverage": 2.0}, "coverage"),
        ({"gamma": -1.0}, "gamma"), ({"online_passes": 0.0}, "online_passes"),
        ({"gradient_fraction": 0.0}, "gradient_fraction"), ({"hessian_rows": -1}, "hessian_rows"),
        ({"newton_threshold": -1}, "newton_threshold"), ({"goal": -1.0}, "goal"),
        ({"floor": -1.0}, "floor"),
    ],
)  # fmt: skip
def test_impossible_options_are_named(options, said):
    with pytest.raises(ValueError, match=said):
        learned(RDAPlus(least_rows=0, **options), problem_of(L1(0.03)))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tau": 2.5}, "tau must be a whole number, got 2.5"),
        ({"reservoir": "many"}, "reservoir must be a whole number, got 'many'"),
        ({"rho": "word"}, "rho must be a number, got 'word'"),
        ({"gamma": True}, "gamma must be a number, got True"),
        ({"newton_threshold": None}, "newton_threshold must be a whole number, got None"),
    ],
)
def test_options_that_are_no_numbers_are_named(options, said):
    with pytest.raises(ValueError, match=f"RDAPlus: {said}"):
        learned(RDAPlus(least_rows=0, **options), problem_of(L1(0.03)))


@pytest.mark.parametrize("loss", [LeastSquares(), SquaredHinge()])
def test_slopes_without_a_limit_do_not_throw_phase_one_away(loss):
    """Strong correlations, few rows, targets in large units: the first steps are the longest."""
    rng = np.random.default_rng(0)
    Z = X + 3.0 * rng.normal(size=(N, 1))
    y = 1000.0 * NUMBERS if loss == LeastSquares() else SIGNS
    chunk, problem = chunk_of(Z, y), problem_of(L1(0.03), loss, tol=1e-8)
    stream = Stream.open(problem, RDAPlus(least_rows=0), chunk, Facts(N))
    constant = driver.mean_loss(problem, chunk, np.zeros(D), stream.solver.origin)
    for part in parts_of(chunk):
        stream.update(part)
        assert driver.mean_loss(problem, chunk, *stream.function()) < 5.0 * constant


def test_a_loss_without_curvature_is_refused():
    model = LinearClassifier("hinge", penalty="l1", solver="rda_plus")
    with pytest.raises(ValueError, match="curvature"):
        model.fit(X, SIGNS)


def test_three_classes_from_sparse_rows():
    y = np.digitize(NUMBERS, [-1.0, 1.0])
    options = {"penalty": "l1", "alpha": 0.02, "random_state": 0}
    found = LinearClassifier("logistic", solver="rda_plus", tol=1e-7, **options)
    best = LinearClassifier("logistic", solver="proximal_newton", tol=1e-12, **options)
    found.fit(csr_matrix(X), y)
    np.testing.assert_allclose(found.coef_, best.fit(X, y).coef_, atol=1e-4)


# ---------------------------------------------------------------- the tracker


def test_a_tracker_sees_dual_averaging_come_to_the_manifold():
    problem = problem_of(L1(0.1))
    best = learned(LPS(), problem_of(L1(0.1), tol=1e-8), passes=50)
    tracker = ManifoldTracker(problem.penalty, best.coef, every=10)
    driver.learn(RDA(gamma=2.0), problem, chunk_of(X, SIGNS), Plan(passes=20), tracker=tracker)
    assert len(tracker.sightings) == 20 * N // 10
    assert tracker.first_superset <= tracker.first_hit
    hit = next(s for s in tracker.sightings if s.step == tracker.first_hit)
    assert hit.exact
    assert hit.nonzeros == hit.found == np.count_nonzero(best.coef)
    assert tracker.sightings[-1].stability == 1.0
    assert tracker.stable_since > 0
    chart = manifold_chart(tracker)
    assert str(tracker.first_hit) in chart.caption
    assert chart.layers[0].y[-1] == tracker.sightings[-1].nonzeros


def test_a_tracker_counts_groups():
    tracker = ManifoldTracker(GroupL2([0, 0, 1, 1]), np.array([1.0, 0.0, 0.0, 0.0]))
    assert tracker.first_hit is tracker.first_superset is tracker.stable_since is None
    with pytest.raises(ValueError, match="not seen"):
        manifold_chart(tracker)
    tracker.look(1, np.ones(4))
    tracker.look(2, np.array([0.0, 3.0, 0.0, 0.0]))
    assert (tracker.first_superset, tracker.first_hit, tracker.stable_since) == (1, 2, 2)


def test_it_goes_on_where_it_ended():
    """Few rows of many features, and a loss that is flat far away: one go is not enough."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 400))
    y = 3.0 * X[:, 0] - 2.0 * X[:, 1]
    solver = RDAPlus(least_rows=0)
    model = LinearRegressor("huber", solver=solver, random_state=0).fit(X, y)
    assert model.status_ is Status.CONVERGED
    assert model.score(X, y) > 0.99
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        LinearRegressor("huber", solver=solver, max_iter=1, random_state=0).fit(X, y)


def test_the_pattern_of_a_sparse_group_has_the_zeros_within_it():
    w = np.array([0.5, 0.0, -2.0, 0.0, 0.0, 0.0])
    labels = [0, 0, 1, 1, 2, 2]
    assert pattern_of(SparseGroupL2(labels), w).tolist() == [1, 0, -1, 0, 0, 0]
    mixed = SparseGroupL2(labels, within=[0.0, 1.0, 1.0])  # no corners within the first
    assert pattern_of(mixed, w).tolist() == [1, 1, -1, 0, 0, 0]
    assert pattern_of(GroupL2(labels), w).tolist() == [1, 1, 0]


def test_a_state_with_a_pattern_of_groups_alone_is_watched_anew():
    """As files of before patterns within groups have them."""
    problem, chunk = problem_of(SparseGroupL2(GROUPS, 0.03), tol=1e-6), chunk_of(X, SIGNS)
    stream = Stream.open(problem, RDAPlus(least_rows=0), chunk, Facts(N))
    solver, problem = stream.solver, stream.problem
    old = solver.update(problem, stream.state, parts_of(chunk)[0])
    old = old._replace(pattern=np.zeros(8, np.int8), since=0)
    solver.check_state(problem, old)
    assert solver.update(problem, old, parts_of(chunk)[1]).pattern.size == D
    with pytest.raises(ValueError, match="pattern"):
        solver.check_state(problem, old._replace(pattern=np.zeros(5, np.int8)))
